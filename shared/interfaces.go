package shared

import (
	"context"
	"time"
)

// WorkerInfo is what a worker process says of itself before anything is loaded.
type WorkerInfo struct {
	PID        int
	Version    string
	Engine     string
	CPUVariant string
}

// PrefetchRequest asks a worker to fill its host buffer.
type PrefetchRequest struct {
	Spec     SlotSpec
	Plan     PrefetchPlan
	Expected Identity
}

// PrefetchResult is the host buffer and what its bytes prove.
type PrefetchResult struct {
	HostBufferID      string
	HostBytes         int64
	Pinned            bool
	PinNote           string // why it is not pinned, when it is not
	Transfer          Transfer
	ModelRevision     string
	Precision         string
	TokenizerRevision string
	Read              time.Duration
	// Probe is what the transfer was chosen by and Reason what that came to; both
	// are empty when there was nothing to choose.
	Probe  TransferProbe
	Reason string
}

// ActivateRequest asks a worker to build its device buffers.
type ActivateRequest struct {
	Expected Identity
}

// ActivateResult is the built device buffers and the identity they prove.
type ActivateResult struct {
	Identity       Identity
	DeviceBufferID string
	DeviceBytes    int64
	// HostBytes is what lies in host memory beside the host buffer, when the device
	// is not the CPU.
	HostBytes     int64
	ContextTokens int
	Transfer      time.Duration
	Warmup        time.Duration
	Canary        time.Duration
	CanaryTokens  []int32
}

// TokenizeRequest turns text into token ids, or, when it has messages, the chat
// that they make with the tools, as Generate would.
type TokenizeRequest struct {
	Requirement  Requirement
	Identity     Identity
	Text         string
	AddSpecial   bool
	ParseSpecial bool
	Messages     []Message
	Tools        []Tool
	NoThinking   bool
}

// DetokenizeRequest turns token ids into text.
type DetokenizeRequest struct {
	Requirement Requirement
	Identity    Identity
	Tokens      []int32
}

// EmbedInput is one text to embed: exactly one of its fields is set.
type EmbedInput struct {
	Text   string
	Tokens []int32
}

// MaxEmbedInputs is the most texts of one call.
const MaxEmbedInputs = 2048

// EmbedRequest asks for a vector for each input.
type EmbedRequest struct {
	Requirement Requirement
	Identity    Identity
	Inputs      []EmbedInput
	OnMiss      OnMiss        // empty means the slot's own
	Deadline    time.Duration // counted from arrival; 0 means the default
}

// EmbedResult has the vectors in the order of the inputs, each of length 1.
type EmbedResult struct {
	SlotID       string
	Model        string
	Identity     Identity
	Vectors      [][]float32
	Pooling      string // mean, last or cls
	PromptTokens int    // of all inputs together
}

// ApplyTemplateRequest renders a chat with the model's own template.
type ApplyTemplateRequest struct {
	Requirement         Requirement
	Identity            Identity
	Messages            []Message
	AddGenerationPrompt bool
}

// EvictWorkerResult is what an eviction freed.
type EvictWorkerResult struct {
	DeviceBytesFreed int64
	HostBytesFreed   int64
}

// HeartbeatResult is a sign of life. Progress grows with each engine step.
type HeartbeatResult struct {
	Progress uint64
	Running  int
	Waiting  int
}

// WorkerStatus is the worker's own account of its slot.
type WorkerStatus struct {
	SlotID           string
	Status           SlotStatus
	Identity         Identity
	HostBytes        int64
	DeviceBytes      int64
	Pinned           bool
	SequencesRunning int
	SequencesWaiting int
	KVTokensUsed     int64
	KVTokensTotal    int64
	Pages            PageStats
}

// Worker owns one slot's buffers. The implementation in a worker process and
// the client that reaches it over plugin RPC both satisfy it.
//
// Generate ends in exactly one of three ways: a Result (done), an error of kind
// KindCancelled, or any other error. Chunks come before it through emit, from
// the calling goroutine; an error from emit cancels the request.
type Worker interface {
	Describe(ctx context.Context) (WorkerInfo, error)
	Prefetch(ctx context.Context, req PrefetchRequest, progress func(Progress)) (PrefetchResult, error)
	Activate(ctx context.Context, req ActivateRequest) (ActivateResult, error)
	Generate(ctx context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error)
	Tokenize(ctx context.Context, req TokenizeRequest) ([]int32, error)
	ApplyTemplate(ctx context.Context, req ApplyTemplateRequest) (string, error)
	Detokenize(ctx context.Context, req DetokenizeRequest) (string, error)
	// Embed fails with KindUnsupported for models that give no embeddings.
	Embed(ctx context.Context, req EmbedRequest) (EmbedResult, error)
	Evict(ctx context.Context, dropHost bool) (EvictWorkerResult, error)
	// Drain returns how many requests had to be cancelled at the deadline.
	Drain(ctx context.Context, deadline time.Duration) (int, error)
	Heartbeat(ctx context.Context) (HeartbeatResult, error)
	Status(ctx context.Context) (WorkerStatus, error)
}

// Frontend is the supervisor as frontends see it. The supervisor and the client
// that attaches to it over plugin RPC both satisfy it.
type Frontend interface {
	ListSlots(ctx context.Context) (SlotList, error)
	// WatchSlots calls changed with the whole list at once and after each
	// change, until ctx ends or changed fails.
	WatchSlots(ctx context.Context, changed func(SlotList) error) error
	Resolve(ctx context.Context, req Requirement) (Resolution, error)
	Generate(ctx context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error)
	Prepare(ctx context.Context, slotID string, progress func(Progress)) (SlotInfo, error)
	Evict(ctx context.Context, slotID string, dropHost bool) (SlotInfo, error)
	Restart(ctx context.Context, slotID string) (SlotInfo, error)
	Tokenize(ctx context.Context, req TokenizeRequest) ([]int32, error)
	ApplyTemplate(ctx context.Context, req ApplyTemplateRequest) (string, error)
	// Plan says what a declaration would change of the running slots. It changes
	// nothing.
	Plan(ctx context.Context, d Declaration) (Plan, error)
	// Reload reads the supervisor's own configuration again and applies what
	// changed. It does not wait until new slots are prepared.
	Reload(ctx context.Context) (Reload, error)
	// Activity gives the requests with a number above after that ended lately.
	Activity(ctx context.Context, after uint64) (Activity, error)
	Detokenize(ctx context.Context, req DetokenizeRequest) (string, error)
	// Embed fails with KindUnsupported for models that give no embeddings.
	Embed(ctx context.Context, req EmbedRequest) (EmbedResult, error)
}
