package pages

// Device is the device tier: what the engine's idle sequences still hold. A
// prompt that goes on from one of them needs no restore, only a cut. A running
// sequence cannot be shared, for its stream is its own; its pages are shared
// through the host tier. It is a pure account without a lock; the owner of the
// sequences keeps it.
type Device struct {
	page  int
	exact bool
	seqs  []held
	clock uint64
}

// held is what one sequence holds.
type held struct {
	busy   bool
	salt   string
	tokens []int32
	rested uint64 // when it became idle
}

// NewDevice makes the account of empty sequences. Exact is that of the store.
func NewDevice(sequences, pageTokens int, exact bool) *Device {
	return &Device{page: pageTokens, exact: exact, seqs: make([]held, sequences)}
}

// Best is the idle sequence that holds most of a prompt's first tokens, and how
// many of them may stay; with none it is -1. A prompt that leaves what is held
// before its end keeps whole pages, as it would from another tier: the same
// prompt is then computed in the same chunks.
func (d *Device) Best(p *Prompt, salt string) (seq int32, tokens int) {
	seq = -1
	for i, h := range d.seqs {
		if h.busy || h.salt != salt {
			continue
		}
		n := min(common(h.tokens, p.tokens), p.Len()-1)
		if d.exact || n < len(h.tokens) && n < p.Len()-1 {
			n = n / d.page * d.page
		}
		if n > tokens {
			seq, tokens = int32(i), n
		}
	}
	return seq, tokens
}

// Spare is the idle sequence to give up first: an empty one, or the one that has
// been idle for the longest time. It is -1 when all are busy.
func (d *Device) Spare() int32 {
	spare := -1
	for i, h := range d.seqs {
		if !h.busy && (spare < 0 || h.rested < d.seqs[spare].rested) {
			spare = i
		}
	}
	return int32(spare)
}

// Take gives a sequence to a request.
func (d *Device) Take(seq int32) { d.seqs[seq] = held{busy: true} }

// Rest makes a sequence idle that holds the prompt's first tokens. An exact
// owner counts only those that were computed or restored as whole pages.
func (d *Device) Rest(seq int32, p *Prompt, salt string, tokens int) {
	d.clock++
	d.seqs[seq] = held{salt: salt, tokens: p.tokens[:tokens:tokens], rested: d.clock}
}

// Clear makes a sequence idle that holds nothing, as after an error.
func (d *Device) Clear(seq int32) { d.seqs[seq] = held{} }
