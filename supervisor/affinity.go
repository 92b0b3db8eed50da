package supervisor

import (
	"hash/maphash"
	"sync"

	"github.com/firstframe/firstframe/shared"
)

const (
	// affinityBlock is how much of a prompt one mark stands for. The pages of a
	// worker are cut by tokens, which the supervisor does not know; what matters
	// is only which replica has seen the longest beginning.
	affinityBlock = 256 // bytes
	// affinityMarks bounds what is remembered of one prompt, and
	// affinityMost of all.
	affinityMarks = 256
	affinityMost  = 1 << 14
)

// affinity remembers which replica served which beginnings of prompts, so that a
// conversation comes back to the one that holds its context pages. It may be
// wrong: the worker looks its pages up by their exact keys.
type affinity struct {
	seed maphash.Seed

	mu     sync.Mutex
	recent map[uint64]*slot
	older  map[uint64]*slot // a generation that is forgotten as a whole
}

func newAffinity() *affinity {
	return &affinity{seed: maphash.MakeSeed(), recent: map[uint64]*slot{}, older: map[uint64]*slot{}}
}

// marks gives one hash for each beginning of a prompt, shortest first. A
// beginning is whole blocks; a prompt shorter than one has none.
func (a *affinity) marks(id shared.Identity, req shared.GenerateRequest) []uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	_, _ = h.WriteString(id.String()) // writing to a hash cannot fail
	var out []uint64
	filled := 0
	write := func(text string) {
		for len(text) > 0 && len(out) < affinityMarks {
			n := min(len(text), affinityBlock-filled)
			_, _ = h.WriteString(text[:n])
			text = text[n:]
			if filled += n; filled == affinityBlock {
				filled = 0
				out = append(out, h.Sum64())
			}
		}
	}
	write(req.Prompt)
	for _, m := range req.Messages {
		write(m.Role + "\x00" + m.Content + "\x00")
	}
	for _, token := range req.PromptTokens {
		write(string([]byte{byte(token), byte(token >> 8), byte(token >> 16), byte(token >> 24)}))
	}
	return out
}

// longest finds the replica that served the longest of the beginnings.
func (a *affinity) longest(marks []uint64) *slot {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(marks) - 1; i >= 0; i-- {
		if s := a.recent[marks[i]]; s != nil {
			return s
		}
		if s := a.older[marks[i]]; s != nil {
			return s
		}
	}
	return nil
}

// served remembers that a replica computed a prompt.
func (a *affinity) served(marks []uint64, s *slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.recent)+len(marks) > affinityMost {
		a.older, a.recent = a.recent, make(map[uint64]*slot, affinityMost)
	}
	for _, m := range marks {
		a.recent[m] = s
	}
}
