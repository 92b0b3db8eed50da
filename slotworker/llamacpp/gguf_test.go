package llamacpp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// tiny writes model files of architectures and with faults that the project's own
// models do not have. Their weights are noise; the engine does not mind.
type tiny struct {
	arch    string
	keys    bytes.Buffer
	nKeys   uint64
	tensors []tinyTensor
	random  *rand.Rand
}

type tinyTensor struct {
	name string
	ne   []int
	data []float32
}

const (
	tinyWidth = 64
	tinyVocab = 3 + 256

	ggufU32, ggufI32, ggufF32, ggufBool, ggufString, ggufArray = 4, 5, 6, 7, 8, 9
)

func newTiny(arch string) *tiny {
	m := &tiny{arch: arch, random: rand.New(rand.NewPCG(1, 2))}
	m.text("general.architecture", arch)
	m.number("context_length", 512)
	m.number("embedding_length", tinyWidth)
	m.number("block_count", 2)
	m.float("attention.layer_norm_rms_epsilon", 1e-5)
	m.vocabulary()
	m.weight("token_embd.weight", tinyWidth, tinyVocab)
	return m
}

func (m *tiny) put(v any) {
	if err := binary.Write(&m.keys, binary.LittleEndian, v); err != nil {
		panic(err)
	}
}

func (m *tiny) string(s string) { m.put(uint64(len(s))); m.keys.WriteString(s) }

func (m *tiny) key(name string, kind uint32) { m.nKeys++; m.string(name); m.put(kind) }

func (m *tiny) text(name, value string)         { m.key(name, ggufString); m.string(value) }
func (m *tiny) number(name string, v uint32)    { m.key(m.arch+"."+name, ggufU32); m.put(v) }
func (m *tiny) float(name string, v float32)    { m.key(m.arch+"."+name, ggufF32); m.put(v) }
func (m *tiny) flag(name string, v bool)        { m.key(m.arch+"."+name, ggufBool); m.put(v) }
func (m *tiny) numbers(name string, v ...int32) { m.key(m.arch+"."+name, ggufArray); m.list(v) }

func (m *tiny) list(v []int32) { m.put(uint32(ggufI32)); m.put(uint64(len(v))); m.put(v) }

// vocabulary is bytes and three special tokens.
func (m *tiny) vocabulary() {
	m.text("tokenizer.ggml.model", "llama")
	m.key("tokenizer.ggml.tokens", ggufArray)
	m.put(uint32(ggufString))
	m.put(uint64(tinyVocab))
	for _, s := range []string{"<unk>", "<s>", "</s>"} {
		m.string(s)
	}
	kinds := []int32{2, 3, 3}
	for b := range 256 {
		m.string(fmt.Sprintf("<0x%02X>", b))
		kinds = append(kinds, 6)
	}
	m.key("tokenizer.ggml.token_type", ggufArray)
	m.list(kinds)
	m.key("tokenizer.ggml.scores", ggufArray)
	m.put(uint32(ggufF32))
	m.put(uint64(tinyVocab))
	m.put(make([]float32, tinyVocab))
}

// weight adds a tensor of noise; sizes are in the engine's order, rows first.
func (m *tiny) weight(name string, ne ...int) {
	n := 1
	for _, d := range ne {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(m.random.NormFloat64() * 0.2)
	}
	m.tensors = append(m.tensors, tinyTensor{name, ne, data})
}

// set overwrites a tensor with one value.
func (m *tiny) set(name string, v float32) {
	for _, t := range m.tensors {
		if t.name == name {
			for i := range t.data {
				t.data[i] = v
			}
		}
	}
}

// bytes is the finished file.
func (m *tiny) bytes() []byte {
	var out bytes.Buffer
	le := binary.LittleEndian
	head := []byte("GGUF")
	head = le.AppendUint32(head, 3)
	head = le.AppendUint64(head, uint64(len(m.tensors)))
	head = le.AppendUint64(head, m.nKeys)
	out.Write(head)
	out.Write(m.keys.Bytes())
	var offset uint64
	for _, t := range m.tensors {
		info := le.AppendUint64(nil, uint64(len(t.name)))
		info = append(info, t.name...)
		info = le.AppendUint32(info, uint32(len(t.ne)))
		for _, d := range t.ne {
			info = le.AppendUint64(info, uint64(d))
		}
		info = le.AppendUint32(info, 0) // F32
		info = le.AppendUint64(info, offset)
		out.Write(info)
		offset += uint64(len(t.data)*4+31) / 32 * 32
	}
	pad := func() { out.Write(make([]byte, (32-out.Len()%32)%32)) }
	pad()
	for _, t := range m.tensors {
		for _, v := range t.data {
			out.Write(le.AppendUint32(nil, math.Float32bits(v)))
		}
		pad()
	}
	return out.Bytes()
}

