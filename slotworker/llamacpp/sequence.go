package llamacpp

import "github.com/hybridgroup/yzma/pkg/llama"

// valid says whether the context has the sequence; the library asserts on others.
func (c *Context) valid(seq int32) bool {
	return c.handle != 0 && seq >= 0 && int(seq) < c.sequences
}

// SeqRemove drops positions from..to of a sequence, to < 0 meaning all that
// follow. It is false, and nothing is dropped, when the memory cannot be cut there.
func (c *Context) SeqRemove(seq, from, to int32) bool {
	if !c.valid(seq) || c.windowPassed(seq, from) {
		return false
	}
	ok, err := llama.MemorySeqRm(c.memory, llama.SeqId(seq), llama.Pos(from), llama.Pos(to))
	return ok && err == nil
}

// windowPassed says whether a sequence with sliding-window attention has already
// lost positions that computing from there on would attend to.
func (c *Context) windowPassed(seq, from int32) bool {
	window := int32(c.model.info.SWA)
	if window == 0 || from <= 0 {
		return false
	}
	first, err := llama.MemorySeqPosMin(c.memory, llama.SeqId(seq))
	return err == nil && int32(first) > max(0, from-window)
}

// SeqTokens is how many positions a sequence has, by the library's own count.
func (c *Context) SeqTokens(seq int32) int {
	if !c.valid(seq) {
		return 0
	}
	last, err := llama.MemorySeqPosMax(c.memory, llama.SeqId(seq))
	if err != nil {
		return 0
	}
	return int(last) + 1
}

// StateSize is how many bytes StateGet needs.
func (c *Context) StateSize(seq int32) int {
	if !c.valid(seq) {
		return 0
	}
	return int(llama.StateSeqGetSize(c.handle, llama.SeqId(seq)))
}

// StateGet copies a sequence's state out and gives its length, 0 when dst is too
// short for it.
func (c *Context) StateGet(seq int32, dst []byte) int {
	if !c.valid(seq) || len(dst) == 0 {
		return 0
	}
	return int(llama.StateSeqGetData(c.handle, dst, llama.SeqId(seq)))
}

// StateSet replaces a sequence by a state that StateGet gave, also of another
// sequence. Less than the state's length means failure: remove the sequence then.
func (c *Context) StateSet(seq int32, src []byte) int {
	if !c.valid(seq) || len(src) == 0 {
		return 0
	}
	return int(llama.StateSeqSetData(c.handle, src, llama.SeqId(seq)))
}
