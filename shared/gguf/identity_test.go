package gguf_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

func spec() shared.SlotSpec {
	return shared.SlotSpec{SlotID: "story", Device: "cpu", KVType: "f16", PageTokens: 64}
}

// TestIdentityOfTheStorytellers pins the identities. The two hashes are kept on
// disk beside context pages: when their inputs change on purpose, the number in
// their domain has to be raised and the values here replaced.
func TestIdentityOfTheStorytellers(t *testing.T) {
	const (
		tokenizer = "sha256:9a238b3a5518"
		layout    = "sha256:ea1613e4df2e"
	)
	for file, want := range map[string]struct{ precision, digest string }{
		"storyteller-f16.gguf":  {"F16", "32e52065a5b1e29c0f6fea6b19618951d5e46aeeac08fbba2e7622ec93b32ac3"},
		"storyteller-q8_0.gguf": {"Q8_0", "89b019474aa81e5c299e0ed32d19d49460c3bf19d8aca446fadf19b8f4c730c8"},
		"storyteller-q4_0.gguf": {"Q4_0", "170e9ef00ee01b59dd50f0ee12b256063d8913498c29007990392946970135b3"},
	} {
		path := filepath.Join(models, file)
		f, err := gguf.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		opened, size, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := gguf.Digest(t.Context(), opened, size, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		id := f.Identity(digest, spec())
		if !id.Complete() {
			t.Errorf("%s: the identity is not complete: %v", file, id)
		}
		if id.Precision != want.precision {
			t.Errorf("%s: the precision is %s", file, id.Precision)
		}
		if id.ModelRevision != "sha256:"+want.digest {
			t.Errorf("%s: the revision is %s", file, id.ModelRevision)
		}
		if got := shared.ShortRevision(id.TokenizerRevision); got != tokenizer {
			t.Errorf("%s: the tokenizer is %s", file, got)
		}
		if got := shared.ShortRevision(id.LayoutRevision); got != layout {
			t.Errorf("%s: the layout is %s", file, got)
		}
	}
}

// revisions are the two hashes of a file.
func revisions(f *gguf.File) (tokenizer, layout string) {
	id := f.Identity("sha256:0", spec())
	return id.TokenizerRevision, id.LayoutRevision
}

// TestEveryKeyCounts changes one key at a time and looks at who notices.
func TestEveryKeyCounts(t *testing.T) {
	tokenizer, layout := revisions(mustRead(t, small()))
	for _, c := range []struct {
		change            ggufwrite.Key
		tokenizer, layout bool
	}{
		{ggufwrite.Str("general.name", "other"), true, false},
		{ggufwrite.U32("general.file_type", 1), false, false},
		{ggufwrite.U32("llama.block_count", 4), false, true},
		{ggufwrite.U16("llama.block_count", 3), false, true}, // the same number, another type
		{ggufwrite.F32("llama.rope.freq_base", 10001), false, true},
		{ggufwrite.Bool("llama.something.new", false), false, true},
		{ggufwrite.U32("llama.vocab_size", 8), true, true},
		{ggufwrite.Str("tokenizer.ggml.model", "gpt3"), true, false},
		{ggufwrite.Strs("tokenizer.ggml.tokens", "t1", "t0", "t2", "t3", "t4", "t5", "t6", "t7"), true, false},
		{ggufwrite.Strs("tokenizer.ggml.tokens", "t0t1", "", "t2", "t3", "t4", "t5", "t6", "t7"), true, false},
		{ggufwrite.Strs("tokenizer.ggml.merges", "t 1"), true, false},
		{ggufwrite.F32s("tokenizer.ggml.scores", 0, 1, 2, 3, 4, 5, 6, 8), true, false},
		{ggufwrite.I32s("tokenizer.ggml.token_type", 1, 1, 1, 1, 1, 1, 3, 1), true, false},
		{ggufwrite.U32("tokenizer.ggml.bos_token_id", 6), true, false},
		{ggufwrite.Bool("tokenizer.ggml.add_bos_token", false), true, false},
		{ggufwrite.Bool("tokenizer.ggml.add_space_prefix", true), true, false},
		{ggufwrite.Str("tokenizer.ggml.pre", "gpt-2"), true, false},
		{ggufwrite.Str("tokenizer.chat_template", "{{ messages  }}"), true, false},
		{ggufwrite.Str("x.unrelated", "2"), false, false},
	} {
		f := small()
		f.Set(c.change)
		gotTokenizer, gotLayout := revisions(mustRead(t, f))
		if (gotTokenizer != tokenizer) != c.tokenizer {
			t.Errorf("%s: the tokenizer revision differs: %v", c.change.Name, gotTokenizer != tokenizer)
		}
		if (gotLayout != layout) != c.layout {
			t.Errorf("%s: the layout revision differs: %v", c.change.Name, gotLayout != layout)
		}
	}
	for _, k := range small().Keys {
		f := small()
		f.Remove(k.Name)
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		header, err := read(b)
		if err != nil {
			continue // a key that has to be there
		}
		gotTokenizer, gotLayout := revisions(header)
		counts := k.Name == "general.name" || strings.HasPrefix(k.Name, "tokenizer.") || strings.HasPrefix(k.Name, "llama.")
		if (gotTokenizer != tokenizer || gotLayout != layout) != counts {
			t.Errorf("%s can be removed: %v", k.Name, !counts)
		}
	}
}

func TestSettingsCount(t *testing.T) {
	f := mustRead(t, small())
	base := gguf.LayoutSettings{EngineVersion: "0.5.0", Device: "cpu", KVType: "f16", FlashAttention: true, PageTokens: 64}
	seen := map[string]string{f.LayoutRevision(base): "the base"}
	for name, change := range map[string]func(*gguf.LayoutSettings){
		"engine":          func(s *gguf.LayoutSettings) { s.EngineVersion = "0.5.1" },
		"device":          func(s *gguf.LayoutSettings) { s.Device = "cuda:0" },
		"kv type":         func(s *gguf.LayoutSettings) { s.KVType = "q8_0" },
		"flash attention": func(s *gguf.LayoutSettings) { s.FlashAttention = false },
		"page":            func(s *gguf.LayoutSettings) { s.PageTokens = 32 },
	} {
		s := base
		change(&s)
		rev := f.LayoutRevision(s)
		if other, twice := seen[rev]; twice {
			t.Errorf("%s gives the same layout as %s", name, other)
		}
		seen[rev] = name
	}
	gpu := base
	gpu.Device, gpu.DeviceKind = "cuda:0", "sha256:kind"
	some, other := gpu, gpu
	some.GPULayers, other.DeviceKind = 4, "sha256:other"
	for name, s := range map[string]gguf.LayoutSettings{"GPU": gpu, "layers on the GPU": some, "another GPU": other} {
		rev := f.LayoutRevision(s)
		if earlier, twice := seen[rev]; twice {
			t.Errorf("%s gives the same layout as %s", name, earlier)
		}
		seen[rev] = name
	}
	one, two := base, base
	one.Device, two.Device = "cuda:0", "cuda:1"
	if f.LayoutRevision(one) != f.LayoutRevision(two) {
		t.Error("the number of a device changes the layout")
	}
	s := spec()
	id := f.Identity("sha256:0", s)
	s.ContextTokens, s.Threads, s.Parallel, s.Transfer, s.SlotID = 99, 9, 9, shared.TransferMmap, "other"
	if f.Identity("sha256:0", s) != id {
		t.Error("settings that are not identity change it")
	}
}

// TestRevisionsOfAnyMetadata gives files arbitrary keys and values: the order
// of keys never matters, and any change of a key that counts is seen.
func TestRevisionsOfAnyMetadata(t *testing.T) {
	name := rapid.SampledFrom([]string{"llama.a", "llama.b", "llama.", "llama.a.b", "tokenizer.a", "tokenizer.b", "tokenizer.ggml.z"})
	value := rapid.Custom(func(t *rapid.T) ggufwrite.Key {
		switch rapid.IntRange(0, 5).Draw(t, "type") {
		case 0:
			return ggufwrite.Str("", rapid.StringN(0, 6, 20).Draw(t, "string"))
		case 1:
			return ggufwrite.U32("", rapid.Uint32Range(0, 3).Draw(t, "number"))
		case 2:
			return ggufwrite.Strs("", rapid.SliceOfN(rapid.StringN(0, 2, 8), 0, 3).Draw(t, "strings")...)
		case 3:
			return ggufwrite.I32s("", rapid.SliceOfN(rapid.Int32Range(0, 2), 0, 3).Draw(t, "numbers")...)
		case 4:
			return ggufwrite.F32("", float32(rapid.IntRange(0, 3).Draw(t, "float")))
		default:
			return ggufwrite.Bool("", rapid.Bool().Draw(t, "bool"))
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		build := func(extra map[string]ggufwrite.Key, order []string) (string, string) {
			f := small()
			for _, n := range order {
				k := extra[n]
				k.Name = n
				f.Set(k)
			}
			f.Keys = rapid.Permutation(f.Keys).Draw(t, "order")
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			header, err := read(b)
			if err != nil {
				t.Fatal(err)
			}
			return revisions(header)
		}
		extra := rapid.MapOf(name, value).Draw(t, "keys")
		order := make([]string, 0, len(extra))
		for n := range extra {
			order = append(order, n)
		}
		slices.Sort(order)
		tokenizer, layout := build(extra, order)
		if again, againLayout := build(extra, order); again != tokenizer || againLayout != layout {
			t.Fatal("the order of keys matters")
		}
		changed, to := name.Draw(t, "changed"), value.Draw(t, "to")
		old, had := extra[changed]
		if had && old.Value.Type == to.Value.Type && old.Value.Elem == to.Value.Elem && old.Value.Count == to.Value.Count && bytes.Equal(old.Value.Raw, to.Value.Raw) {
			return
		}
		extra[changed] = to
		if !had {
			order = append(order, changed)
		}
		newTokenizer, newLayout := build(extra, order)
		isLayout := strings.HasPrefix(changed, "llama.")
		if (newTokenizer != tokenizer) == isLayout || (newLayout != layout) != isLayout {
			t.Fatalf("a change of %s: tokenizer differs %v, layout differs %v", changed, newTokenizer != tokenizer, newLayout != layout)
		}
	})
}

func TestCheckDeclared(t *testing.T) {
	id := shared.Identity{ModelRevision: "sha256:" + strings.Repeat("ab", 32), Precision: "Q8_0"}
	s := spec()
	if err := gguf.CheckDeclared(s, id); err != nil {
		t.Errorf("nothing was declared: %v", err)
	}
	s.DeclaredSHA256, s.DeclaredPrecision = strings.Repeat("AB", 32), "Q8_0"
	if err := gguf.CheckDeclared(s, id); err != nil {
		t.Errorf("the declaration is right: %v", err)
	}
	other := strings.Repeat("cd", 32)
	for _, c := range []struct {
		field, digest, precision string
		words                    []string
	}{
		{"sha256", other, "", []string{other, strings.Repeat("ab", 32)}},
		{"precision", "", "F16", []string{"F16", "Q8_0"}},
	} {
		s.DeclaredSHA256, s.DeclaredPrecision = c.digest, c.precision
		err := gguf.CheckDeclared(s, id)
		var e *shared.Error
		if !errors.As(err, &e) || e.Kind != shared.KindIdentity || e.Field != c.field || e.SlotID != "story" {
			t.Errorf("%s: got %v", c.field, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(e.Error(), w) {
				t.Errorf("%s: %q does not contain %s", c.field, e, w)
			}
		}
	}
}
