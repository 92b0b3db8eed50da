package llamacpp

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// maxThreads is the library's own limit; above it an assertion fails.
const maxThreads = 512

// kvTypes are the types that the library can keep KV memory in.
func kvTypes() map[string]llama.GGMLType {
	return map[string]llama.GGMLType{
		"f32": llama.GGMLTypeF32, "f16": llama.GGMLTypeF16, "bf16": llama.GGMLTypeBF16,
		"q8_0": llama.GGMLTypeQ8_0, "q5_1": llama.GGMLTypeQ5_1, "q5_0": llama.GGMLTypeQ5_0,
		"q4_1": llama.GGMLTypeQ4_1, "q4_0": llama.GGMLTypeQ4_0, "iq4_nl": llama.GGMLTypeIQ4_NL,
	}
}

// Context is KV memory, compute buffers and a thread pool.
type Context struct {
	model  *Model
	handle llama.Context
	memory llama.Memory
	pool   llama.Threadpool
	batch  llama.Batch
	rows   batchRows
	bytes  int64 // on the device
	host   int64 // beside it

	sequences int
	outputs   int
	embeds    bool
	logits    []bool // which rows of the last Decode have logits

	candidates []llama.TokenData // of one SampleAmong
}

var _ slotworker.Context = (*Context)(nil)

