package shared

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Identity is what makes prepared model state usable for a request. It is the
// routing key everywhere: comparable, and equal only when every field is.
type Identity struct {
	// ModelRevision is "sha256:" and the hex digest of the model file.
	ModelRevision string
	// Precision is the file's type name, such as Q8_0.
	Precision string
	// TokenizerRevision covers everything that turns text into token ids.
	TokenizerRevision string
	// LayoutRevision covers everything that makes weights or KV state incompatible.
	LayoutRevision string
	// SlotRevision covers slot settings that change the numbers, such as adapters.
	SlotRevision string
}

// Complete reports whether every field is set. An identity with an empty
// field equals nothing, not even itself: use Matches to compare.
func (id Identity) Complete() bool {
	return id.ModelRevision != "" && id.Precision != "" && id.TokenizerRevision != "" &&
		id.LayoutRevision != "" && id.SlotRevision != ""
}

// Matches reports whether both identities are complete and equal.
func (id Identity) Matches(other Identity) bool {
	return id.Complete() && id == other
}

// IdentityField is one named field of an identity, as errors and JSON call it.
type IdentityField struct {
	Name  string
	Value string
}

// Fields lists the fields in their canonical order.
func (id Identity) Fields() []IdentityField {
	return []IdentityField{
		{"model_revision", id.ModelRevision},
		{"precision", id.Precision},
		{"tokenizer_revision", id.TokenizerRevision},
		{"layout_revision", id.LayoutRevision},
		{"slot_revision", id.SlotRevision},
	}
}

// Differs names the fields in which the two identities are not the same or
// either is empty, in canonical order.
func (id Identity) Differs(other Identity) []string {
	mine, theirs := id.Fields(), other.Fields()
	var names []string
	for i := range mine {
		if mine[i].Value == "" || mine[i].Value != theirs[i].Value {
			names = append(names, mine[i].Name)
		}
	}
	return names
}

// String is a short form for people: the digests cut to twelve digits.
func (id Identity) String() string {
	parts := make([]string, 0, 5)
	for _, f := range id.Fields() {
		parts = append(parts, f.Name+"="+ShortRevision(f.Value))
	}
	return strings.Join(parts, " ")
}

// ShortRevision cuts the digest of a revision to twelve digits.
func ShortRevision(rev string) string {
	algo, digest, ok := strings.Cut(rev, ":")
	if !ok || len(digest) <= 12 {
		return rev
	}
	return algo + ":" + digest[:12]
}

const slotDomain = "firstframe/slot/v1"

var slotRevisionPlain = HashFields(slotDomain)

// SlotRevisionPlain is the SlotRevision of a slot without adapters or overrides.
func SlotRevisionPlain() string { return slotRevisionPlain }

// ContextPageKey names one page of KV state. Two requests may share a page only
// when every field is equal, and then only after the token ids were compared too.
type ContextPageKey struct {
	ModelRevision     string
	TokenizerRevision string
	LayoutRevision    string
	SlotRevision      string
	// PageIndex counts pages from the start of the prompt.
	PageIndex uint32
	// TokenHash chains over all tokens up to the end of this page.
	TokenHash string
	// Salt keeps tenants apart; empty means the slot's common pages.
	Salt string
}

// HashFields hashes a domain tag and fields. Every part is preceded by its
// length and the number of parts by itself, so that no two different lists
// encode alike.
func HashFields(domain string, fields ...string) string {
	sum := sha256.Sum256(EncodeFields(domain, fields...))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// EncodeFields is the injective encoding behind HashFields.
func EncodeFields(domain string, fields ...string) []byte {
	size := 16 + len(domain)
	for _, f := range fields {
		size += 8 + len(f)
	}
	b := make([]byte, 0, size)
	b = binary.BigEndian.AppendUint64(b, uint64(len(domain)))
	b = append(b, domain...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(fields)))
	for _, f := range fields {
		b = binary.BigEndian.AppendUint64(b, uint64(len(f)))
		b = append(b, f...)
	}
	return b
}
