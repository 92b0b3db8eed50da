package llamacpp

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

func TestContextConfig(t *testing.T) {
	m := loadPath(t, "q8_0")
	for field, change := range map[string]func(*slotworker.ContextConfig){
		"kv_type":       func(c *slotworker.ContextConfig) { c.KVType = "q3_k" },
		"tokens":        func(c *slotworker.ContextConfig) { c.TokensPerSequence = 0 },
		"parallel":      func(c *slotworker.ContextConfig) { c.Sequences = 100_000 },
		"prefill_chunk": func(c *slotworker.ContextConfig) { c.BatchTokens = -1 },
		"outputs":       func(c *slotworker.ContextConfig) { c.Outputs = 129 },
		"threads":       func(c *slotworker.ContextConfig) { c.Threads = 513 },
	} {
		cfg := small()
		change(&cfg)
		_, err := m.NewContext(cfg)
		var e *shared.Error
		if !errors.As(err, &e) || e.Kind != shared.KindInvalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	cfg := small()
	cfg.TokensPerSequence, cfg.Sequences = 1<<30, 4
	if _, err := m.NewContext(cfg); shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("too many tokens: %v", err)
	}
}

func TestContextKVTypes(t *testing.T) {
	m := loadPath(t, "f16")
	prompt := tokenize(t, m, fox)
	want := last(t, newContext(t, m, small()), run(0, 0, prompt...))
	sizes := map[string]int64{}
	for kv := range kvTypes() {
		cfg := small()
		cfg.KVType = kv
		c := newContext(t, m, cfg)
		sizes[kv] = c.DeviceBytes()
		got := last(t, c, run(0, 0, prompt...))
		if d := furthest(got, want); math.IsNaN(float64(d)) || d > 2 || best(got) != best(want) {
			t.Errorf("%s: logits differ by %v", kv, d)
		}
	}
	// Two sequences of 512 tokens, four layers, K and V of 256 numbers each.
	const kv16 = 2 * 512 * 4 * 2 * 256 * 2
	if sizes["f16"] < kv16 || sizes["f16"] > kv16+4<<20 {
		t.Errorf("%d bytes with f16 memory of %d", sizes["f16"], kv16)
	}
	if d := sizes["f32"] - sizes["f16"]; d < kv16*8/10 || d > kv16*12/10 {
		t.Errorf("f32 takes %d bytes more than f16", d)
	}
	if sizes["q8_0"] >= sizes["f16"] {
		t.Errorf("q8_0 takes %d bytes, f16 %d", sizes["q8_0"], sizes["f16"])
	}
}

func TestDecodeRefusesBadRows(t *testing.T) {
	m := loadPath(t, "q8_0")
	cfg := small()
	cfg.Outputs = 2
	c := newContext(t, m, cfg)
	prompt := tokenize(t, m, fox)
	want := last(t, c, run(0, 0, prompt...))
	c.SeqRemove(0, 0, -1)
	for name, rows := range map[string][]slotworker.Row{
		"none":              {},
		"too many":          run(0, 0, make([]int32, 129)...),
		"token too high":    run(0, 0, 1, 1024),
		"token negative":    run(0, 0, 1, -1),
		"sequence too high": run(2, 0, 1),
		"sequence negative": run(-1, 0, 1),
		"position":          run(0, -1, 1),
		"outputs":           {{Token: 1, Logits: true}, {Token: 2, Pos: 1, Logits: true}, {Token: 3, Pos: 2, Logits: true}},
	} {
		if err := c.Decode(rows); shared.KindOf(err) != shared.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if c.Logits(0) != nil {
			t.Errorf("%s: there are logits", name)
		}
	}
	// Positions with a hole are the engine's to refuse.
	if err := c.Decode(run(0, 7, 1)); err == nil && c.SeqTokens(0) != 8 {
		t.Error("a position was ignored")
	}
	c.SeqRemove(0, 0, -1)
	if got := last(t, c, run(0, 0, prompt...)); !slices.Equal(got, want) {
		t.Errorf("after bad batches logits differ by %v", furthest(got, want))
	}
}

func TestDecodeWithoutSpace(t *testing.T) {
	m := loadPath(t, "q8_0")
	cfg := small()
	cfg.TokensPerSequence = 256
	c := newContext(t, m, cfg)
	prompt := tokenize(t, m, fox)
	decode(t, c, run(1, 0, prompt...))
	for pos := int32(0); pos < 256; pos += 128 {
		decode(t, c, run(0, pos, make([]int32, 128)...))
	}
	if err := c.Decode(run(0, 256, 1)); !errors.Is(err, slotworker.ErrNoKVSpace) {
		t.Errorf("error %v", err)
	}
	if c.SeqTokens(0) != 256 || c.SeqTokens(1) != len(prompt) {
		t.Errorf("tokens %d and %d", c.SeqTokens(0), c.SeqTokens(1))
	}
	if err := c.Decode(append(run(1, int32(len(prompt)), 1), run(0, 256, 1)...)); !errors.Is(err, slotworker.ErrNoKVSpace) {
		t.Errorf("together: %v", err)
	}
	if c.SeqTokens(1) != len(prompt) {
		t.Errorf("the other sequence has %d tokens", c.SeqTokens(1))
	}
	decode(t, c, run(1, int32(len(prompt)), 1))
}

