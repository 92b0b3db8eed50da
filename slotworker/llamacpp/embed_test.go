package llamacpp

import (
	"math"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/slotworker"
)

// TestEmbeddingsAreTheEngines compares the mean of a text's vectors with the one
// that the library makes when it pools by itself.
func TestEmbeddingsAreTheEngines(t *testing.T) {
	m := loadPath(t, "f16")
	cfg := slotworker.ContextConfig{TokensPerSequence: 128, Sequences: 1, BatchTokens: 64, Threads: 1, KVType: "f16", Embeddings: true}
	c := newContext(t, m, cfg)
	rows := run(0, 0, tokenize(t, m, "The fox said: a slot is a place.")...)
	for i := range rows {
		rows[i].Logits = true
	}
	decode(t, c, rows)
	mean := make([]float64, m.info.Embedding)
	for i := range rows {
		v := c.Embedding(i)
		if len(v) != len(mean) {
			t.Fatalf("row %d has a vector of %d", i, len(v))
		}
		for at, x := range v {
			mean[at] += float64(x) / float64(len(rows))
		}
	}

	params, err := contextParams(cfg)
	if err != nil {
		t.Fatal(err)
	}
	params.PoolingType = llama.PoolingTypeMean
	handle, err := llama.InitFromModel(m.handle, params)
	if err != nil {
		t.Fatal(err)
	}
	pooled := &Context{model: m, handle: handle, sequences: 1, embeds: true}
	t.Cleanup(pooled.Close)
	if err := pooled.prepare(cfg, logged{}); err != nil {
		t.Fatal(err)
	}
	decode(t, pooled, rows)
	want, err := llama.GetEmbeddingsSeq(pooled.handle, 0, int32(len(mean)))
	if err != nil || want == nil {
		t.Fatalf("no pooled vector: %v", err)
	}
	for at := range want {
		if math.Abs(float64(want[at])-mean[at]) > 1e-3 {
			t.Fatalf("value %d is %v, the library's mean is %v", at, mean[at], want[at])
		}
	}
	if v := newContext(t, m, small()).Embedding(0); v != nil {
		t.Error("a context for text gives vectors")
	}
	if v := c.Embedding(len(rows)); v != nil {
		t.Error("a row that was not computed has a vector")
	}
}
