package slotworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

// The canary is a fixed prompt and the tokens that the model gave to it when it
// was first activated. Other tokens later mean that the same bytes compute
// something else: a broken library, broken memory, a changed kernel choice.
const (
	canaryText   = "Once upon a time there was"
	canaryLength = 16
	// canaryTokens is how many tokens of the text are taken. Tokenizers that know
	// few words make many of it, which all have to be computed at each return.
	canaryTokens = 4
)

// canaryNear is how far apart the first token's log probability may be when the
// same process computes it twice. It does so in the same way, to the bit; the room
// is for engines that share work between threads.
const canaryNear = 1e-3

// canaryReference is the file format of a kept canary.
type canaryReference struct {
	Identity   shared.Identity
	Engine     string
	CPUVariant string
	Prompt     []int32
	Tokens     []int32
}

// canaryPrompt is the canary's text in the model's tokens.
func canaryPrompt(m Model) ([]int32, error) {
	prompt, err := m.Tokenize(canaryText, true, false)
	if err != nil {
		return nil, engineError("the canary's text cannot be tokenized", err)
	}
	if len(prompt) == 0 {
		return nil, shared.Errorf(shared.KindModelFile, "the tokenizer makes no tokens of plain text")
	}
	return prompt[:min(canaryTokens, len(prompt))], nil
}

// canary is a slot's canary on its way to be compared.
type canary struct {
	canaryReference
	path string // of the reference
	// passed is the first token's log probability, when this process has run the
	// canary whole before. Its library and host buffer have passed then, and what
	// is new are the device buffers, all of which a single token reads.
	passed *float32
}

// canaryOf makes the canary of a slot.
func (w *Worker) canaryOf(m Model, spec shared.SlotSpec, identity shared.Identity) (canary, error) {
	prompt, err := canaryPrompt(m)
	if err != nil {
		return canary{}, err
	}
	// A slot with a tiny context has a shorter canary.
	if most := spec.ContextTokens - 1; len(prompt) > most {
		prompt = prompt[:most]
	}
	info := w.engine.Info()
	c := canary{canaryReference: canaryReference{Identity: identity, Engine: info.Version, CPUVariant: info.CPUVariant, Prompt: prompt}}
	c.path = filepath.Join(w.cfg.StateDir, "canary", c.fileName())
	if p, ok := w.passed[c.path]; ok {
		c.passed = &p
	}
	return c, nil
}

// prove runs the canary and compares it with the kept reference, or keeps it as
// the reference when there is none.
func (w *Worker) prove(ctx context.Context, r *resident, c canary) ([]int32, error) {
	before, err := readCanary(c.path)
	first := errors.Is(err, fs.ErrNotExist)
	if err != nil && !first {
		return nil, shared.Errorf(shared.KindEngine, "the canary's reference cannot be read (delete the file to make a new one): %w", err)
	}
	length := canaryLength
	if !first && c.passed != nil {
		length = 1
	}
	ran, err := r.greedy(ctx, c.Prompt, length)
	if err != nil {
		return nil, fmt.Errorf("cannot run the canary: %w", err)
	}
	if len(ran) != length {
		return nil, shared.Errorf(shared.KindEngine, "the canary gave %d tokens instead of %d", len(ran), length)
	}
	for _, t := range ran {
		c.Tokens = append(c.Tokens, t.Token)
	}
	switch {
	case !first && (before.Identity != c.Identity || !slices.Equal(before.Prompt, c.Prompt) ||
		len(before.Tokens) != canaryLength || !slices.Equal(before.Tokens[:length], c.Tokens)):
		// Of kind identity, since trying again would only do the same.
		err = shared.Errorf(shared.KindIdentity, "the canary gave tokens %v, but %v when the slot was first activated (reference %s)", c.Tokens, before.Tokens, c.path)
	case c.passed != nil && !(math.Abs(float64(ran[0].Logprob-*c.passed)) <= canaryNear): // also for what is no number
		err = shared.Errorf(shared.KindIdentity, "the canary's first token has log probability %v, but had %v before the slot was evicted", ran[0].Logprob, *c.passed)
	case first:
		err = writeCanary(c.path, c.canaryReference)
	}
	if err != nil {
		return nil, err
	}
	w.passed[c.path] = ran[0].Logprob
	return c.Tokens, nil
}

// fileName covers all that the tokens depend on; how the weights came into
// memory is not part of it.
func (c canaryReference) fileName() string {
	fields := []string{c.Engine, c.CPUVariant, fmt.Sprint(c.Prompt)}
	for _, f := range c.Identity.Fields() {
		fields = append(fields, f.Value)
	}
	return strings.TrimPrefix(shared.HashFields("firstframe/canary/v1", fields...), "sha256:") + ".json"
}

// maxCanary bounds a reference, which has some hundred bytes.
const maxCanary = 1 << 20

func readCanary(path string) (canaryReference, error) {
	var c canaryReference
	b, err := regular.Read(path, maxCanary)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// writeCanary writes the file whole or not at all.
func writeCanary(path string, c canaryReference) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the canary's reference: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot keep the canary's reference: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return fmt.Errorf("cannot keep the canary's reference: %w", err)
	}
	_, err = tmp.Write(append(b, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	err = firstError(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("cannot keep the canary's reference: %w", err)
	}
	return nil
}
