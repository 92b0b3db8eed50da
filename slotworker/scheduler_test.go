package slotworker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// bench is a scheduler on the fake model.
type bench struct {
	*resident
	model *fakeModel
}

func newBench(t testing.TB, model *fakeModel, sequences, tokens, chunk, queue int) *bench {
	t.Helper()
	return &bench{model: model, resident: startResident(t, model, sequences, tokens, chunk, queue)}
}

func startResident(t testing.TB, model *fakeModel, sequences, tokens, chunk, queue int, change ...func(*schedulerConfig)) *resident {
	t.Helper()
	spec := shared.SlotSpec{SlotID: "slot", ContextTokens: tokens, Parallel: sequences}
	cfg := schedulerConfig{
		model:    model,
		context:  ContextConfig{TokensPerSequence: tokens, Sequences: sequences, BatchTokens: chunk + sequences},
		chunk:    chunk,
		queue:    queue,
		sample:   []int32{1, 2, 3},
		cold:     true,
		pages:    pagesConfig{identity: testIdentity(), page: 16, host: 1 << 20},
		kept:     new(keptPages),
		progress: new(atomic.Uint64),
		logger:   hclog.NewNullLogger(),
		failed:   func(error) {},
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := startScheduler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &resident{spec: spec, model: model, scheduler: s, vocab: fakeVocab}
}

func testIdentity() shared.Identity {
	return shared.Identity{ModelRevision: "m", Precision: "p", TokenizerRevision: "t", LayoutRevision: "l", SlotRevision: "s"}
}

// end closes the scheduler and checks that nothing is left.
func (b *bench) end(t testing.TB) {
	t.Helper()
	b.scheduler.close()
	b.balanced(t)
	if err := b.scheduler.cfg.kept.close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := b.model.open.Load(); n != 0 {
		t.Errorf("%d contexts are still open", n)
	}
}

// balanced checks that no request holds anything.
func (b *bench) balanced(t testing.TB) {
	t.Helper()
	s := b.scheduler
	if s.inSystem.Load() != 0 || s.running.Load() != 0 || s.kvTokens.Load() != 0 || b.model.samplers.Load() != 0 {
		t.Errorf("left over: %d in the system, %d running, %d KV tokens, %d samplers",
			s.inSystem.Load(), s.running.Load(), s.kvTokens.Load(), b.model.samplers.Load())
	}
	if s.counted.Load() != s.idle.Load() {
		t.Errorf("the engine counts %d tokens in idle sequences, the account %d", s.counted.Load(), s.idle.Load())
	}
}

// order is one request of a test.
type order struct {
	prompt []int32
	max    int
	stop   []string
	emit   func(shared.Chunk) error
}

// answer is how it ended.
type answer struct {
	tokens []int32
	text   string
	result shared.Result
	err    error
}

func (b *bench) run(ctx context.Context, a order) answer {
	var got answer
	req := shared.GenerateRequest{PromptTokens: a.prompt, MaxTokens: a.max, Stop: a.stop}
	got.result, got.err = b.generate(ctx, req, time.Now(), func(c shared.Chunk) error {
		if a.emit != nil {
			if err := a.emit(c); err != nil {
				return err
			}
		}
		got.tokens = append(got.tokens, c.Tokens...)
		got.text += c.Text
		return nil
	})
	return got
}

func promptOf(n int, salt int32) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = (int32(i)*7 + salt) % 200
	}
	return p
}

func TestAnswersDoNotDependOnTheOthers(t *testing.T) {
	b := newBench(t, &fakeModel{}, 3, 256, 16, 64)
	defer b.end(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			prompt := promptOf(1+i*9, int32(i))
			got := b.run(t.Context(), order{prompt: prompt, max: 5 + i})
			if want := b.model.solo(prompt, 5+i); got.err != nil || !slices.Equal(got.tokens, want) {
				t.Errorf("request %d: got %v, %v; want %v", i, got.tokens, got.err, want)
			}
			if got.result.FinishReason != shared.FinishLength || got.result.Usage.PromptTokens != len(prompt) || got.result.Usage.CompletionTokens != 5+i {
				t.Errorf("request %d: result %+v", i, got.result)
			}
		})
	}
	wg.Wait()
	b.balanced(t)
}

