package llamacpp

import (
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// defaultLastN is how many tokens penalties look back at when not told.
const defaultLastN = 64

// Sampler is one request's chain of samplers.
type Sampler struct {
	model *Model
	chain llama.Sampler
}

var _ slotworker.Sampler = (*Sampler)(nil)

// NewSampler makes a chain in the order that llama.cpp's own programs use: bias,
// penalties, top-k, top-p, min-p, temperature, draw. Temperature 0 takes the best
// token after bias and penalties.
func (m *Model) NewSampler(s shared.Sampling, history []int32) (slotworker.Sampler, error) {
	if err := m.checkSampling(s); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.handle == 0 {
		return nil, errClosed()
	}
	own := &Sampler{model: m, chain: llama.SamplerChainInit(llama.SamplerChainParams{NoPerf: 1})}
	own.addBias(s.LogitBias)
	own.addPenalties(s, history)
	if s.Temperature == 0 {
		own.add(llama.SamplerInitGreedy())
		return own, nil
	}
	if s.TopK > 0 {
		own.add(llama.SamplerInitTopK(int32(min(s.TopK, m.info.Vocab))))
	}
	if s.TopP > 0 && s.TopP < 1 {
		own.add(llama.SamplerInitTopP(s.TopP, 1))
	}
	if s.MinP > 0 {
		own.add(llama.SamplerInitMinP(s.MinP, 1))
	}
	own.add(llama.SamplerInitTemp(s.Temperature))
	own.add(llama.SamplerInitDist(librarySeed(s.Seed)))
	return own, nil
}

func (s *Sampler) add(link llama.Sampler) { llama.SamplerChainAdd(s.chain, link) }

func (s *Sampler) addBias(bias []shared.LogitBias) {
	if len(bias) == 0 {
		return
	}
	list := make([]llama.LogitBias, len(bias))
	for i, b := range bias {
		list[i] = llama.LogitBias{Token: llama.Token(b.Token), Bias: b.Bias}
	}
	// The library copies the list.
	s.add(llama.SamplerInitLogitBias(int32(s.model.info.Vocab), int32(len(list)), unsafe.SliceData(list)))
}

// addPenalties lets the penalties see the end of the prompt, as far back as they look.
func (s *Sampler) addPenalties(p shared.Sampling, history []int32) {
	repeat := p.RepeatPenalty
	if repeat == 0 {
		repeat = 1
	}
	if repeat == 1 && p.PresencePenalty == 0 && p.FrequencyPenalty == 0 {
		return
	}
	longest := max(s.model.info.TrainedTokens, defaultLastN)
	n := p.RepeatLastN
	switch {
	case n == 0:
		n = defaultLastN
	case n < 0 || n > longest:
		n = longest
	}
	link := llama.SamplerInitPenalties(int32(s.model.info.Vocab), int32(n), repeat, p.FrequencyPenalty, p.PresencePenalty)
	s.add(link)
	for _, token := range history[max(0, len(history)-n):] {
		if s.model.valid(token) {
			llama.SamplerAccept(link, llama.Token(token))
		}
	}
}

// Accept lets the chain see a token that it did not sample itself.
func (s *Sampler) Accept(token int32) {
	if s.chain != 0 && s.model.valid(token) {
		llama.SamplerAccept(s.chain, llama.Token(token))
	}
}

// Close frees the chain. It may be called again.
func (s *Sampler) Close() {
	llama.SamplerFree(s.chain)
	s.chain = 0
}

// librarySeed maps seeds to the library's, where the highest number and not 0
// means a random one. No number of ours but 0 is random, and none is lost.
func librarySeed(seed uint32) uint32 {
	switch seed {
	case 0:
		return 1 + rand.Uint32N(llama.DefaultSeed-1)
	case llama.DefaultSeed:
		return 0
	default:
		return seed
	}
}

// checkSampling refuses numbers that make no sense or that the library would
// take badly.
func (m *Model) checkSampling(s shared.Sampling) error {
	finite := func(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
	switch {
	case !finite(s.Temperature) || s.Temperature < 0:
		return invalid("temperature", "temperature %v is not a number from 0", s.Temperature)
	case s.TopK < 0:
		return invalid("top_k", "top_k %d is negative", s.TopK)
	case !finite(s.TopP) || s.TopP < 0 || s.TopP > 1:
		return invalid("top_p", "top_p %v is not between 0 and 1", s.TopP)
	case !finite(s.MinP) || s.MinP < 0 || s.MinP > 1:
		return invalid("min_p", "min_p %v is not between 0 and 1", s.MinP)
	case !finite(s.RepeatPenalty) || s.RepeatPenalty < 0:
		return invalid("repeat_penalty", "repeat_penalty %v is not a number from 0", s.RepeatPenalty)
	case s.RepeatLastN < -1:
		return invalid("repeat_last_n", "repeat_last_n %d is below -1", s.RepeatLastN)
	case !finite(s.PresencePenalty):
		return invalid("presence_penalty", "presence_penalty %v is not a number", s.PresencePenalty)
	case !finite(s.FrequencyPenalty):
		return invalid("frequency_penalty", "frequency_penalty %v is not a number", s.FrequencyPenalty)
	}
	for _, b := range s.LogitBias {
		if !m.valid(b.Token) {
			return invalid("logit_bias", "logit_bias names token %d, which is not in the vocabulary of %d", b.Token, m.info.Vocab)
		}
		// Minus infinity bans a token.
		if math.IsNaN(float64(b.Bias)) || math.IsInf(float64(b.Bias), 1) {
			return invalid("logit_bias", "logit_bias of token %d is %v", b.Token, b.Bias)
		}
	}
	return nil
}