func (m *tiny) attention(layer, heads, headsKV int) {
	at := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, s) }
	m.weight(at("attn_norm"), tinyWidth)
	m.weight(at("attn_q"), tinyWidth, tinyWidth)
	m.weight(at("attn_k"), tinyWidth, tinyWidth/heads*headsKV)
	m.weight(at("attn_v"), tinyWidth, tinyWidth/heads*headsKV)
	m.weight(at("attn_output"), tinyWidth, tinyWidth)
}

func (m *tiny) feedForward(layer, width int) {
	at := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, s) }
	m.weight(at("ffn_norm"), tinyWidth)
	m.weight(at("ffn_gate"), tinyWidth, width)
	m.weight(at("ffn_up"), tinyWidth, width)
	m.weight(at("ffn_down"), width, tinyWidth)
}

// tinyLlama is plain full attention.
func tinyLlama() *tiny {
	m := newTiny("llama")
	m.number("feed_forward_length", 96)
	m.number("attention.head_count", 2)
	m.number("rope.dimension_count", tinyWidth/2)
	m.weight("output_norm.weight", tinyWidth)
	for layer := range 2 {
		m.attention(layer, 2, 2)
		m.feedForward(layer, 96)
	}
	return m
}

// tinyMamba is recurrent.
func tinyMamba() *tiny {
	const inner, state, rank, conv = 2 * tinyWidth, 16, 4, 4
	m := newTiny("mamba")
	m.number("feed_forward_length", 0)
	m.number("attention.head_count", 0)
	m.number("ssm.conv_kernel", conv)
	m.number("ssm.inner_size", inner)
	m.number("ssm.state_size", state)
	m.number("ssm.time_step_rank", rank)
	m.weight("output_norm.weight", tinyWidth)
	for layer := range 2 {
		at := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
		m.weight(at("attn_norm.weight"), tinyWidth)
		m.weight(at("ssm_in.weight"), tinyWidth, 2*inner)
		m.weight(at("ssm_conv1d.weight"), conv, inner)
		m.weight(at("ssm_conv1d.bias"), inner)
		m.weight(at("ssm_x.weight"), inner, rank+2*state)
		m.weight(at("ssm_dt.weight"), rank, inner)
		m.weight(at("ssm_dt.bias"), inner)
		m.weight(at("ssm_a"), state, inner)
		m.set(at("ssm_a"), -1)
		m.weight(at("ssm_d"), inner)
		m.weight(at("ssm_out.weight"), inner, tinyWidth)
	}
	return m
}

// tinyHybrid has one recurrent and one attention layer.
func tinyHybrid() *tiny {
	m := newTiny("lfm2")
	m.number("feed_forward_length", 96)
	m.number("attention.head_count", 2)
	m.numbers("attention.head_count_kv", 0, 2)
	m.number("shortconv.l_cache", 3)
	m.number("vocab_size", tinyVocab)
	m.float("rope.freq_base", 10000)
	m.weight("token_embd_norm.weight", tinyWidth)
	m.weight("blk.0.attn_norm.weight", tinyWidth)
	m.weight("blk.0.shortconv.conv.weight", 3, tinyWidth)
	m.weight("blk.0.shortconv.in_proj.weight", tinyWidth, 3*tinyWidth)
	m.weight("blk.0.shortconv.out_proj.weight", tinyWidth, tinyWidth)
	m.feedForward(0, 96)
	m.attention(1, 2, 2)
	m.weight("blk.1.attn_q_norm.weight", tinyWidth/2)
	m.weight("blk.1.attn_k_norm.weight", tinyWidth/2)
	m.feedForward(1, 96)
	return m
}

// tinyWindow attends to the last tokens only.
func tinyWindow() *tiny {
	m := newTiny("gemma2")
	m.number("feed_forward_length", 96)
	m.number("attention.head_count", 2)
	m.number("attention.head_count_kv", 2)
	m.number("attention.key_length", tinyWidth/2)
	m.number("attention.value_length", tinyWidth/2)
	m.number("attention.sliding_window", 16)
	m.weight("output_norm.weight", tinyWidth)
	for layer := range 2 {
		m.attention(layer, 2, 2)
		m.feedForward(layer, 96)
		m.weight(fmt.Sprintf("blk.%d.post_attention_norm.weight", layer), tinyWidth)
		m.weight(fmt.Sprintf("blk.%d.post_ffw_norm.weight", layer), tinyWidth)
	}
	return m
}

func loadTiny(t *testing.T, m *tiny) *Model {
	t.Helper()
	return loadBytes(t, m.bytes())
}