func TestChunksOfAPromptAlone(t *testing.T) {
	model := &fakeModel{}
	b := newBench(t, model, 4, 256, 16, 0)
	defer b.end(t)
	var sizes []int
	model.decodeHook = func(rows []Row) error { sizes = append(sizes, len(rows)); return nil }
	if got := b.run(t.Context(), order{prompt: promptOf(40, 1), max: 3}); got.err != nil {
		t.Fatal(got.err)
	}
	if want := []int{16, 16, 8, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("steps of %v rows, want %v", sizes, want)
	}
}

func TestContextEnd(t *testing.T) {
	b := newBench(t, &fakeModel{}, 1, 32, 16, 0)
	defer b.end(t)
	prompt := promptOf(20, 1)
	got := b.run(t.Context(), order{prompt: prompt})
	if got.err != nil || got.result.FinishReason != shared.FinishLength || !slices.Equal(got.tokens, b.model.solo(prompt, 12)) {
		t.Errorf("got %d tokens, %q, %v; want 12, length", len(got.tokens), got.result.FinishReason, got.err)
	}
	got = b.run(t.Context(), order{prompt: promptOf(31, 1)})
	if got.err != nil || len(got.tokens) != 1 {
		t.Errorf("a prompt with room for one token: got %d tokens, %v", len(got.tokens), got.err)
	}
	got = b.run(t.Context(), order{prompt: promptOf(32, 1)})
	if shared.KindOf(got.err) != shared.KindContextTooLong {
		t.Errorf("a prompt that fills the context: got %v", got.err)
	}
}

func TestFinishReasons(t *testing.T) {
	model := &fakeModel{answer: func(tokens []int32) int32 {
		text := []int32{'o', 'n', 'e', ' ', 'S', 'T', 'O', 'P', fakeEOS}
		return text[(len(tokens)-4)%len(text)]
	}}
	b := newBench(t, model, 1, 64, 16, 0)
	defer b.end(t)
	prompt := promptOf(4, 1)
	tests := []struct {
		name   string
		order  order
		text   string
		tokens int
		finish string
	}{
		{"end of text", order{prompt: prompt}, "one STOP", 8, shared.FinishStop},
		{"max tokens", order{prompt: prompt, max: 3}, "one", 3, shared.FinishLength},
		{"stop string", order{prompt: prompt, stop: []string{"ST"}}, "one ", 6, shared.FinishStop},
		{"stop string begun when the tokens end", order{prompt: prompt, max: 5, stop: []string{"STOP"}}, "one S", 5, shared.FinishLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := b.run(t.Context(), tt.order)
			if got.err != nil || got.text != tt.text || len(got.tokens) != tt.tokens || got.result.FinishReason != tt.finish {
				t.Errorf("got %q, %d tokens, %q, %v; want %q, %d, %q", got.text, len(got.tokens), got.result.FinishReason, got.err, tt.text, tt.tokens, tt.finish)
			}
		})
	}
}

func TestIgnoreEOSGoesOn(t *testing.T) {
	model := &fakeModel{answer: func([]int32) int32 { return fakeEOS }}
	b := newBench(t, model, 1, 64, 16, 0)
	defer b.end(t)
	tokens, err := b.greedy(t.Context(), promptOf(4, 1), 5)
	if err != nil || len(tokens) != 5 {
		t.Errorf("got %v, %v", tokens, err)
	}
	got := b.run(t.Context(), order{prompt: promptOf(4, 1)})
	if got.err != nil || len(got.tokens) != 0 || got.result.FinishReason != shared.FinishStop || got.result.Phases.Prefill <= 0 {
		t.Errorf("an answer without text: got %+v", got)
	}
}

func TestFailedStepEndsItsRequestsOnly(t *testing.T) {
	for _, cause := range []error{ErrNoKVSpace, ErrDecodeAborted, ErrDecodeFailed} {
		t.Run(cause.Error(), func(t *testing.T) {
			model := &fakeModel{}
			b := newBench(t, model, 2, 256, 16, 8)
			defer b.end(t)
			model.decodeHook = func(rows []Row) error {
				if rows[0].Seq == 0 && rows[0].Pos == 20 {
					return cause
				}
				return nil
			}
			got := b.run(t.Context(), order{prompt: promptOf(18, 1), max: 10})
			if shared.KindOf(got.err) != shared.KindEngine || !errors.Is(got.err, cause) {
				t.Errorf("got %v", got.err)
			}
			if want := model.solo(promptOf(18, 1), 3)[:len(got.tokens)]; len(got.tokens) > 3 || !slices.Equal(got.tokens, want) {
				t.Errorf("got tokens %v before the failure, want some of %v", got.tokens, want)
			}
			b.balanced(t)
			model.decodeHook = nil
			if got := b.run(t.Context(), order{prompt: promptOf(9, 1), max: 4}); !slices.Equal(got.tokens, model.solo(promptOf(9, 1), 4)) {
				t.Errorf("the next request: got %v, %v", got.tokens, got.err)
			}
		})
	}
}

