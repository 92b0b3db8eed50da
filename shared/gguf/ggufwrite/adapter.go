package ggufwrite

import (
	"fmt"
	"strings"

	"github.com/firstframe/firstframe/shared/gguf"
)

// Adapter describes a LoRA adapter with random factors. The same description
// gives the same bytes.
type Adapter struct {
	// Base is the header of the model that it is for.
	Base *gguf.File
	Rank int // 0 means 4
	// Alpha is how strongly it changes the model; 0 means the rank.
	Alpha float32
	Seed  uint64
	// Parts of the names of the tensors that it changes; none means attn_q and
	// ffn_down.
	Targets []string
}

// Build lays the adapter out as a file.
func (a Adapter) Build() (*File, error) {
	if a.Rank == 0 {
		a.Rank = 4
	}
	if a.Alpha == 0 {
		a.Alpha = float32(a.Rank)
	}
	if len(a.Targets) == 0 {
		a.Targets = []string{".attn_q.", ".ffn_down."}
	}
	b := &builder{model: Model{Seed: a.Seed}}
	b.key(Str("general.type", "adapter"))
	b.key(Str("general.architecture", a.Base.Architecture()))
	b.key(Str("general.name", fmt.Sprintf("random adapter %d", a.Seed)))
	b.key(Str("adapter.type", "lora"))
	b.key(F32("adapter.lora.alpha", a.Alpha))
	for _, t := range a.Base.Tensors() {
		if len(t.Dims) != 2 || !a.changes(t.Name) {
			continue
		}
		b.tensor(t.Name+".lora_a", gguf.F32, normal32, int(t.Dims[0]), a.Rank)
		b.tensor(t.Name+".lora_b", gguf.F32, normal32, a.Rank, int(t.Dims[1]))
	}
	if len(b.file.Tensors) == 0 {
		return nil, fmt.Errorf("the model has no tensor of %v", a.Targets)
	}
	return &b.file, nil
}

func (a Adapter) changes(name string) bool {
	for _, target := range a.Targets {
		if strings.Contains(name, target) {
			return true
		}
	}
	return false
}
