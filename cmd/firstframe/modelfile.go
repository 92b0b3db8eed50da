package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/cores"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/modelstore"
)

// bytesPerThread is how much of a model a thread of the engine is worth. Threads
// wait for each other many times a token, and with a model that one of them reads
// in a millisecond they do little else.
const bytesPerThread = 16 << 20

// fileContext is the context of a model file that is run without a configuration,
// unless the model was trained on less.
const fileContext = 4096

// modelFile is a model that is run without a configuration.
type modelFile struct {
	name          string // a path, or a name in a local store
	contextTokens int
	threads       int
}

func (m *modelFile) register(flags *pflag.FlagSet) {
	flags.IntVar(&m.contextTokens, "context", 0, fmt.Sprintf("tokens of context (0: %d, or what the model was trained on)", fileContext))
	flags.IntVar(&m.threads, "threads", 0, "threads of the engine (0: one for each core)")
}

func (m *modelFile) check() error {
	if m.contextTokens < 0 || m.threads < 0 {
		return &usageError{errors.New("--context and --threads cannot be negative")}
	}
	return nil
}

// find gives the file that the name means.
func (m *modelFile) find() (modelstore.Model, error) {
	if modelstore.Named(m.name) {
		found, err := modelstore.FromEnvironment(os.LookupEnv).Find(m.name)
		if err != nil {
			return found, shared.Errorf(shared.KindOf(err), "cannot use %s: %w", m.name, err)
		}
		return found, nil
	}
	path, err := filepath.Abs(m.name)
	return modelstore.Model{Path: path, Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}, err
}

// slot declares the file with default settings. It also tells whether the model
// has a chat template.
func (m *modelFile) slot(id string) (slot shared.SlotSpec, template bool, err error) {
	found, err := m.find()
	if err != nil {
		return slot, false, err
	}
	header, err := gguf.ReadFile(found.Path)
	if err != nil {
		return slot, false, err
	}
	context, threads := m.contextTokens, m.threads
	if context == 0 {
		context = fileContext
		if trained := header.TrainedTokens(); trained > 0 {
			context = min(trained, fileContext)
		}
	}
	if threads == 0 {
		threads = int(min(int64(cores.Usable()), max(1, header.Size()/bytesPerThread)))
	}
	slot = ownSlot(id, found.Name, found.Path, shared.TransferAuto, threads)
	slot.DeclaredSHA256, slot.ContextTokens, slot.Preload = found.SHA256, context, true
	return slot, header.ChatTemplate() != "", nil
}

// withSlot runs one slot in a supervisor of its own, which ends with use.
func (a *app) withSlot(ctx context.Context, slot shared.SlotSpec, use func(shared.Frontend) error) error {
	return withTempDir(func(dir string) error {
		return a.withStack(ctx, filepath.Join(dir, "s"), []shared.SlotSpec{slot}, use)
	})
}
