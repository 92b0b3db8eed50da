package jsongrammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/internal/schematest"
	"github.com/firstframe/firstframe/shared/gbnf"
)

func matches(t testing.TB, schema, text string) bool {
	t.Helper()
	grammar, err := FromSchema([]byte(schema))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return follows(t, grammar, text)
}

func follows(t testing.TB, grammar, text string) bool {
	t.Helper()
	g, err := gbnf.Parse(grammar)
	if err != nil {
		t.Fatalf("%v\n%s", err, grammar)
	}
	m, err := g.NewMatcher()
	if err != nil {
		t.Fatal(err)
	}
	return m.Advance([]byte(text)) == nil && m.Complete()
}

func TestSchemas(t *testing.T) {
	for _, tt := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"],"additionalProperties":false}`,
			[]string{`{"b":""}`, `{"a":1,"b":"x"}`, `{ "a": -7, "b": "é\n\u00e9", "c": null }`, "{\n  \"b\":\"\",\n  \"c\":null\n}"},
			[]string{`{}`, `{"a":1}`, `{"b":"","a":1}`, `{"b":"","d":1}`, `{,"b":""}`, `{"b":"",}`, `{"b":"\q"}`, `{"b":"\ud800"}`}},
		{`{"properties":{"a":{}},"required":["z"]}`, []string{`{"z":1}`, `{"a":[],"z":{"q":[1,"x",true]}}`}, []string{`{"a":1}`, `7`}},
		{`{"type":"object"}`, []string{`{}`, `{"x":{"y":[]}}`}, []string{`[]`, `{"x"}`}},
		{`{"type":"object","additionalProperties":false}`, []string{`{}`, `{ }`}, []string{`{"a":1}`}},
		{`{"type":"object","additionalProperties":{"type":"boolean"},"minProperties":1,"maxProperties":2}`,
			[]string{`{"a":true}`, `{"a":true,"b":false}`}, []string{`{}`, `{"a":1}`, `{"a":true,"b":true,"c":true}`}},
		{`{"type":"array","items":{"enum":["x",1,null]},"minItems":1,"maxItems":3}`,
			[]string{`["x"]`, `[1, null, "x"]`}, []string{`[]`, `["y"]`, `[1,1,1,1]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1}`,
			[]string{`[1]`, `[1,"x"]`}, []string{`[]`, `["x"]`, `[1,"x",2]`}},
		{`{"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":3,"maxItems":4}`,
			[]string{`[1,2,3]`, `[1,2,3,3]`}, []string{`[1,2]`, `[1,2,3,3,3]`}},
		{`{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3}}`,
			[]string{`[]`, `[1]`, `[1,2]`, `[1,2,3,3,3]`}, []string{`[3]`, `[1,3]`}},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"é🦊c"`, `"\"\\\u0041"`}, []string{`"a"`, `"abcd"`, `""`}},
		{`{"type":"string","pattern":"^[A-Z]{2}-\\d+(\\.x|\"q)?$"}`, []string{`"AB-1"`, `"AB-12.x"`, `"AB-1\"q"`}, []string{`"A-1"`, `"AB-"`, `"AB-1x"`, `"AB-1"q"`}},
		{`{"type":"string","pattern":"^[^a]..$"}`, []string{`"b\"c"`, `"\\\\\\"`, `"é🦊 "`}, []string{`"abc"`, `"b\nc"`, `"bc"`}},
		{`{"type":"string","format":"date"}`, []string{`"2024-02-28"`, `"1999-12-31"`}, []string{`"2024-02-30"`, `"2024-13-01"`, `"2024-11-31"`}},
		{`{"type":"string","format":"date-time"}`, []string{`"2024-02-28T23:59:59Z"`, `"2024-02-28T00:00:00.5+01:00"`}, []string{`"2024-02-28"`}},
		{`{"type":"integer","minimum":-3,"maximum":12}`, []string{`-3`, `-1`, `0`, `9`, `12`}, []string{`-4`, `13`, `1.0`, `-0`, `00`, `1e1`}},
		{`{"type":"integer","exclusiveMinimum":98,"maximum":1001.5}`, []string{`99`, `100`, `999`, `1001`}, []string{`98`, `1002`}},
		{`{"type":"number","minimum":0,"exclusiveMaximum":2}`, []string{`0`, `0.5`, `1.999`, `1`}, []string{`2`, `-0.1`, `2.0`, `1e5`}},
		{`{"type":"number","exclusiveMinimum":-2,"maximum":1}`, []string{`-1.5`, `-0.5`, `0`, `0.25`, `1`, `1.0`}, []string{`-2`, `1.5`, `-2.0`}},
		{`{"type":["string","null"],"maxLength":1}`, []string{`null`, `"x"`}, []string{`"xx"`, `1`}},
		{`{"type":["integer","number"]}`, []string{`1`, `-1.5e3`}, []string{`"x"`}},
		{`{"type":"string","enum":["a",1]}`, []string{`"a"`}, []string{`1`}},
		{`{"const":{"a":[1,"\"x"]}}`, []string{`{"a":[1,"\"x"]}`}, []string{`{"a":[1]}`}},
		{`{"anyOf":[{"type":"integer"},{"type":"string","maxLength":0}]}`, []string{`1`, `""`}, []string{`true`}},
		{`{"oneOf":[{"type":"integer"},{"$ref":"#/$defs/t"}],"$defs":{"t":{"type":"string"}}}`, []string{`1`, `"x"`}, []string{`true`}},
		{`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"object","properties":{"k":{"enum":["b","c"]}},"required":["k"]}]}`,
			[]string{`{"k":"a"}`, `{"k":"c"}`}, []string{`{"k":"d"}`}},
		{`{"allOf":[{"type":"boolean"}],"title":"t","description":"d"}`, []string{`true`}, []string{`1`}},
		{`{"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v","kids"]}},"$ref":"#/$defs/tree"}`,
			[]string{`{"v":1,"kids":[]}`, `{"v":1,"kids":[{"v":2,"kids":[]}]}`}, []string{`{"v":1}`}},
		{`{"type":"object","properties":{"a\"b":{"type":"null"}}}`, []string{`{}`, `{"a\"b":null}`}, []string{`{"a":null}`}},
		{`true`, []string{`1`, `"x"`, `[{}]`}, []string{``, `x`}},
	} {
		for _, text := range tt.yes {
			if !matches(t, tt.schema, text) {
				t.Errorf("%s refuses %s", tt.schema, text)
			}
		}
		for _, text := range tt.not {
			if matches(t, tt.schema, text) {
				t.Errorf("%s accepts %s", tt.schema, text)
			}
		}
	}
	for text, want := range map[string]bool{`{}`: true, `{"a":[1,{"b":null}]}`: true, `[]`: false, `{"a":}`: false, `{"a":1,}`: false} {
		if got := follows(t, Object(), text); got != want {
			t.Errorf("an object: %s is %v", text, got)
		}
	}
}

