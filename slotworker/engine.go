package slotworker

import (
	"errors"

	"github.com/firstframe/firstframe/shared"
)

// EngineInfo says which native library was loaded.
type EngineInfo struct {
	Version    string // as the library reports it
	CPUVariant string // which CPU backend was chosen, such as haswell
}

// LoadRequest names where the weights come from: exactly one of Path and Bytes.
type LoadRequest struct {
	// Path is a file that the engine maps and reads in place.
	Path string
	// MoreParts are the files of a split model after the one at Path.
	MoreParts []string
	// Bytes is the whole model file in a host buffer; the engine copies the
	// weights out of it, so the buffer may be kept, reused or freed afterwards.
	Bytes []byte
	// Device is what the model is computed on: cpu or cuda:N.
	Device string
	// GPULayers is how many layers a device apart from the CPU computes; 0 means all.
	GPULayers int
	// Progress is told a number from 0 to 1; false ends the load with an error.
	Progress func(float32) bool
	// Adapters are applied by every context of the model, one after the other.
	Adapters []AdapterSource
}

// AdapterSource is a LoRA adapter that the engine copies out of a file.
type AdapterSource struct {
	Path  string
	Name  string // what people call the file
	Scale float32
}

// Engine is a loaded inference library.
type Engine interface {
	Info() EngineInfo
	Load(req LoadRequest) (Model, error)
}

// ModelInfo is what the engine says of a model that it has built.
type ModelInfo struct {
	Architecture  string
	Layers        int
	Embedding     int
	Heads         int
	HeadsKV       int
	SWA           int // sliding window, 0 when attention is full
	Recurrent     bool
	Hybrid        bool
	Pooling       string // none, mean, cls, last or rank; empty when the file does not say
	TrainedTokens int
	Vocab         int
	WeightBytes   int64
	// OwnBytes is how much of the weights lies in memory of the device that the
	// engine allocated: all of a model built from bytes, only what was repacked of a
	// mapped one.
	OwnBytes int64
	// HostBytes is what it allocated for weights in host memory when the device is
	// not the CPU.
	HostBytes int64
}

// ContextConfig sizes a context. The KV memory has one stream per sequence.
type ContextConfig struct {
	TokensPerSequence int
	Sequences         int
	BatchTokens       int // most rows in one Decode
	// Outputs is the most rows with Logits in one Decode; 0 means BatchTokens. A
	// compute buffer of Outputs times the vocabulary is allocated for them.
	Outputs int
	Threads int
	KVType  string
	// Embeddings makes a context for vectors instead of text: every row has an
	// embedding, and none is sampled from.
	Embeddings bool
}

// Model is built weights. Its methods may be called from any goroutine.
type Model interface {
	Info() ModelInfo
	Tokenize(text string, addSpecial, parseSpecial bool) ([]int32, error)
	// Piece is the text of one token; special tokens have none unless special is set.
	Piece(token int32, special bool) []byte
	IsEOG(token int32) bool
	// BOS and EOS are -1 when the vocabulary has none.
	BOS() int32
	EOS() int32
	NewContext(cfg ContextConfig) (Context, error)
	// NewSampler makes a chain; history is accepted so that penalties see the prompt.
	NewSampler(s shared.Sampling, history []int32) (Sampler, error)
	Close()
}

// Row is one token of a batch.
type Row struct {
	Token  int32
	Pos    int32
	Seq    int32
	Logits bool
}

// Errors of Context.Decode.
var (
	// ErrNoKVSpace: no place was found for the batch; nothing was changed.
	ErrNoKVSpace = errors.New("no free KV cells for the batch")
	// ErrDecodeAborted: the abort callback ended the step; the KV state of the batch's sequences is unknown.
	ErrDecodeAborted = errors.New("decode was aborted")
	// ErrDecodeFailed: the engine failed; the KV state of the batch's sequences is unknown.
	ErrDecodeFailed = errors.New("decode failed")
)

// Context is the KV memory and the compute buffers: the device buffer apart
// from the weights. All calls come from one goroutine locked to its thread.
type Context interface {
	// Decode computes one batch. Row numbers in Sample and Logits are indices into rows.
	Decode(rows []Row) error
	// Sample chooses and accepts a token; -1 for a row that has no logits.
	Sample(s Sampler, row int) int32
	// SampleAmong is Sample among the tokens that may come next; -1 also when there
	// is none of them.
	SampleAmong(s Sampler, row int, may Allowed) int32
	// Logits is the engine's own memory, valid until the next Decode.
	Logits(row int) []float32
	// Embedding is the vector of one row of the last Decode, in the engine's own
	// memory; nil when the model gives none or the context was not made for it.
	Embedding(row int) []float32
	// SeqRemove drops positions from..to (to < 0: to the end); false means that
	// this kind of memory cannot be cut there.
	SeqRemove(seq, from, to int32) bool
	// SeqTokens is the engine's own count of a sequence's positions.
	SeqTokens(seq int32) int
	StateSize(seq int32) int
	// StateGet returns how many bytes it wrote, StateSet how many it read; less
	// than the state's size means failure, and after a failed StateSet the
	// sequence has to be removed.
	StateGet(seq int32, dst []byte) int
	StateSet(seq int32, src []byte) int
	// DeviceBytes is KV memory plus compute buffers, as far as the engine tells.
	DeviceBytes() int64
	// HostBytes is what of these is in host memory when the device is not the CPU.
	HostBytes() int64
	Close()
}

// Allowed says which tokens may come next.
type Allowed interface {
	Allows(token int32) bool
	// Mask has a bit for each token, the lowest first, and is nil when there is none.
	Mask() []uint64
}

// Sampler chooses tokens for one request.
type Sampler interface {
	Accept(token int32)
	Close()
}
