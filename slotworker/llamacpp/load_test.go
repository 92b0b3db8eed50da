package llamacpp

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

func pathRequest(precision string) slotworker.LoadRequest {
	return slotworker.LoadRequest{Path: modelPath(precision)}
}

// Both ways of loading, in three precisions: readable text, and the same logits
// bit for bit over the whole answer.
func TestLoadBothWays(t *testing.T) {
	for _, tt := range []struct {
		precision, name string
		repacked        bool
	}{{"f16", "Mia", false}, {"q8_0", "Lily", false}, {"q4_0", "Mia", true}} {
		t.Run(tt.precision, func(t *testing.T) {
			mapped := loadPath(t, tt.precision)
			prompt := tokenize(t, mapped, fox)
			tokens, want := greedy(t, newContext(t, mapped, small()), 0, prompt, 60)
			story := text(mapped, tokens)
			if !utf8.ValidString(story) || len(strings.Fields(story)) < 40 || !strings.Contains(story, "a friendly fox named "+tt.name) {
				t.Errorf("story %q", story)
			}
			data := modelBytes(t, tt.precision)
			for range 2 {
				copied := loadBytes(t, data)
				a, b := mapped.Info(), copied.Info()
				if (a.OwnBytes > 0) != tt.repacked || b.OwnBytes < b.WeightBytes*9/10 {
					t.Errorf("own bytes %d mapped, %d copied of %d", a.OwnBytes, b.OwnBytes, b.WeightBytes)
				}
				a.OwnBytes, b.OwnBytes = 0, 0
				if a != b || a.Layers != 4 || a.Embedding != 256 || a.Heads != 4 || a.HeadsKV != 4 || a.TrainedTokens != 2048 || a.Architecture != "llama" {
					t.Errorf("mapped %+v, copied %+v", a, b)
				}
				again, got := greedy(t, newContext(t, copied, small()), 1, prompt, 60)
				if !slices.Equal(again, tokens) {
					t.Fatalf("from bytes: %q", text(copied, again))
				}
				for i := range want {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("logits of step %d differ by %v", i, furthest(got[i], want[i]))
					}
				}
			}
		})
	}
}

func TestBufferMayBeReused(t *testing.T) {
	data := modelBytes(t, "q8_0")
	m := loadBytes(t, data)
	clear(data)
	tokens, _ := greedy(t, newContext(t, m, small()), 0, tokenize(t, m, fox), 20)
	if story := text(m, tokens); !strings.Contains(story, "fox named Lily") {
		t.Errorf("story %q", story)
	}
}

func TestLoadProgress(t *testing.T) {
	for name, req := range map[string]slotworker.LoadRequest{
		"path": pathRequest("f16"), "bytes": {Bytes: modelBytes(t, "f16")},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []float32
			req.Progress = func(p float32) bool { seen = append(seen, p); return true }
			load(t, req)
			if len(seen) < 2 || !slices.IsSorted(seen) || seen[0] < 0 || seen[len(seen)-1] < 0.99 || seen[len(seen)-1] > 1 {
				t.Errorf("progress %v", seen)
			}
			calls := 0
			req.Progress = func(float32) bool { calls++; return calls < 2 }
			m, err := engine(t).Load(req)
			if m != nil || shared.KindOf(err) != shared.KindCancelled || calls != 2 {
				t.Errorf("after %d calls: %v, %v", calls, m, err)
			}
		})
	}
}

func TestLoadRefusesWhatIsNoModel(t *testing.T) {
	good := modelBytes(t, "q8_0")
	missing := filepath.Join(t.TempDir(), "missing.gguf")
	renamed := bytes.Replace(good, []byte("blk.2.attn_k.weight"), []byte("blk.2.attn_x.weight"), 1)
	unknown := bytes.Replace(good, []byte("\x05\x00\x00\x00\x00\x00\x00\x00llama"), []byte("\x05\x00\x00\x00\x00\x00\x00\x00lamma"), 1)
	causeless := tinyLlama()
	causeless.flag("attention.causal", false)
	for _, tt := range []struct {
		name string
		req  slotworker.LoadRequest
		kind shared.Kind
		want string
	}{
		{"nothing", slotworker.LoadRequest{}, shared.KindInvalid, "either"},
		{"both", slotworker.LoadRequest{Path: "x", Bytes: []byte("x")}, shared.KindInvalid, "either"},
		{"zero byte", slotworker.LoadRequest{Path: "a\x00b"}, shared.KindInvalid, "zero byte"},
		{"no file", slotworker.LoadRequest{Path: missing}, shared.KindModelFile, "no such file"},
		{"directory", slotworker.LoadRequest{Path: t.TempDir()}, shared.KindModelFile, "cannot load"},
		{"text", slotworker.LoadRequest{Bytes: []byte("this is no model")}, shared.KindModelFile, "magic"},
		{"cut in the header", slotworker.LoadRequest{Bytes: good[:5000]}, shared.KindModelFile, "cannot load"},
		{"cut in the data", slotworker.LoadRequest{Bytes: good[:len(good)/2]}, shared.KindModelFile, "not within the file bounds"},
		{"cut by one byte", slotworker.LoadRequest{Bytes: good[:len(good)-33]}, shared.KindModelFile, "not within the file bounds"},
		{"missing tensor", slotworker.LoadRequest{Bytes: renamed}, shared.KindModelFile, "blk.2.attn_k.weight"},
		{"unknown architecture", slotworker.LoadRequest{Bytes: unknown}, shared.KindModelFile, "lamma"},
		{"not causal", slotworker.LoadRequest{Bytes: causeless.bytes()}, shared.KindUnsupported, "causally"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := engine(t).Load(tt.req)
			if m != nil || shared.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, error %v of kind %v; want %q", m, err, shared.KindOf(err), tt.want)
			}
			if tt.req.Bytes == nil {
				return
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, tt.req.Bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			if m, err := engine(t).Load(slotworker.LoadRequest{Path: path}); m != nil || err == nil {
				t.Errorf("as a file: %v, %v", m, err)
			}
		})
	}
}

// What a load that failed leaves behind does not show in the next one.
func TestLoadAfterFailure(t *testing.T) {
	data := modelBytes(t, "q8_0")
	if _, err := engine(t).Load(slotworker.LoadRequest{Bytes: data[:len(data)/2]}); err == nil {
		t.Fatal("half a model was loaded")
	}
	loadBytes(t, data)
}
