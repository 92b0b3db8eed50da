package gguf

import (
	"slices"
	"strings"
)

// memory says what state a model keeps between tokens.
type memory int

const (
	memoryUnknown   memory = iota // not an architecture of the engine
	memoryNoText                  // embeds, classifies, speaks, drafts or denoises, but does not continue text
	memoryAttention               // KV cells, in a window or not
	memoryRecurrent               // a state that cannot be cut
	memoryHybrid                  // both
)

// The architectures that engine 0.5.0 knows, by what it says of each itself.
const (
	noText = `clip bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert
		gemma-embedding llama-embed t5 t5encoder wavtokenizer-dec qwen3tts pockettts dream llada llada-moe rnd1
		eagle3 dflash gemma4-assistant`
	recurrent = `mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7`
	hybrid    = `qwen3next qwen35 qwen35moe qwen4exp plamo2 jamba falcon-h1 deepseek4 nemotron_h nemotron_h_moe
		granitehybrid bailingmoe3 lfm2 lfm2moe kimi-linear kimi-k3 minimax-01`
	attention = `llama llama4 deci falcon baichuan grok gpt2 gptj gptneox mpt starcoder refact bloom stablelm qwen
		qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo plamo3 codeshell orion
		internlm2 minicpm minicpm3 gemma gemma2 gemma3 gemma3n gemma4 starcoder2 maple xverse command-r cohere2
		cohere2moe dbrx olmo olmo2 olmoe muse-glimmer openelm arctic deepseek deepseek2 deepseek2-ocr deepseek32
		chatglm glm4 glm4moe glm-dsa bitnet jais jais2 nemotron exaone exaone4 exaone-moe granite granitemoe
		graniteswitch granite_swa chameleon plm bailingmoe bailingmoe2 dots1 dots3note arcee afmoe laguna ernie4_5
		ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl hy_v3 hy_v4 smollm3 gpt-oss smallthinker seed_oss
		grovemoe apertus minimax-m2 cogvlm pangu-embedded mistral3 mistral4 paddleocr mimo2 step35 spark2_5
		maincoder talkie mellum minimax-m3 nanbeige hrm_text`
)

// memoryOf looks an architecture up.
func memoryOf(arch string) memory {
	for _, group := range []struct {
		names string
		kind  memory
	}{
		{attention, memoryAttention}, {hybrid, memoryHybrid}, {recurrent, memoryRecurrent}, {noText, memoryNoText},
	} {
		if slices.Contains(strings.Fields(group.names), arch) {
			return group.kind
		}
	}
	return memoryUnknown
}
