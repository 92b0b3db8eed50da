package ggufwrite

import (
	"fmt"

	"github.com/firstframe/firstframe/shared/gguf"
)

// Kind is what a generated model remembers its past with.
type Kind string

// The kinds of generated models.
const (
	Llama     Kind = "llama"     // attention over everything
	Window    Kind = "window"    // attention of which most layers see a window only
	Recurrent Kind = "recurrent" // a state that is written over, no attention
)

// Model describes a model with random weights: the work of a real one, and
// nonsense as its answer. The same description gives the same bytes.
type Model struct {
	Kind Kind // empty means Llama
	// TargetBytes asks for a size of the weights, met within about 1 %; sizes
	// below that are 0 are then chosen to fit. 0 means as small as is useful.
	TargetBytes int64
	Layers      int
	Embedding   int // a multiple of 64
	Heads       int // 0 means heads of 64
	HeadsKV     int // 0 means a quarter of Heads
	FeedForward int // a multiple of 32
	Context     int // 0 means 8192
	WindowSize  int // of kind Window; 0 means 64
	Seed        uint64
	// Tokenizer is the keys of a tokenizer, such as CopyKeys gives them for the
	// prefix "tokenizer.".
	Tokenizer []Key
}

// Build lays a model out as a file. Weights are made while it is written.
func (m Model) Build() (*File, error) {
	vocab := 0
	for _, k := range m.Tokenizer {
		if k.Name == "tokenizer.ggml.tokens" {
			vocab = int(k.Value.Count)
		}
	}
	if vocab == 0 {
		return nil, fmt.Errorf("the model needs a tokenizer with tokens")
	}
	if m.Kind == "" {
		m.Kind = Llama
	}
	if err := m.fill(vocab); err != nil {
		return nil, err
	}
	b := &builder{model: m, vocab: vocab}
	switch m.Kind {
	case Llama:
		b.attention("llama")
	case Window:
		b.attention("gemma3")
	case Recurrent:
		b.recurrent("mamba")
	default:
		return nil, fmt.Errorf("no kind of model is called %q", m.Kind)
	}
	b.file.Keys = append(b.file.Keys, m.Tokenizer...)
	return &b.file, nil
}

// fill chooses the sizes that are 0.
func (m *Model) fill(vocab int) error {
	chosen := *m
	widths := []int{64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096}
	for _, width := range widths {
		chosen = *m
		chosen.size(width, vocab)
		// Wide enough that no more layers are needed than a model of that width has.
		if m.Embedding != 0 || chosen.Layers <= 8+width/64 {
			break
		}
	}
	switch {
	case chosen.Embedding%64 != 0 || chosen.Embedding <= 0:
		return fmt.Errorf("embedding %d is not a multiple of 64", chosen.Embedding)
	case chosen.FeedForward%32 != 0 || chosen.FeedForward <= 0:
		return fmt.Errorf("feed forward %d is not a multiple of 32", chosen.FeedForward)
	case chosen.Heads <= 0 || chosen.Embedding%chosen.Heads != 0 || chosen.Heads%chosen.HeadsKV != 0:
		return fmt.Errorf("embedding %d, %d heads and %d KV heads do not divide", chosen.Embedding, chosen.Heads, chosen.HeadsKV)
	case chosen.Layers <= 0:
		return fmt.Errorf("%d layers", chosen.Layers)
	}
	*m = chosen
	return nil
}

// size fills in sizes for one width and, to meet the target, first the number
// of layers and then the width of the feed forward.
func (m *Model) size(width, vocab int) {
	orElse := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	layersGiven, forwardGiven := m.Layers != 0, m.FeedForward != 0
	orElse(&m.Embedding, width)
	orElse(&m.Heads, max(m.Embedding/64, 1))
	orElse(&m.HeadsKV, max(m.Heads/4, 1))
	orElse(&m.FeedForward, m.Embedding*11/4/32*32)
	orElse(&m.Context, 8192)
	orElse(&m.WindowSize, 64)
	orElse(&m.Layers, 6)
	if m.TargetBytes == 0 {
		return
	}
	const bytesPerWeight = 2
	kv := m.Embedding / m.Heads * m.HeadsKV
	fixed := int64(2 * vocab * m.Embedding)
	attention := int64(2 * m.Embedding * (m.Embedding + kv))
	perForward := int64(3 * m.Embedding)
	wanted := m.TargetBytes/bytesPerWeight - fixed
	if !layersGiven {
		perLayer := attention + perForward*int64(m.FeedForward)
		m.Layers = max(int((wanted+perLayer/2)/perLayer), 1)
	}
	if !forwardGiven {
		m.FeedForward = max(int((wanted/int64(m.Layers)-attention)/perForward)/32*32, 32)
	}
}

