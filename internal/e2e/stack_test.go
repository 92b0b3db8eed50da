package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
	"github.com/firstframe/firstframe/supervisor"
)

// The shape of the slots in these tests; the engine in process has the same.
const (
	slotTokens  = 512
	slotChunk   = 128
	slotThreads = 1
)

func spec(t testing.TB, id, file string, transfer shared.Transfer) shared.SlotSpec {
	return shared.SlotSpec{
		SlotID: id, Model: "storyteller", ModelPath: model(t, file), Device: "cpu", Transfer: transfer,
		ContextTokens: slotTokens, Parallel: 1, PageTokens: 64, KVType: "f16", PrefillChunk: slotChunk,
		Threads: slotThreads, OnMiss: shared.OnMissWait,
	}
}

// attached is a supervisor in this process with workers in theirs, reached over
// its plugin-RPC endpoint like by the command line.
func attached(t testing.TB, specs ...shared.SlotSpec) shared.Frontend {
	t.Helper()
	return attachedTo(t, supervisor.Config{Slots: specs})
}

// attachedTo is attached with more of the supervisor's configuration.
func attachedTo(t testing.TB, cfg supervisor.Config) shared.Frontend {
	t.Helper()
	return attachedBy(t, cfg, supervisor.LauncherConfig{Executable: program.path, Args: []string{"slotworker"}})
}

// attachedBy is attachedTo with workers that are started as told.
func attachedBy(t testing.TB, cfg supervisor.Config, workers supervisor.LauncherConfig) shared.Frontend {
	t.Helper()
	dir, err := os.MkdirTemp(program.short, "a")
	if err != nil {
		t.Fatal(err)
	}
	state, err := supervisor.OpenStateDir(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	workers.EngineDir, workers.State = enginetest.Dir(t), state
	launcher, err := supervisor.NewWorkerLauncher(workers)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Launcher, cfg.StateDir, cfg.Logger = launcher, state.Path(), hclog.NewNullLogger()
	s, err := supervisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := supervisor.Serve(supervisor.EndpointConfig{State: state, Frontend: s})
	if err != nil {
		t.Fatal(err)
	}
	frontend, detach, err := supervisor.Attach(t.Context(), state.Path(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		detach()
		for _, end := range []func() error{
			func() error { return s.Close(ctx) }, func() error { return endpoint.Close(ctx) }, launcher.Close, state.Close,
		} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return frontend
}

// engine is the engine used directly, with the slots' own chunk boundaries.
type engine struct {
	t       testing.TB
	model   slotworker.Model
	context slotworker.Context
}

var inProcess slotworker.Engine // a process opens the library once

func openEngine(t testing.TB) slotworker.Engine {
	t.Helper()
	if inProcess == nil {
		e, err := llamacpp.Open(enginetest.Dir(t))
		if err != nil {
			t.Fatal(err)
		}
		inProcess = e
	}
	return inProcess
}

func direct(t testing.TB, file string) *engine {
	t.Helper()
	m, err := openEngine(t).Load(slotworker.LoadRequest{Path: model(t, file)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	c, err := m.NewContext(slotworker.ContextConfig{
		TokensPerSequence: slotTokens, Sequences: 1, BatchTokens: slotChunk + 1, Threads: slotThreads, KVType: "f16",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &engine{t: t, model: m, context: c}
}

// greedy generates up to n tokens, stopping at the end of the text. first is
// called when the first token is known.
func (e *engine) greedy(prompt []int32, n int, first func()) []int32 {
	e.t.Helper()
	e.context.SeqRemove(0, 0, -1)
	sampler, err := e.model.NewSampler(shared.Sampling{}, prompt)
	if err != nil {
		e.t.Fatal(err)
	}
	defer sampler.Close()
	var rows []slotworker.Row
	for from := 0; from < len(prompt); from += slotChunk {
		rows = rows[:0]
		for i := from; i < min(from+slotChunk, len(prompt)); i++ {
			rows = append(rows, slotworker.Row{Token: prompt[i], Pos: int32(i), Logits: i == len(prompt)-1})
		}
		if err := e.context.Decode(rows); err != nil {
			e.t.Fatal(err)
		}
	}
	var tokens []int32
	row := len(rows) - 1
	for {
		token := e.context.Sample(sampler, row)
		if len(tokens) == 0 {
			first()
		}
		if e.model.IsEOG(token) {
			return tokens
		}
		tokens = append(tokens, token)
		if len(tokens) == n {
			return tokens
		}
		next := slotworker.Row{Token: token, Pos: int32(len(prompt) + len(tokens) - 1), Logits: true}
		if err := e.context.Decode([]slotworker.Row{next}); err != nil {
			e.t.Fatal(err)
		}
		row = 0
	}
}