func TestRefusedSchemas(t *testing.T) {
	for schema, want := range map[string]SchemaError{
		`{"type":"array","uniqueItems":true}`:                               {Keyword: "uniqueItems"},
		`{"type":"array","contains":{}}`:                                    {Keyword: "contains"},
		`{"type":"object","properties":{"a":{"not":{}}}}`:                   {Keyword: "not", Path: "/properties/a"},
		`{"type":"object","patternProperties":{}}`:                          {Keyword: "patternProperties"},
		`{"type":"object","minProperties":2,"properties":{"a":{},"b":{}}}`:  {Keyword: "minProperties"},
		`{"type":"object","required":["a"],"additionalProperties":false}`:   {Keyword: "required"},
		`{"type":"number","multipleOf":0.5}`:                                {Keyword: "multipleOf"},
		`{"type":"number","minimum":0.5}`:                                   {Keyword: "minimum"},
		`{"type":"integer","minimum":5,"maximum":4}`:                        {Keyword: "minimum"},
		`{"type":"integer","minimum":1e20}`:                                 {Keyword: "minimum"},
		`{"type":"string","pattern":"a"}`:                                   {Keyword: "pattern"},
		`{"type":"string","pattern":"^(?=a)$"}`:                             {Keyword: "pattern"},
		`{"type":"string","format":"email"}`:                                {Keyword: "format"},
		`{"type":"string","minLength":3,"maxLength":2}`:                     {Keyword: "maxLength"},
		`{"type":"string","maxLength":-1}`:                                  {Keyword: "maxLength"},
		`{"type":"thing"}`:                                                  {Keyword: "type"},
		`{"enum":[]}`:                                                       {Keyword: "enum"},
		`{"type":"string","enum":[1]}`:                                      {Keyword: "enum"},
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`:                  {Keyword: "oneOf"},
		`{"oneOf":[{},{"type":"number"}]}`:                                  {Keyword: "oneOf"},
		`{"allOf":[{"type":"integer"},{"minimum":3}]}`:                      {Keyword: "allOf"},
		`{"anyOf":[{"type":"integer"}],"minimum":3}`:                        {Keyword: "minimum"},
		`{"$ref":"http://example.com/x"}`:                                   {Keyword: "$ref"},
		`{"$ref":"#/$defs/none"}`:                                           {Keyword: "$ref"},
		`{"if":{},"then":{}}`:                                               {Keyword: "if"},
		`{"items":[{}]}`:                                                    {Keyword: "items"},
		`{"properties":{"a":false}}`:                                        {Keyword: "false", Path: "/properties/a"},
		`{"$ref":"#"}`:                                                      {},
		`{"items":{"maxLength":60000},"prefixItems":[{"maxLength":60001}]}`: {},
		`7`:             {},
		`{`:             {},
		`{"a":1,"a":2}`: {},
		`{"type":"array","items":` + strings.Repeat(`{"items":`, 100) + `{}` + strings.Repeat(`}`, 101): {},
	} {
		_, err := FromSchema([]byte(schema))
		var got *SchemaError
		if !errors.As(err, &got) {
			t.Errorf("%.90s: %v", schema, err)
			continue
		}
		if got.Keyword != want.Keyword || got.Path != want.Path || got.Keyword != "" && !strings.Contains(err.Error(), got.Keyword) {
			t.Errorf("%.90s: %+v, want %+v", schema, got, want)
		}
	}
}

func TestRangesOfIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Int64Range(-1100, 1100)
		low, n := near.Draw(t, "low"), near.Draw(t, "n")
		high := low + rapid.Int64Range(0, 1200).Draw(t, "size")
		grammar, err := FromSchema(fmt.Appendf(nil, `{"type":"integer","minimum":%d,"maximum":%d}`, low, high))
		if err != nil {
			t.Fatal(err)
		}
		g, err := gbnf.Parse(grammar)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{n, low, high, low - 1, high + 1} {
			m, err := g.NewMatcher()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := m.Advance(fmt.Append(nil, n)) == nil && m.Complete(), low <= n && n <= high; got != want {
				t.Fatalf("%d in %d…%d: %v", n, low, high, got)
			}
		}
	})
}

// randomText walks through a grammar, byte by byte, and ends as soon as it may
// once it is long.
func randomText(t testing.TB, grammar string, rnd *rand.Rand) []byte {
	t.Helper()
	g, err := gbnf.Parse(grammar)
	if err != nil {
		t.Fatal(err)
	}
	const end = 256
	v := gbnf.NewVocabulary(end+1, func(i int32) []byte { return []byte{byte(i)} }, func(i int32) bool { return i == end })
	guide, err := gbnf.NewGuide(g, v)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for len(text) < 4000 {
		var may []int32
		for i, bits := range guide.Mask() {
			for ; bits != 0; bits &= bits - 1 {
				may = append(may, int32(64*i+trailing(bits)))
			}
		}
		if len(may) == 0 {
			t.Fatalf("nothing may follow %s", text)
		}
		next := may[rnd.IntN(len(may))]
		if i := slices.IndexFunc(may, func(b int32) bool { return b == '"' || b == '}' || b == ']' || b == end }); i >= 0 && rnd.IntN(3) == 0 {
			next = may[i]
		}
		if slices.Contains(may, end) && rnd.IntN(2) == 0 || next == end {
			return text
		}
		if err := guide.Take(next); err != nil {
			t.Fatal(err)
		}
		text = append(text, byte(next))
	}
	t.Fatalf("no end: %s", text)
	return nil
}

func trailing(bits uint64) int {
	n := 0
	for bits&1 == 0 {
		bits, n = bits>>1, n+1
	}
	return n
}

// TestEveryTextIsValid walks through the grammars of random schemas and has
// another implementation check the texts.
func TestEveryTextIsValid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 80 {
		schema := schematest.Random(rnd)
		grammar, err := FromSchema([]byte(schema))
		if err != nil {
			t.Fatalf("%v in %s", err, schema)
		}
		text := randomText(t, grammar, rnd)
		if err := schematest.Validate(schema, string(text)); err != nil {
			t.Fatalf("%s\nmakes %s\n%v", schema, text, err)
		}
	}
}

func FuzzFromSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"type":"integer","minimum":-5,"maximum":17}},"required":["a"]}`,
		`{"$ref":"#/$defs/x","$defs":{"x":{"type":"array","items":{"$ref":"#"}}}}`, `{"pattern":"^[a-z]+$"}`, `{"oneOf":[{"const":1},{"type":"string"}]}`,
		`{"type":"number","exclusiveMinimum":-2.5e1,"maximum":1e3}`, `true`, `{"enum":[{"a":[null]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		grammar, err := FromSchema(data)
		if err != nil {
			var own *SchemaError
			if !errors.As(err, &own) {
				t.Fatalf("%v", err)
			}
			return
		}
		if _, err := gbnf.Parse(grammar); err != nil {
			t.Fatalf("%v in\n%s", err, grammar)
		}
	})
}
