package llamacpp

import (
	"sync"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// Bounds of one Tokenize; the library counts in 32 bits.
const (
	maxText   = 1 << 30
	maxTokens = 1 << 30
)

// Model is built weights. Contexts and samplers made from it have to be closed
// before it is.
type Model struct {
	engine *Engine
	device string // the library's name for it; empty on the CPU
	info   slotworker.ModelInfo
	vocab  llama.Vocab
	bos    int32
	eos    int32
	pieces pieces
	// adapters belong to the model and are freed with it.
	adapters []llama.AdapterLora
	scales   []float32

	// Close waits for calls that use the library's memory and stops later ones.
	mu     sync.RWMutex
	handle llama.Model
}

var _ slotworker.Model = (*Model)(nil)

// read takes what is asked for again and again out of the library, and refuses
// models that cannot generate text.
func (m *Model) read(said logged) error {
	h := m.handle
	m.vocab = llama.ModelGetVocab(h)
	arch, _ := llama.ModelMetaValStr(h, "general.architecture")
	m.info = slotworker.ModelInfo{
		Architecture:  arch,
		Layers:        int(llama.ModelNLayer(h)),
		Embedding:     int(llama.ModelNEmbd(h)),
		Heads:         int(llama.ModelNHead(h)),
		HeadsKV:       int(llama.ModelNHeadKV(h)),
		SWA:           int(llama.ModelNSWA(h)),
		Recurrent:     llama.ModelIsRecurrent(h),
		Hybrid:        llama.ModelIsHybrid(h),
		TrainedTokens: int(llama.ModelNCtxTrain(h)),
		Vocab:         int(llama.VocabNTokens(m.vocab)),
		WeightBytes:   int64(llama.ModelSize(h)),
		OwnBytes:      said.buffers(func(where, kind string) bool { return kind == "model" && !m.inHost(where) }),
		HostBytes:     said.buffers(func(where, kind string) bool { return kind == "model" && m.inHost(where) }),
	}
	pooling, _ := llama.ModelMetaValStr(h, arch+".pooling_type")
	m.info.Pooling = poolings()[pooling]
	causal, _ := llama.ModelMetaValStr(h, arch+".attention.causal")
	switch {
	case m.info.Vocab <= 0 || llama.GetVocabType(m.vocab) == llama.VocabTypeNone:
		return shared.Errorf(shared.KindUnsupported, "the model (%s) has no tokenizer", arch)
	case llama.ModelHasEncoder(h) || !llama.ModelHasDecoder(h):
		return shared.Errorf(shared.KindUnsupported, "the model (%s) has an encoder; only decoders can generate here", arch)
	case causal == "false" || llama.ModelIsDiffusion(h):
		return shared.Errorf(shared.KindUnsupported, "the model (%s) does not attend causally and cannot generate", arch)
	}
	m.bos, m.eos = int32(llama.VocabBOS(m.vocab)), int32(llama.VocabEOS(m.vocab))
	m.pieces = newPieces(m.info.Vocab)
	return nil
}

// poolings are the names of what a file says of pooling.
func poolings() map[string]string {
	return map[string]string{"0": "none", "1": "mean", "2": "cls", "3": "last", "4": "rank"}
}

// Info is what the engine says of the model.
func (m *Model) Info() slotworker.ModelInfo { return m.info }

// BOS is the token that begins a text, -1 when there is none.
func (m *Model) BOS() int32 { return m.bos }

// EOS is the token that ends a text, -1 when there is none.
func (m *Model) EOS() int32 { return m.eos }

// IsEOG says whether a token ends generation; one outside the vocabulary does not.
func (m *Model) IsEOG(token int32) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.handle != 0 && m.valid(token) && llama.VocabIsEOG(m.vocab, llama.Token(token))
}

// valid says whether the vocabulary has the token.
func (m *Model) valid(token int32) bool { return token >= 0 && int(token) < m.info.Vocab }

// Tokenize turns text into token ids.
func (m *Model) Tokenize(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	if len(text) > maxText {
		return nil, shared.Errorf(shared.KindInvalid, "a text of %d bytes is too long", len(text))
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.handle == 0 {
		return nil, errClosed()
	}
	// A token is rarely shorter than a byte; the library says when it is.
	tokens := make([]int32, len(text)+8)
	n := m.engine.native.tokenizeInto(tokens, m.vocab, text, addSpecial, parseSpecial)
	if n < 0 && n >= -maxTokens {
		tokens = make([]int32, -n)
		n = m.engine.native.tokenizeInto(tokens, m.vocab, text, addSpecial, parseSpecial)
	}
	if n < 0 {
		return nil, shared.Errorf(shared.KindInvalid, "a text of %d bytes has too many tokens", len(text))
	}
	return tokens[:n:n], nil
}

// Close frees the weights. It waits for calls of other goroutines and may be
// called again.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handle != 0 {
		// The one error is about a zero handle.
		_ = llama.ModelFree(m.handle)
		m.handle = 0
	}
}

func errClosed() error { return shared.Errorf(shared.KindUnavailable, "the model is closed") }