// NewContext allocates a context. Every sequence has a stream of KV memory of its
// own, so that what one holds costs the others nothing.
func (m *Model) NewContext(cfg slotworker.ContextConfig) (slotworker.Context, error) {
	params, err := contextParams(cfg)
	if err != nil {
		return nil, err
	}
	if m.device != "" {
		params.Offload_kqv, params.OpOffload = 1, 1
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.handle == 0 {
		return nil, errClosed()
	}
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	c := &Context{model: m, sequences: cfg.Sequences, embeds: cfg.Embeddings}
	said := m.engine.log.during(func() { c.handle, err = llama.InitFromModel(m.handle, params) })
	if err != nil {
		return nil, shared.Errorf(shared.KindEngine, "cannot make a context: %s", said.reason())
	}
	if err := c.prepare(cfg, said); err != nil {
		c.Close()
		return nil, err
	}
	if err := m.apply(c.handle); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// contextParams checks a configuration before the library asserts on it.
func contextParams(cfg slotworker.ContextConfig) (llama.ContextParams, error) {
	kv, known := kvTypes()[cfg.KVType]
	switch {
	case !known:
		names := strings.Join(slices.Sorted(maps.Keys(kvTypes())), ", ")
		return llama.ContextParams{}, invalid("kv_type", "kv_type %q is none of %s", cfg.KVType, names)
	case cfg.TokensPerSequence <= 0:
		return llama.ContextParams{}, invalid("tokens", "a context of %d tokens is not possible", cfg.TokensPerSequence)
	case cfg.Sequences <= 0 || uint64(cfg.Sequences) > llama.MaxParallelSequences():
		return llama.ContextParams{}, invalid("parallel", "%d sequences are not between 1 and %d", cfg.Sequences, llama.MaxParallelSequences())
	case cfg.TokensPerSequence > math.MaxInt32/2/cfg.Sequences:
		return llama.ContextParams{}, invalid("tokens", "%d sequences of %d tokens are too many", cfg.Sequences, cfg.TokensPerSequence)
	case cfg.BatchTokens <= 0 || cfg.BatchTokens > math.MaxInt32/2:
		return llama.ContextParams{}, invalid("prefill_chunk", "a batch of %d tokens is not possible", cfg.BatchTokens)
	case cfg.Outputs < 0 || cfg.Outputs > cfg.BatchTokens:
		return llama.ContextParams{}, invalid("outputs", "%d outputs of a batch of %d tokens are not possible", cfg.Outputs, cfg.BatchTokens)
	case cfg.Threads <= 0 || cfg.Threads > maxThreads:
		return llama.ContextParams{}, invalid("threads", "%d threads are not between 1 and %d", cfg.Threads, maxThreads)
	}
	p := llama.ContextDefaultParams()
	p.NCtx = uint32(cfg.TokensPerSequence * cfg.Sequences)
	p.NSeqMax = uint32(cfg.Sequences)
	p.NBatch, p.NUbatch = uint32(cfg.BatchTokens), uint32(cfg.BatchTokens)
	p.NOutputsMax = uint32(cfg.Outputs)
	p.NThreads, p.NThreadsBatch = int32(cfg.Threads), int32(cfg.Threads)
	p.FlashAttentionType = llama.FlashAttentionTypeEnabled
	p.TypeK, p.TypeV = kv, kv
	p.KVUnified = 0
	p.SwaFull = 0
	p.Offload_kqv = 0
	p.OpOffload = 0
	p.NoPerf = 1
	if cfg.Embeddings {
		// The library pools within one batch only; longer texts have to be pooled outside.
		p.Embeddings = 1
		p.PoolingType = llama.PoolingTypeNone
	}
	return p, nil
}

// prepare makes the rest of a context and checks what the library made of the
// parameters, which it rounds and clamps.
func (c *Context) prepare(cfg slotworker.ContextConfig, said logged) error {
	memory, err := llama.GetMemory(c.handle)
	if err != nil || memory == 0 {
		return shared.Errorf(shared.KindUnsupported, "the model (%s) keeps no KV memory and cannot generate", c.model.info.Architecture)
	}
	c.memory = memory
	if per := llama.NCtxSeq(c.handle); int64(per) < int64(cfg.TokensPerSequence) {
		return shared.Errorf(shared.KindEngine, "the engine gives a sequence %d tokens instead of %d", per, cfg.TokensPerSequence)
	}
	if n := llama.NSeqMax(c.handle); int64(n) < int64(cfg.Sequences) {
		return shared.Errorf(shared.KindEngine, "the engine gives a context %d sequences instead of %d", n, cfg.Sequences)
	}
	capacity := min(cfg.BatchTokens, int(llama.NBatch(c.handle)))
	c.outputs = capacity
	if cfg.Outputs > 0 {
		c.outputs = min(cfg.Outputs, capacity)
	}
	c.batch = llama.BatchInit(int32(capacity), 0, 1)
	if c.batch.Token == nil || c.batch.SeqId == nil {
		return shared.Errorf(shared.KindEngine, "no memory for a batch of %d tokens", capacity)
	}
	c.rows = newBatchRows(&c.batch, capacity)
	c.logits = make([]bool, 0, capacity)
	if c.pool, err = newPool(cfg.Threads); err != nil {
		return shared.Errorf(shared.KindEngine, "cannot start the engine's threads: %w", err)
	}
	llama.AttachThreadpool(c.handle, uintptr(c.pool), uintptr(c.pool))
	c.bytes = said.buffers(func(where, kind string) bool { return kind != "model" && !c.model.inHost(where) })
	c.host = said.buffers(func(where, kind string) bool { return kind != "model" && c.model.inHost(where) })
	return nil
}

// newPool makes threads that stay for the life of the context. They do not spin
// while they wait for the next step: the cores belong to the goroutines that send
// the token, and to other slots.
func newPool(threads int) (llama.Threadpool, error) {
	params := llama.ThreadpoolParamsDefault(int32(threads))
	params.Poll = 0
	return llama.ThreadpoolNew(&params)
}

// DeviceBytes is KV memory and compute buffers as the library reports them, in
// steps of a hundredth of a MiB.
func (c *Context) DeviceBytes() int64 { return c.bytes }

// HostBytes is what of them lies in host memory beside a device.
func (c *Context) HostBytes() int64 { return c.host }

// Close frees the context, then its threads. It may be called again.
func (c *Context) Close() {
	if c.handle != 0 {
		// The errors of these are about zero handles.
		_ = llama.Free(c.handle)
		c.handle, c.memory = 0, 0
	}
	llama.ThreadpoolFree(c.pool)
	c.pool = 0
	if c.batch.Token != nil {
		_ = llama.BatchFree(c.batch)
		c.batch, c.rows = llama.Batch{}, batchRows{}
	}
	c.logits = c.logits[:0]
}

// batchRows are the batch's C arrays as slices, so that a row is written without
// a call.
type batchRows struct {
	token  []llama.Token
	pos    []llama.Pos
	seq    []*llama.SeqId // one id each
	logits []int8
}

// newBatchRows views the arrays of a batch and fills what is the same in every row.
func newBatchRows(b *llama.Batch, n int) batchRows {
	for i := range unsafe.Slice(b.NSeqId, n) {
		unsafe.Slice(b.NSeqId, n)[i] = 1
	}
	return batchRows{
		token:  unsafe.Slice(b.Token, n),
		pos:    unsafe.Slice(b.Pos, n),
		seq:    unsafe.Slice(b.SeqId, n),
		logits: unsafe.Slice(b.Logits, n),
	}
}

// invalid is an error about one field of a request or configuration.
func invalid(field, format string, args ...any) error {
	err := shared.Errorf(shared.KindInvalid, format, args...)
	err.Field = field
	return err
}
