package llamacpp

import (
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
)

// fits says whether the version that a library reports is the wanted one. Builds
// of a release report it bare or with a suffix, such as 0.5.0-dev.
func fits(reported, wanted string) bool {
	return reported == wanted || strings.HasPrefix(reported, wanted+"-")
}

// checkLayout compares default parameters, which the library writes into our
// structs by value, with those of the wanted version. Builds between two releases
// carry the same version text, and a struct that has moved would corrupt memory.
func checkLayout() error {
	m, c := llama.ModelDefaultParams(), llama.ContextDefaultParams()
	model := m.Devices == 0 && m.TensorBuftOverrides == 0 && m.NGpuLayers == -1 &&
		m.SplitMode == llama.SplitModeLayer && m.LoadMode == llama.LoadModeAuto && m.LazyMode == llama.LazyModeAuto &&
		m.MainGpu == 0 && m.TensorSplit == nil && m.ProgressCallback == 0 && m.ProgressCallbackUserData == 0 &&
		m.KvOverrides == 0 && m.VocabOnly == 0 && m.CheckTensors == 0 && m.UseExtraBufts == 1 && m.NoHost == 0 &&
		m.NoAlloc == 0 && m.LoadMTP == 0
	context := c.NCtx == 512 && c.NBatch == 2048 && c.NUbatch == 512 && c.NSeqMax == 1 && c.NRsSeq == 0 &&
		c.NOutputsMax == 0 && c.NOutputsMaxPerSeq == 1 && c.CtxType == llama.ContextTypeDefault &&
		c.RopeScalingType == llama.RopeScalingTypeUnspecified && c.PoolingType == llama.PoolingTypeUnspecified &&
		c.AttentionType == llama.AttentionTypeUnspecified && c.FlashAttentionType == llama.FlashAttentionTypeAuto &&
		c.RopeFreqBase == 0 && c.YarnExtFactor == -1 && c.YarnOrigCtx == 0 && c.DefragThold == -1 &&
		c.CbEval == 0 && c.TypeK == llama.GGMLTypeF16 && c.TypeV == llama.GGMLTypeF16 && c.AbortCallback == 0 &&
		c.Embeddings == 0 && c.Offload_kqv == 1 && c.NoPerf == 1 && c.OpOffload == 1 && c.SwaFull == 1 &&
		c.KVUnified == 0 && c.Samplers == 0 && c.NSamplers == 0 && c.CtxOther == 0
	if model && context {
		return nil
	}
	return shared.Errorf(shared.KindEngineMissing, "the engine library calls itself %s, but its parameters are laid out differently; run `firstframe engine install`", shared.EngineVersion)
}
