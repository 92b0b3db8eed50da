package hcl

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// maxScale bounds how strongly an adapter is applied.
const maxScale = 100

// adapters reads the adapters of a slot.
func (d *decoder) adapters(n *node, base string) []shared.AdapterSpec {
	var list []shared.AdapterSpec
	for _, block := range n.blocks["adapter"] {
		a := shared.AdapterSpec{Path: d.text(block, "path", ""), DeclaredSHA256: d.digest(block), Scale: d.scale(block)}
		if a.Path != "" && !filepath.IsAbs(a.Path) {
			a.Path = filepath.Join(base, a.Path)
		}
		list = append(list, a)
	}
	return list
}

// adapterKey names the place of a slot's adapter among the ranges.
func adapterKey(slotID string, index int) string { return fmt.Sprintf("%s adapter %d", slotID, index) }

func (d *decoder) scale(n *node) float32 {
	v, ok := d.get(n, "scale")
	if !ok {
		return 1
	}
	f, _ := v.AsBigFloat().Float32()
	if f == 0 || f < -maxScale || f > maxScale {
		d.errorf(v.rng, "Out of range", "scale is a number from -%d to %d and not 0.", maxScale, maxScale)
		return 1
	}
	return f
}

// digest reads the key sha256.
func (d *decoder) digest(n *node) string {
	v, ok := d.get(n, "sha256")
	if !ok {
		return ""
	}
	digest := strings.ToLower(strings.TrimPrefix(v.AsString(), "sha256:"))
	if !sha256Hex.MatchString(digest) {
		d.errorf(v.rng, "Wrong digest", "A sha256 has 64 hexadecimal digits.")
	}
	return digest
}
