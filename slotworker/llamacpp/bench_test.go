package llamacpp

import (
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
)

// withPool runs a benchmark with the context's own threads, and with threads that
// the engine starts and ends in every step.
func withPool(b *testing.B, f func(b *testing.B, c *Context)) {
	for name, attached := range map[string]bool{"pool": true, "nopool": false} {
		b.Run(name, func(b *testing.B) {
			cfg := small()
			cfg.Threads = 2
			c := newContext(b, loadPath(b, "q8_0"), cfg)
			if !attached {
				llama.DetachThreadpool(c.handle)
			}
			f(b, c)
		})
	}
}

func BenchmarkDecodeStep(b *testing.B) {
	withPool(b, func(b *testing.B, c *Context) {
		prompt := tokenize(b, c.model, fox)
		decode(b, c, run(0, 0, prompt...))
		row := run(0, int32(len(prompt)), 7)
		for b.Loop() {
			if err := c.Decode(row); err != nil {
				b.Fatal(err)
			}
			c.SeqRemove(0, int32(len(prompt)), -1)
		}
	})
}

func BenchmarkPrefill64(b *testing.B) {
	withPool(b, func(b *testing.B, c *Context) {
		rows := run(0, 0, make([]int32, 64)...)
		for b.Loop() {
			if err := c.Decode(rows); err != nil {
				b.Fatal(err)
			}
			c.SeqRemove(0, 0, -1)
		}
	})
}

func BenchmarkSample(b *testing.B) {
	c, row, _ := told(b)
	for name, s := range map[string]shared.Sampling{
		"greedy": {}, "drawn": {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1, Seed: 1},
	} {
		b.Run(name, func(b *testing.B) {
			own := newSampler(b, c.model, s)
			for b.Loop() {
				c.Sample(own, row)
			}
		})
	}
}

// BenchmarkCall is what crossing into the library costs.
func BenchmarkCall(b *testing.B) {
	c, _, _ := told(b)
	for b.Loop() {
		c.SeqTokens(0)
	}
}

func BenchmarkPiece(b *testing.B) {
	m := loadPath(b, "q8_0")
	for b.Loop() {
		m.Piece(300, false)
	}
}
