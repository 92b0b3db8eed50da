package llamacpp

import (
	"runtime"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/slotworker"
)

// SampleAmong chooses a token that is allowed and accepts it. Most of the time the
// token that would be chosen anyway is, so the others are looked at only when it
// is not.
func (c *Context) SampleAmong(s slotworker.Sampler, row int, may slotworker.Allowed) int32 {
	own := c.sampler(s, row)
	if own == nil {
		return llama.TokenNull
	}
	logits := c.Logits(row)
	c.candidates = c.candidates[:0]
	for i, v := range logits {
		c.candidates = append(c.candidates, llama.TokenData{Id: llama.Token(i), Logit: v})
	}
	token := own.choose(c.candidates)
	if token < 0 || !may.Allows(token) {
		c.candidates = c.candidates[:0]
		for word, bits := range may.Mask() {
			for i := word * 64; bits != 0; i, bits = i+1, bits>>1 {
				if bits&1 != 0 && i < len(logits) {
					c.candidates = append(c.candidates, llama.TokenData{Id: llama.Token(i), Logit: logits[i]})
				}
			}
		}
		token = own.choose(c.candidates)
	}
	if token >= 0 {
		llama.SamplerAccept(own.chain, llama.Token(token))
	}
	return token
}

// choose runs the chain over candidates, which it changes; -1 when there is none.
func (s *Sampler) choose(candidates []llama.TokenData) int32 {
	if len(candidates) == 0 {
		return llama.TokenNull
	}
	list := llama.TokenDataArray{Data: unsafe.SliceData(candidates), Size: uint64(len(candidates)), Selected: -1}
	llama.SamplerApply(s.chain, &list)
	runtime.KeepAlive(candidates)
	if list.Selected < 0 || uint64(list.Selected) >= list.Size || list.Size > uint64(len(candidates)) {
		return llama.TokenNull
	}
	return int32(unsafe.Slice(list.Data, list.Size)[list.Selected].Id)
}