// tolerance is for logits of the same tokens in other batches.
const tolerance = 0.15

func TestSequencesDoNotMeet(t *testing.T) {
	m := loadPath(t, "q8_0")
	prompts := [][]int32{tokenize(t, m, fox), tokenize(t, m, "<s><|user|>What is prefill?<|end|><|assistant|>")}
	var tokens [2][]int32
	var want [2][][]float32
	for i, prompt := range prompts {
		tokens[i], want[i] = greedy(t, newContext(t, m, small()), 0, prompt, 40)
	}
	c := newContext(t, m, small())
	rows := append(run(0, 0, prompts[0]...), run(1, 0, prompts[1]...)...)
	at := [2]int{len(prompts[0]) - 1, len(rows) - 1}
	for step := range min(len(tokens[0]), len(tokens[1])) {
		decode(t, c, rows)
		rows = rows[:0]
		for i := range prompts {
			if d := furthest(c.Logits(at[i]), want[i][step]); d > tolerance {
				t.Fatalf("sequence %d, step %d: logits differ by %v", i, step, d)
			}
			at[i] = i
			rows = append(rows, run(int32(i), int32(len(prompts[i])+step), tokens[i][step])...)
		}
	}
	if c.SeqTokens(0) != len(prompts[0])+min(len(tokens[0]), len(tokens[1]))-1 {
		t.Errorf("%d tokens", c.SeqTokens(0))
	}
}

func TestThreadsDoNotChangeNumbers(t *testing.T) {
	m := loadPath(t, "q8_0")
	prompt := tokenize(t, m, fox)
	_, want := greedy(t, newContext(t, m, small()), 0, prompt, 3)
	cfg := small()
	cfg.Threads = 2
	_, got := greedy(t, newContext(t, m, cfg), 0, prompt, 3)
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("logits of step %d differ by %v", i, furthest(got[i], want[i]))
		}
	}
}

func TestSeqRemove(t *testing.T) {
	m := loadPath(t, "q8_0")
	c := newContext(t, m, small())
	prompt := tokenize(t, m, fox)
	n := int32(len(prompt))
	decode(t, c, run(0, 0, prompt[:n-1]...))
	want := last(t, c, run(0, n-1, prompt[n-1]))
	decode(t, c, run(0, n, 5, 6, 7))
	if !c.SeqRemove(0, n-1, -1) || c.SeqTokens(0) != int(n-1) {
		t.Fatalf("%d tokens after a cut", c.SeqTokens(0))
	}
	if got := last(t, c, run(0, n-1, prompt[n-1])); !slices.Equal(got, want) {
		t.Errorf("logits differ by %v", furthest(got, want))
	}
	if !c.SeqRemove(0, 0, -1) || c.SeqTokens(0) != 0 || c.StateSize(0) > 64 {
		t.Errorf("an emptied sequence has %d tokens and %d bytes", c.SeqTokens(0), c.StateSize(0))
	}
	for _, seq := range []int32{-1, 2, 1 << 30} {
		if c.SeqRemove(seq, 0, -1) || c.SeqTokens(seq) != 0 || c.StateSize(seq) != 0 || c.StateGet(seq, make([]byte, 9)) != 0 || c.StateSet(seq, make([]byte, 9)) != 0 {
			t.Errorf("sequence %d exists", seq)
		}
	}
}

func TestState(t *testing.T) {
	for name, m := range map[string]*Model{
		"attention": loadPath(t, "q4_0"), "recurrent": loadTiny(t, tinyMamba()),
		"hybrid": loadTiny(t, tinyHybrid()), "window": loadTiny(t, tinyWindow()),
	} {
		t.Run(name, func(t *testing.T) {
			c := newContext(t, m, small())
			prompt := tokenize(t, m, "Tell me a story about a fox and an owl.")
			n := int32(len(prompt))
			decode(t, c, run(0, 0, prompt...))
			state := make([]byte, c.StateSize(0))
			if got := c.StateGet(0, state); got != len(state) || got == 0 {
				t.Fatalf("got %d of %d bytes", got, len(state))
			}
			if got := c.StateGet(0, state[:len(state)-1]); got != 0 {
				t.Errorf("a buffer that is too short got %d bytes", got)
			}
			want := last(t, c, run(0, n, 9))
			if got := c.StateSet(1, state); got != len(state) || c.SeqTokens(1) != int(n) {
				t.Fatalf("restored %d of %d bytes, %d tokens", got, len(state), c.SeqTokens(1))
			}
			if got := last(t, c, run(1, n, 9)); !slices.Equal(got, want) {
				t.Errorf("logits differ by %v", furthest(got, want))
			}
			if got := c.StateSet(1, state[:len(state)/2]); got == len(state) {
				t.Error("half a state was restored")
			}
			c.SeqRemove(1, 0, -1)
			if c.SeqTokens(1) != 0 {
				t.Errorf("%d tokens after a failed restore", c.SeqTokens(1))
			}
			if got := c.StateSet(1, []byte("no state at all, and rather short")); got != 0 {
				t.Errorf("restored %d bytes of nonsense", got)
			}
		})
	}
}

