package gbnf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func matcher(t testing.TB, text string) *Matcher {
	t.Helper()
	g, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	m, err := g.NewMatcher()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// whole says whether a grammar matches a text.
func whole(t testing.TB, grammar, text string) bool {
	m := matcher(t, grammar)
	return m.Fits([]byte(text)) && m.Advance([]byte(text)) == nil && m.Complete()
}

func TestNotation(t *testing.T) {
	for _, tt := range []struct {
		grammar  string
		yes, not []string
	}{
		{`root ::= "ab" | "c"`, []string{"ab", "c"}, []string{"", "a", "abc", "cc"}},
		{"# a comment\nroot ::= # here too\n  item (\",\" item)*\nitem ::= [a-c]+ # end", []string{"a", "abc,b"}, []string{"", "a,", "d"}},
		{"root ::= (\n \"a\" |\n \"b\"\n) \"c\"\r\n", []string{"ac", "bc"}, []string{"c", "ab"}},
		{`root ::= "x"{2,3}`, []string{"xx", "xxx"}, []string{"x", "xxxx"}},
		{`root ::= "x"{2} | "y"{2,} | "z"{0}`, []string{"", "xx", "yy", "yyyyy"}, []string{"x", "xxx", "y", "z"}},
		{`root ::= ("a" | "bc"){1,2} "d"?`, []string{"a", "abc", "bcad"}, []string{"", "aaa", "d", "b"}},
		{`root ::= "(" root ")" | "."`, []string{".", "(.)", "(((.)))"}, []string{"(.", "())", "(.))"}},
		{`root ::= "a" root | "b"`, []string{"b", "ab", strings.Repeat("a", 500) + "b"}, []string{"a", "ba"}},
		{`root ::= [^a-y\n]`, []string{"z", "é", "🦊", "\x00"}, []string{"a", "\n", "", "zz"}},
		{`root ::= [à-ÿ] . "\x41\u00e9\U0001F98A\"\\\t"`, []string{"éxAé🦊\"\\\t", "à🦊Aé🦊\"\\\t"}, []string{"exAé🦊\"\\\t"}},
		{`root ::= [-a] [a-] [\]\[^]`, []string{"--]", "aa[", "-a^"}, []string{"b-]", "---"}},
		{`root ::= "" | ("a"?)* "b"`, []string{"", "b", "aaab"}, []string{"a"}},
		{`root ::= empty empty "x"` + "\n" + `empty ::= | " "`, []string{"x", "  x"}, []string{"   x"}},
	} {
		for _, text := range tt.yes {
			if !whole(t, tt.grammar, text) {
				t.Errorf("%s\ndoes not match %q", tt.grammar, text)
			}
		}
		for _, text := range tt.not {
			if whole(t, tt.grammar, text) {
				t.Errorf("%s\nmatches %q", tt.grammar, text)
			}
		}
	}
}

func TestRefusedGrammars(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "no rule root",
		`start ::= "a"`:                      "no rule root",
		`root ::= "a`:                        "ends inside",
		`root ::= [a`:                        "ends inside",
		`root ::= ("a"`:                      "closing )",
		"root ::= \"a\"\nroot ::= \"b\"":     "defined twice",
		`root ::= other`:                     "other is not defined",
		`root = "a"`:                         "::= is expected",
		"root ::= \"a\"\n???":                "line 2",
		`root ::= *`:                         "nothing before the count",
		`root ::= "a"{5,2}`:                  "ends before it begins",
		`root ::= "a"{99999999999999999999}`: "more than",
		`root ::= "a"{1`:                     "closing }",
		`root ::= "a"{x}`:                    "number is expected",
		`root ::= "a"**`:                     "follows another",
		`root ::= "\q"`:                      "unknown escape",
		`root ::= "\u12"`:                    "hexadecimal",
		`root ::= [z-a]`:                     "ends before it begins",
		`root ::= <think>`:                   "not supported",
		`root ::= root "a"`:                  "left-recursive",
		`root ::= ("a"?)+ root "b"`:          "left-recursive",
		`root ::= ("a"?)* root "b"`:          "left-recursive",
		"root ::= e e root \"x\"\ne ::= f f\nf ::= | \"y\"":                   "left-recursive",
		"root ::= a\na ::= b \"x\"\nb ::= \"q\"? a":                           "left-recursive",
		"root ::= \"\xff\"":                                                   "UTF-8",
		`root ::= (("a"{1000}){1000}){1000} "b"{60000} "c"{60000} "d"{60000}`: "too large",
		`root ::= ` + strings.Repeat("(", 100):                                "nested deeper",
		strings.Repeat("a", MaxBytes+1):                                       "bytes",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
	g, err := Parse(`root ::= []`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.NewMatcher(); err == nil {
		t.Error("a grammar without any text has a matcher")
	}
}

// TestWorkIsBounded follows grammars whose ways multiply with each character.
func TestWorkIsBounded(t *testing.T) {
	for _, text := range []string{
		`root ::= "a" root "b" | "a" root "c" | "a" root "d" | "e"`,
		"root ::= x\nx ::= \"a\" x y | \"a\" x z | \"b\"\ny ::= \"p\" \"q\"\nz ::= \"p\" \"r\"",
	} {
		m := matcher(t, text)
		var err error
		for range 64 {
			if err = m.Advance([]byte("a")); err != nil {
				break
			}
		}
		if err == nil || m.Err() == nil {
			t.Errorf("%s\ngoes on with %d frames and %d states", text, len(m.frames), len(m.states))
		}
		if len(m.states) > maxStates || len(m.frames) > maxFrames+1 {
			t.Errorf("%d states, %d frames", len(m.states), len(m.frames))
		}
	}
}

// TestLongTextsAreForgotten wants memory that does not grow with the text.
func TestLongTextsAreForgotten(t *testing.T) {
	m := matcher(t, "root ::= \"[\" item{0,9000} \"]\"\nitem ::= [a-z] [0-9]")
	if err := m.Advance([]byte("[")); err != nil {
		t.Fatal(err)
	}
	for range 9000 {
		if err := m.Advance([]byte("a1")); err != nil {
			t.Fatal(err)
		}
		if len(m.states) > maxStates/2+8 {
			t.Fatalf("%d states", len(m.states))
		}
	}
	right := matcher(t, `root ::= "a" root | "b"`)
	for range 1000 {
		if err := right.Advance([]byte("a")); err != nil || len(right.frames) > 2 {
			t.Fatalf("a rule that ends with itself keeps %d calls, %v", len(right.frames), err)
		}
	}
	if m.Fits([]byte("a")) || !m.Fits([]byte("]")) || m.Advance([]byte("]")) != nil || !m.Finished() {
		t.Error("the count was lost")
	}
}

// shape is a random grammar without recursion, as GBNF and as a regular expression.
type shape struct{ gbnf, regex string }

func drawShape(t *rapid.T, depth int) shape {
	kinds := 3
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		s := rapid.StringOfN(rapid.RuneFrom([]rune("abé🦊")), 0, 3, -1).Draw(t, "literal")
		return shape{fmt.Sprintf("%q", s), "(?:" + regexp.QuoteMeta(s) + ")"}
	case 1:
		c := rapid.SampledFrom([]string{"[ab]", "[^a]", "[à-ÿ]", "[a-é]", "[^a-é🦊]", "[b🦊]"}).Draw(t, "class")
		return shape{c, c}
	case 2:
		return shape{".", "(?s:.)"}
	case 3:
		x := drawShape(t, depth-1)
		count := rapid.SampledFrom([]string{"*", "+", "?", "{2}", "{0,2}", "{1,}", "{1,3}", "{0}"}).Draw(t, "count")
		return shape{"(" + x.gbnf + ")" + count, "(?:" + x.regex + ")" + count}
	default:
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) shape { return drawShape(t, depth-1) }), 1, 3).Draw(t, "list")
		sep := [2]string{" ", ""}
		if rapid.Bool().Draw(t, "alternatives") {
			sep = [2]string{" | ", "|"}
		}
		var g, r []string
		for _, x := range list {
			g, r = append(g, x.gbnf), append(r, x.regex)
		}
		return shape{"(" + strings.Join(g, sep[0]) + ")", "(?:" + strings.Join(r, sep[1]) + ")"}
	}
}

