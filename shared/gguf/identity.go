package gguf

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// The domains of the two hashes. Raise the number when the inputs change.
const (
	tokenizerDomain = "firstframe/tokenizer/v1"
	layoutDomain    = "firstframe/layout/v1"
)

// TokenizerRevision hashes everything that turns text into tokens and a chat
// into text: all keys of the tokenizer, and the model's architecture, name and
// vocabulary size, because the engine changes how it splits text by those.
func (f *File) TokenizerRevision() string {
	arch := f.Architecture()
	return shared.HashFields(tokenizerDomain, f.encodeKeys(func(key string) bool {
		return strings.HasPrefix(key, "tokenizer.") || key == "general.architecture" || key == "general.name" || key == arch+".vocab_size"
	})...)
}

// LayoutSettings are the settings of a slot that decide whether weights and KV
// state can be used with each other.
type LayoutSettings struct {
	EngineVersion  string
	Device         string // the number of a device does not matter, its class does
	DeviceKind     string // of a device apart from the CPU
	GPULayers      int    // how many of its layers such a device computes; 0 means all
	KVType         string
	FlashAttention bool
	PageTokens     int
}

// LayoutRevision hashes what makes weights or KV state incompatible: the
// engine, all keys of the architecture, known or not, and the settings.
func (f *File) LayoutRevision(s LayoutSettings) string {
	class, _, _ := strings.Cut(s.Device, ":")
	fields := []string{
		"engine", "llama.cpp", s.EngineVersion,
		"device", class,
		"kv_type", s.KVType,
		"flash_attention", strconv.FormatBool(s.FlashAttention),
		"page_tokens", strconv.Itoa(s.PageTokens),
	}
	if class != "" && class != shared.CPUDevice {
		fields = append(fields, "device_kind", s.DeviceKind, "gpu_layers", strconv.Itoa(s.GPULayers))
	}
	prefix := f.Architecture() + "."
	fields = append(fields, f.encodeKeys(func(key string) bool {
		return strings.HasPrefix(key, prefix) || key == "general.architecture"
	})...)
	return shared.HashFields(layoutDomain, fields...)
}

// encodeKeys gives key, type and payload of each chosen key, sorted by key.
func (f *File) encodeKeys(choose func(key string) bool) []string {
	keys := slices.Clone(f.keys)
	slices.Sort(keys)
	var fields []string
	for _, key := range keys {
		if !choose(key) {
			continue
		}
		v, _ := f.Value(key)
		tag := binary.BigEndian.AppendUint32(nil, uint32(v.Type))
		tag = binary.BigEndian.AppendUint32(tag, uint32(v.Elem))
		tag = binary.BigEndian.AppendUint64(tag, v.Count)
		fields = append(fields, key, string(tag), string(v.Raw))
	}
	return fields
}

// Identity is the identity of a slot that serves this file. The revision is
// the file's digest, as Digest gives it, and adapters are those of the slot's
// adapters in order; without them the slot revision is not known.
func (f *File) Identity(modelRevision string, spec shared.SlotSpec, adapters ...string) shared.Identity {
	return shared.Identity{
		ModelRevision:     modelRevision,
		Precision:         f.Precision(),
		TokenizerRevision: f.TokenizerRevision(),
		LayoutRevision: f.LayoutRevision(LayoutSettings{
			EngineVersion:  shared.EngineVersion,
			Device:         spec.Device,
			DeviceKind:     spec.DeviceKind,
			GPULayers:      spec.GPULayers,
			KVType:         spec.KVType,
			FlashAttention: true,
			PageTokens:     spec.PageTokens,
		}),
		SlotRevision: shared.SlotRevision(spec.Adapters, adapters),
	}
}

// CheckAdapters compares what a slot's declaration says of its adapters with
// the revisions that their files have.
func CheckAdapters(spec shared.SlotSpec, revisions []string) error {
	for i, a := range spec.Adapters {
		found := strings.TrimPrefix(revisions[i], "sha256:")
		if declared := strings.ToLower(a.DeclaredSHA256); declared != "" && declared != found {
			return &shared.Error{
				SlotID: spec.SlotID, Kind: shared.KindIdentity, Field: "adapter.sha256",
				Message: "the declaration says adapter.sha256 " + declared + ", but the file " + a.Path + " has " + found,
			}
		}
	}
	return nil
}

// CheckDeclared compares what a slot's declaration says of its model with what
// the bytes have proved.
func CheckDeclared(spec shared.SlotSpec, id shared.Identity) error {
	contradicts := func(field, declared, found string) error {
		return &shared.Error{
			SlotID:  spec.SlotID,
			Kind:    shared.KindIdentity,
			Field:   field,
			Message: "the declaration says " + field + " " + declared + ", but the file has " + found,
		}
	}
	if declared := strings.ToLower(spec.DeclaredSHA256); declared != "" {
		if found := strings.TrimPrefix(id.ModelRevision, "sha256:"); declared != found {
			return contradicts("sha256", declared, found)
		}
	}
	if declared := spec.DeclaredPrecision; declared != "" && declared != id.Precision {
		return contradicts("precision", declared, id.Precision)
	}
	return nil
}
