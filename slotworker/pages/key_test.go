package pages

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

func TestHashesCoverThePrefix(t *testing.T) {
	c := newChain(testPage, false, HashSHA256)
	a := &Prompt{chain: c, tokens: seq(1, 12)}
	b := &Prompt{chain: c, tokens: join(seq(2, 4), seq(1, 12)[4:])}
	if a.Hash(2) == b.Hash(2) || a.link(2).sum == b.link(2).sum {
		t.Error("a page's hash does not depend on the page two before")
	}
	grown := &Prompt{chain: c, tokens: seq(1, 3)}
	grown.Append(seq(1, 12)[3:]...)
	if grown.Hash(2) != a.Hash(2) || grown.FullPages() != 3 || grown.Len() != 12 {
		t.Error("appending token by token gives another hash")
	}
	larger := &Prompt{chain: newChain(2*testPage, false, HashSHA256), tokens: seq(1, 12)}
	if larger.Hash(0) == a.Hash(1) {
		t.Error("pages of another size have equal hashes")
	}
	tail := c.link(a.link(1), seq(1, 12)[8:11])
	if full := a.link(2); tail == full {
		t.Error("an incomplete page has the hash of the full one")
	}
}

// No two different lists of pages hash alike, however their tokens are split.
func TestHashIsInjective(t *testing.T) {
	c := newChain(testPage, false, HashSHA256)
	seen := map[link][][]int32{}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 2), 1, 4), 1, 4).Draw(t, "parts")
		l := c.root
		for _, p := range parts {
			l = c.link(l, p)
		}
		if old, ok := seen[l]; ok && !slices.EqualFunc(old, parts, slices.Equal) {
			t.Fatalf("%v and %v hash alike", old, parts)
		}
		seen[l] = parts
	})
}

func TestSpaceNamesEveryField(t *testing.T) {
	s := NewSpace(testIdentity, "tenant")
	want := shared.ContextPageKey{
		ModelRevision: "sha256:model", TokenizerRevision: "sha256:tokenizer", LayoutRevision: "sha256:layout",
		SlotRevision: "sha256:slot", PageIndex: 7, TokenHash: Hash{1}.String(), Salt: s.Salt,
	}
	if got := s.Key(7, Hash{1}); got != want {
		t.Errorf("%+v", got)
	}
	if s.Salt == "" || s.Salt == "tenant" || s.Salt == NewSpace(testIdentity, "tenan").Salt {
		t.Errorf("salt %q", s.Salt)
	}
	if NewSpace(testIdentity, "").Salt != "" {
		t.Error("no salt is not empty")
	}
	names := map[fileName]bool{nameOf(s, 1, Hash{1}): true, nameOf(s, 2, Hash{1}): true, nameOf(s, 1, Hash{2}): true,
		nameOf(NewSpace(testIdentity, "other"), 1, Hash{1}): true}
	if len(names) != 4 {
		t.Error("two keys have one file name")
	}
}

func TestFileNames(t *testing.T) {
	n := nameOf(NewSpace(testIdentity, ""), 3, Hash{9})
	if got, ok := parseName(n.String()); !ok || got != n {
		t.Errorf("%v %v", got, ok)
	}
	for _, s := range []string{"", "lock", "x" + n.String(), n.String() + "x", "Z" + n.String()[1:], "AB" + n.String()[2:]} {
		if _, ok := parseName(s); ok {
			t.Errorf("%q is taken for a page", s)
		}
	}
}