func TestSequencesThatCannotBeClearedAreGivenUp(t *testing.T) {
	model := &fakeModel{}
	b := newBench(t, model, 2, 64, 16, 8)
	removable := map[int32]bool{0: false, 1: true}
	model.removeHook = func(seq int32) bool { return removable[seq] }
	for i := range 4 {
		if got := b.run(t.Context(), order{prompt: promptOf(5, int32(i)), max: 3}); !slices.Equal(got.tokens, model.solo(promptOf(5, int32(i)), 3)) {
			t.Errorf("request %d: got %v, %v", i, got.tokens, got.err)
		}
	}
	removable[1] = false
	_ = b.run(t.Context(), order{prompt: promptOf(5, 9), max: 3})
	if got := b.run(t.Context(), order{prompt: promptOf(5, 9), max: 3}); shared.KindOf(got.err) != shared.KindEngine {
		t.Errorf("without a usable sequence: got %v", got.err)
	}
	b.end(t)
}

func TestQueueIsBounded(t *testing.T) {
	model := &fakeModel{}
	b := newBench(t, model, 1, 64, 16, 2)
	defer b.end(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	model.decodeHook = func([]Row) error {
		once.Do(func() { close(entered); <-leave })
		return nil
	}
	ends := make(chan answer, 3)
	start := func() { go func() { ends <- b.run(t.Context(), order{prompt: promptOf(5, 1), max: 3}) }() }
	start()
	wait(t, entered)
	start()
	start()
	eventually(t, func() bool { return b.scheduler.inSystem.Load() == 3 })
	if got := b.run(t.Context(), order{prompt: promptOf(5, 1), max: 3}); shared.KindOf(got.err) != shared.KindBusy {
		t.Errorf("got %v, want a refusal", got.err)
	}
	close(leave)
	for range 3 {
		if got := wait(t, ends); got.err != nil {
			t.Errorf("a request that fitted the queue failed: %v", got.err)
		}
	}
}

func TestSlowConsumerHoldsUpNobody(t *testing.T) {
	b := newBench(t, &fakeModel{}, 2, 512, 16, 0)
	defer b.end(t)
	first, release, ended := make(chan struct{}), make(chan struct{}), make(chan answer, 1)
	var once sync.Once
	go func() {
		ended <- b.run(t.Context(), order{prompt: promptOf(10, 1), max: 200, emit: func(shared.Chunk) error {
			once.Do(func() { close(first); <-release })
			return nil
		}})
	}()
	wait(t, first)
	quick := b.run(t.Context(), order{prompt: promptOf(10, 2), max: 200})
	if !slices.Equal(quick.tokens, b.model.solo(promptOf(10, 2), 200)) {
		t.Errorf("the quick one: %v", quick.err)
	}
	close(release)
	if slow := wait(t, ended); !slices.Equal(slow.tokens, b.model.solo(promptOf(10, 1), 200)) || slow.text != string(bytesOf(slow.tokens)) {
		t.Errorf("the slow one lost tokens: %d, %v", len(slow.tokens), slow.err)
	}
}

func bytesOf(tokens []int32) []byte {
	b := make([]byte, len(tokens))
	for i, t := range tokens {
		b[i] = byte(t)
	}
	return b
}

func TestEmitErrorCancelsThatRequest(t *testing.T) {
	b := newBench(t, &fakeModel{}, 2, 4096, 16, 0)
	defer b.end(t)
	gone := errors.New("the client has left")
	got := b.run(t.Context(), order{prompt: promptOf(10, 1), emit: func(shared.Chunk) error { return gone }})
	if shared.KindOf(got.err) != shared.KindCancelled || !errors.Is(got.err, gone) {
		t.Errorf("got %v", got.err)
	}
	if got := b.run(t.Context(), order{prompt: promptOf(10, 2), max: 5}); !slices.Equal(got.tokens, b.model.solo(promptOf(10, 2), 5)) {
		t.Errorf("the next request: %v, %v", got.tokens, got.err)
	}
}