// builder collects keys and tensors.
type builder struct {
	model Model
	vocab int
	file  File
}

func (b *builder) key(k Key) { b.file.Keys = append(b.file.Keys, k) }

// common writes the keys that all architectures have.
func (b *builder) common(arch string) {
	m := b.model
	b.key(Str("general.architecture", arch))
	b.key(Str("general.type", "model"))
	b.key(Str("general.name", fmt.Sprintf("random %s %d", m.Kind, m.Seed)))
	b.key(U32("general.file_type", 1))
	b.key(U32(arch+".block_count", uint32(m.Layers)))
	b.key(U32(arch+".context_length", uint32(m.Context)))
	b.key(U32(arch+".embedding_length", uint32(m.Embedding)))
	b.key(U32(arch+".vocab_size", uint32(b.vocab)))
	b.key(F32(arch+".attention.layer_norm_rms_epsilon", 1e-5))
}

// attention lays out a transformer. The windowed architecture shares its output
// with the embedding and has more norms.
func (b *builder) attention(arch string) {
	m := b.model
	head := m.Embedding / m.Heads
	b.common(arch)
	b.key(U32(arch+".feed_forward_length", uint32(m.FeedForward)))
	b.key(U32(arch+".attention.head_count", uint32(m.Heads)))
	b.key(U32(arch+".attention.head_count_kv", uint32(m.HeadsKV)))
	b.key(U32(arch+".attention.key_length", uint32(head)))
	b.key(U32(arch+".attention.value_length", uint32(head)))
	b.key(U32(arch+".rope.dimension_count", uint32(head)))
	b.key(F32(arch+".rope.freq_base", 10000))
	window := m.Kind == Window
	if window {
		b.key(U32(arch+".attention.sliding_window", uint32(m.WindowSize)))
	}
	b.weight("token_embd.weight", m.Embedding, b.vocab)
	b.vector("output_norm.weight", m.Embedding, ones)
	if !window {
		b.weight("output.weight", m.Embedding, b.vocab)
	}
	for i := range m.Layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", i, part) }
		b.vector(name("attn_norm"), m.Embedding, ones)
		b.weight(name("attn_q"), m.Embedding, m.Embedding)
		b.weight(name("attn_k"), m.Embedding, head*m.HeadsKV)
		b.weight(name("attn_v"), m.Embedding, head*m.HeadsKV)
		b.weight(name("attn_output"), m.Embedding, m.Embedding)
		if window {
			b.vector(name("attn_q_norm"), head, ones)
			b.vector(name("attn_k_norm"), head, ones)
			b.vector(name("post_attention_norm"), m.Embedding, ones)
			b.vector(name("post_ffw_norm"), m.Embedding, ones)
		}
		b.vector(name("ffn_norm"), m.Embedding, ones)
		b.weight(name("ffn_gate"), m.Embedding, m.FeedForward)
		b.weight(name("ffn_up"), m.Embedding, m.FeedForward)
		b.weight(name("ffn_down"), m.FeedForward, m.Embedding)
	}
}

// recurrent lays out a state space model.
func (b *builder) recurrent(arch string) {
	const convolution, state = 4, 16
	m := b.model
	inner, rank := 2*m.Embedding, max(m.Embedding/16, 1)
	b.common(arch)
	b.key(U32(arch+".feed_forward_length", 0))
	b.key(U32(arch+".attention.head_count", 0))
	b.key(U32(arch+".ssm.conv_kernel", convolution))
	b.key(U32(arch+".ssm.inner_size", uint32(inner)))
	b.key(U32(arch+".ssm.state_size", state))
	b.key(U32(arch+".ssm.time_step_rank", uint32(rank)))
	b.weight("token_embd.weight", m.Embedding, b.vocab)
	b.vector("output_norm.weight", m.Embedding, ones)
	for i := range m.Layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s", i, part) }
		b.vector(name("attn_norm.weight"), m.Embedding, ones)
		b.weight(name("ssm_in.weight"), m.Embedding, 2*inner)
		b.tensor(name("ssm_conv1d.weight"), gguf.F32, normal32, convolution, inner)
		b.vector(name("ssm_conv1d.bias"), inner, normal32)
		b.weight(name("ssm_x.weight"), inner, rank+2*state)
		b.weight(name("ssm_dt.weight"), rank, inner)
		b.vector(name("ssm_dt.bias"), inner, normal32)
		b.tensor(name("ssm_a"), gguf.F32, decays, state, inner)
		b.vector(name("ssm_d"), inner, ones)
		b.weight(name("ssm_out.weight"), inner, m.Embedding)
	}
}