func TestSameAsRegularExpressions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, 3)
		g, err := Parse("root ::= " + s.gbnf)
		if err != nil {
			t.Fatalf("%v in %s", err, s.gbnf)
		}
		re := regexp.MustCompile("^(?:" + s.regex + ")$")
		for range 5 {
			text := rapid.StringOfN(rapid.RuneFrom([]rune("abcé🦊")), 0, 6, -1).Draw(t, "text")
			m, err := g.NewMatcher()
			if err != nil {
				t.Fatal(err)
			}
			got := m.Advance([]byte(text)) == nil && m.Complete()
			if want := re.MatchString(text); got != want {
				t.Fatalf("%s matches %q: %v, as %s: %v", s.gbnf, text, got, s.regex, want)
			}
		}
	})
}

// TestClassesOfCharacters compares sets with the characters in and around them.
func TestClassesOfCharacters(t *testing.T) {
	edge := rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune{0, 0x7F, 0x80, 0xBF, 0xC0, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF}))
	rapid.Check(t, func(t *rapid.T) {
		lo, hi := edge.Draw(t, "lo"), edge.Draw(t, "hi")
		lo, hi = min(lo, hi), max(lo, hi)
		not := rapid.SampledFrom([]string{"", "^"}).Draw(t, "not")
		g, err := Parse(fmt.Sprintf(`root ::= "x" [%s\U%08x-\U%08x]`, not, lo, hi))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []rune{lo, hi, lo - 1, hi + 1, edge.Draw(t, "other"), (lo + hi) / 2} {
			if !utf8.ValidRune(c) {
				continue
			}
			m, err := g.NewMatcher()
			if err != nil {
				t.Fatal(err)
			}
			got := m.Advance([]byte("x"+string(c))) == nil && m.Complete()
			if want := (lo <= c && c <= hi) == (not == ""); got != want {
				t.Fatalf("%U in [%s%U-%U]: %v", c, not, lo, hi, got)
			}
		}
	})
}

