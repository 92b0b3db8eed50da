package shared

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decodeFields undoes EncodeFields. That it can be undone is what makes the
// encoding injective.
func decodeFields(b []byte) (domain string, fields []string, ok bool) {
	number := func() uint64 {
		if len(b) < 8 {
			return 0
		}
		n := binary.BigEndian.Uint64(b)
		b = b[8:]
		return n
	}
	text := func() string {
		n := number()
		if n > uint64(len(b)) {
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	domain = text()
	for range number() {
		fields = append(fields, text())
	}
	return domain, fields, len(b) == 0
}

// FuzzEncodeFields cuts a text into fields and expects them back.
func FuzzEncodeFields(f *testing.F) {
	f.Add("domain", "one,two,,three")
	f.Add("", "")
	f.Add("firstframe/slot/v1", "\x00\x00\x00\x00\x00\x00\x00\x01,x")
	f.Fuzz(func(t *testing.T, domain, text string) {
		for _, fields := range [][]string{nil, {text}, strings.Split(text, ",")} {
			gotDomain, got, ok := decodeFields(EncodeFields(domain, fields...))
			if !ok || gotDomain != domain || !slices.Equal(got, fields) {
				t.Fatalf("%q %q came back as %q %q", domain, fields, gotDomain, got)
			}
		}
	})
}

// TestEncodeFieldsIsInjective moves text between neighbouring fields, which is
// what a plain join would not notice.
func TestEncodeFieldsIsInjective(t *testing.T) {
	part := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\x01,/")), 0, 6, -1)
	list := rapid.Custom(func(t *rapid.T) []string {
		return append([]string{part.Draw(t, "domain")}, rapid.SliceOfN(part, 0, 4).Draw(t, "fields")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		one, two := list.Draw(t, "one"), list.Draw(t, "two")
		same := slices.Equal(one, two)
		if (string(EncodeFields(one[0], one[1:]...)) == string(EncodeFields(two[0], two[1:]...))) != same {
			t.Fatalf("%q and %q", one, two)
		}
		if (HashFields(one[0], one[1:]...) == HashFields(two[0], two[1:]...)) != same {
			t.Fatalf("%q and %q hash alike", one, two)
		}
		// The last rune of the domain becomes the first of the first field.
		if runes := []rune(one[0]); len(runes) > 0 && len(one) > 1 {
			moved := slices.Clone(one)
			moved[0], moved[1] = string(runes[:len(runes)-1]), string(runes[len(runes)-1])+one[1]
			if HashFields(moved[0], moved[1:]...) == HashFields(one[0], one[1:]...) {
				t.Fatalf("%q and %q hash alike", moved, one)
			}
		}
	})
}