// Memory that cannot be cut says so and stays as it is.
func TestMemoryThatCannotBeCut(t *testing.T) {
	for name, tt := range map[string]struct {
		m         *tiny
		recurrent bool
		hybrid    bool
		window    int
	}{
		"recurrent": {tinyMamba(), true, false, 0}, "hybrid": {tinyHybrid(), false, true, 0}, "window": {tinyWindow(), false, false, 16},
	} {
		t.Run(name, func(t *testing.T) {
			m := loadTiny(t, tt.m)
			if i := m.Info(); i.Recurrent != tt.recurrent || i.Hybrid != tt.hybrid || i.SWA != tt.window {
				t.Errorf("%+v", i)
			}
			cfg := small()
			cfg.BatchTokens = 16
			c := newContext(t, m, cfg)
			const n = 400
			for pos := int32(0); pos < n; pos += 16 {
				decode(t, c, run(0, pos, make([]int32, 16)...))
			}
			if c.SeqRemove(0, 100, -1) || c.SeqTokens(0) != n {
				t.Errorf("cut to %d tokens", c.SeqTokens(0))
			}
			decode(t, c, run(0, n, 1))
			if !c.SeqRemove(0, 0, -1) || c.SeqTokens(0) != 0 {
				t.Errorf("%d tokens after removing all", c.SeqTokens(0))
			}
			decode(t, c, run(0, 0, 1, 2, 3))
		})
	}
}

func TestTwoSequencesOfOtherMemories(t *testing.T) {
	for name, tiny := range map[string]*tiny{"recurrent": tinyMamba(), "hybrid": tinyHybrid(), "window": tinyWindow()} {
		t.Run(name, func(t *testing.T) {
			m := loadTiny(t, tiny)
			prompt := []int32{10, 20, 30, 40, 50}
			want := last(t, newContext(t, m, small()), run(0, 0, prompt...))
			c := newContext(t, m, small())
			rows := append(run(1, 0, 7, 8, 9), run(0, 0, prompt...)...)
			if d := furthest(last(t, c, rows), want); d > 1e-3 {
				t.Errorf("logits differ by %v", d)
			}
		})
	}
}

func TestNaNLogits(t *testing.T) {
	broken := tinyLlama()
	broken.set("output_norm.weight", float32(math.NaN()))
	c := newContext(t, loadTiny(t, broken), small())
	err := c.Decode(run(0, 0, 1, 2, 3))
	if !errors.Is(err, slotworker.ErrDecodeFailed) || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("error %v", err)
	}
	if c.Logits(2) != nil {
		t.Error("NaN logits were given out")
	}
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, tt := range []struct {
		logits []float32
		want   bool
	}{
		{nil, false}, {[]float32{1, 2, 3}, false}, {[]float32{inf, -inf, 1, 2, 3}, false}, {[]float32{-inf, -inf}, false},
		{[]float32{nan}, true}, {[]float32{1, 2, 3, 4, nan}, true}, {[]float32{inf, -inf, 1, 2, nan, 3}, true},
		{[]float32{math.MaxFloat32, math.MaxFloat32, math.MaxFloat32, math.MaxFloat32, -math.MaxFloat32}, false},
	} {
		if hasNaN(tt.logits) != tt.want {
			t.Errorf("%v", tt.logits)
		}
	}
}

func TestClosedContext(t *testing.T) {
	m := loadPath(t, "q8_0")
	c := newContext(t, m, small())
	decode(t, c, run(0, 0, 1))
	s, err := m.NewSampler(shared.Sampling{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.Close()
	c.Close()
	if err := c.Decode(run(0, 0, 1)); err == nil {
		t.Error("a closed context decodes")
	}
	if c.Logits(0) != nil || c.Sample(s, 0) != -1 || c.SeqRemove(0, 0, -1) || c.StateSize(0) != 0 {
		t.Error("a closed context has state")
	}
}