// TestMaskIsWhatIsAllowed compares the mask of random vocabularies with each token alone.
func TestMaskIsWhatIsAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte("ab\xc3\xa9")), 0, 4), 1, 100).Draw(t, "pieces")
		end := int32(len(pieces))
		v := NewVocabulary(len(pieces)+1, func(i int32) []byte {
			if i == end {
				return []byte("a")
			}
			return pieces[i]
		}, func(i int32) bool { return i == end })
		grammar, err := Parse("root ::= " + drawShape(t, 3).gbnf)
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGuide(grammar, v)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			mask := slices.Clone(g.Mask())
			var allowed []int32
			for token := range end + 1 {
				ok := g.Allows(token)
				if ok {
					allowed = append(allowed, token)
				}
				if got := mask != nil && mask[token/64]&(1<<(token%64)) != 0; got != ok {
					t.Fatalf("token %d of %q: mask %v, alone %v", token, pieces, got, ok)
				}
			}
			if len(allowed) == 0 {
				if mask != nil {
					t.Fatal("an empty mask is not nil")
				}
				return
			}
			if err := g.Take(rapid.SampledFrom(allowed).Draw(t, "token")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`root ::= "a"`, "root ::= x\nx ::= [^a-z]+ (\"\\u00e9\" | .){2,3} x?", `root ::= root`, `root ::= "a"{0,3}{1}`,
		"root ::= ((a))\na ::= b*\nb ::= | \"x\" a", `root ::= <[1]>`, "root ::= [\\x00-\\U7FFFFFFF]",
	} {
		f.Add(seed, "aéx")
	}
	f.Fuzz(func(t *testing.T, text, answer string) {
		g, err := Parse(text)
		if err != nil {
			return
		}
		m, err := g.NewMatcher()
		if err != nil {
			return
		}
		for i := range len(answer) {
			fits := m.Fits([]byte(answer[i : i+1]))
			if err := m.Advance([]byte(answer[i : i+1])); (err == nil) != fits {
				t.Fatalf("fits %v, advance %v", fits, err)
			}
			if !fits {
				return
			}
		}
	})
}
