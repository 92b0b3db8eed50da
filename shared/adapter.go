package shared

import (
	"fmt"
	"strconv"
	"strings"
)

// AdapterSpec is a LoRA adapter as a slot declares it.
type AdapterSpec struct {
	Path           string
	DeclaredSHA256 string // hex without prefix; empty when not declared
	Scale          float32
}

// String is the adapter as a plan shows it.
func (a AdapterSpec) String() string {
	text := fmt.Sprintf("%s × %s", a.Path, formatScale(a.Scale))
	if a.DeclaredSHA256 != "" {
		text += " (sha256 " + a.DeclaredSHA256 + ")"
	}
	return text
}

// AdapterInfo is an adapter of a slot that everybody may know of.
type AdapterInfo struct {
	Path string
	// Revision is "sha256:" and the hex digest of the adapter's file; empty until
	// it is known.
	Revision string
	Scale    float32
}

// SlotRevision is the revision of a slot with these adapters, whose files have
// these revisions, in order. It is empty, and therefore equal to nothing, as long
// as one of them is not known. Without adapters it is SlotRevisionPlain.
func SlotRevision(adapters []AdapterSpec, revisions []string) string {
	if len(revisions) != len(adapters) {
		return ""
	}
	var fields []string
	for i, a := range adapters {
		if revisions[i] == "" {
			return ""
		}
		fields = append(fields, "adapter", revisions[i], formatScale(a.Scale))
	}
	return HashFields(slotDomain, fields...)
}

// DescribeAdapters says in a few words what a slot adds to its model.
func DescribeAdapters(adapters []AdapterSpec) string {
	if len(adapters) == 0 {
		return "no adapter"
	}
	var said []string
	for _, a := range adapters {
		said = append(said, fmt.Sprintf("adapter %s × %s", a.Path, formatScale(a.Scale)))
	}
	return strings.Join(said, ", ")
}

// formatScale is the shortest text that means exactly this scale.
func formatScale(scale float32) string { return strconv.FormatFloat(float64(scale), 'g', -1, 32) }
