package pages

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// encodeFile is a whole page's file.
func encodeFile(h *header, payload []byte) []byte {
	raw := h.encode()
	var end [checksumBytes]byte
	putChecksum(end[:], raw, payload)
	return slices.Concat(raw, payload, end[:])
}

// decodeFile reads a whole page's file.
func decodeFile(b []byte) (header, []byte, error) {
	r := bytes.NewReader(b)
	h, raw, err := readHeader(r)
	if err != nil {
		return h, nil, err
	}
	if h.payload > int64(len(b)) {
		return h, nil, damagedf("it ends in the payload")
	}
	payload := make([]byte, h.payload)
	return h, payload, readPayload(r, raw, payload)
}

func drawHeader(t *rapid.T) (header, []byte) {
	text := rapid.StringN(0, 12, 40)
	hash := rapid.Custom(func(t *rapid.T) (h Hash) {
		copy(h[:], rapid.SliceOfN(rapid.Byte(), len(h), len(h)).Draw(t, "hash"))
		return h
	})
	payload := rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(t, "payload")
	h := header{
		space: Space{text.Draw(t, "model"), text.Draw(t, "tokenizer"), text.Draw(t, "layout"), text.Draw(t, "slot"), text.Draw(t, "salt")},
		index: int(rapid.Uint32().Draw(t, "index")),
		page:  rapid.IntRange(9, 1000).Draw(t, "page"),
		prev:  link{hash.Draw(t, "previous hash"), rapid.Uint64().Draw(t, "previous sum")},
		link:  link{hash.Draw(t, "hash"), rapid.Uint64().Draw(t, "sum")},
		shape: text.Draw(t, "shape"), payload: int64(len(payload)),
		tokens: rapid.SliceOfN(rapid.Int32(), 1, 9).Draw(t, "tokens"),
	}
	return h, payload
}

func equalHeaders(a, b header) bool {
	tokens := slices.Equal(a.tokens, b.tokens)
	a.tokens, b.tokens = nil, nil
	return tokens && a.space == b.space && a.index == b.index && a.page == b.page && a.prev == b.prev &&
		a.link == b.link && a.shape == b.shape && a.payload == b.payload
}

// What is written is read back; with any one bit changed or any bytes missing it is not.
func TestFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, payload := drawHeader(t)
		b := encodeFile(&h, payload)
		if int64(len(b)) != h.fileBytes() {
			t.Fatalf("%d bytes instead of %d", len(b), h.fileBytes())
		}
		back, rows, err := decodeFile(b)
		if err != nil || !equalHeaders(h, back) || !bytes.Equal(rows, payload) {
			t.Fatalf("%+v was read as %+v, %v", h, back, err)
		}
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		changed := bytes.Clone(b)
		changed[bit/8] ^= 1 << (bit % 8)
		if _, _, err := decodeFile(changed); err == nil {
			t.Fatalf("bit %d was changed and nobody minds", bit)
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, _, err := decodeFile(b[:cut]); !errors.Is(err, errDamaged) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	})
}

// An error of the file system is no damage.
func TestReadErrorsAreNoDamage(t *testing.T) {
	h, payload := header{page: 4, tokens: seq(1, 4), payload: 5}, []byte("12345")
	b := encodeFile(&h, payload)
	for n := range len(b) {
		r := io.MultiReader(bytes.NewReader(b[:n]), failingReader{})
		_, raw, err := readHeader(r)
		if err == nil {
			err = readPayload(r, raw, make([]byte, 5))
		}
		if !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errDamaged) {
			t.Fatalf("at %d: %v", n, err)
		}
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func FuzzPageFile(f *testing.F) {
	h := header{space: NewSpace(testIdentity, "tenant"), index: 3, page: 4, tokens: seq(1, 4), shape: testLayout.Shape(), payload: 5}
	f.Add(encodeFile(&h, []byte("12345")))
	f.Add(encodeFile(&header{page: 1, tokens: seq(1, 1), payload: 1}, []byte("1")))
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := decodeFile(b)
		if err != nil {
			return
		}
		if !bytes.Equal(encodeFile(&h, payload), b) {
			t.Fatal("a file was read that nobody wrote")
		}
	})
}

// FuzzFields reaches the part that the checksum protects.
func FuzzFields(f *testing.F) {
	h := header{space: NewSpace(testIdentity, ""), page: 4, tokens: seq(1, 4), shape: testLayout.Shape(), payload: 5}
	f.Add(h.appendFields(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFields(b)
		if err != nil {
			return
		}
		if !bytes.Equal(h.appendFields(nil), b) {
			t.Fatal("fields were read that nobody wrote")
		}
	})
}

func TestPrune(t *testing.T) {
	cfg := testConfig(t.TempDir())
	other := cfg
	other.Identity.LayoutRevision = "sha256:older"
	o := open(t, other)
	o.save(seq(1, 11), "")
	o.close()
	old := filepath.Join(cfg.Dir, nameOf(Space{}, 0, Hash{}).String())
	if err := os.WriteFile(old, []byte(fileMagic+"\x00\x00\x00\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, cfg)
	r.save(seq(1, 11), "")
	r.flush()
	n, err := r.Prune(t.Context(), func(s Space) bool { return s.LayoutRevision == cfg.Identity.LayoutRevision })
	if n != 4 || err != nil {
		t.Fatalf("%d pages were removed, %v", n, err)
	}
	r.flush()
	checkDirectory(t, r)
	checkBooks(t, r)
	if st := r.Stats(); st.DiskAll.Pages != 3 {
		t.Errorf("%+v", st)
	}
	r.close()
	if _, err := r.Prune(t.Context(), func(Space) bool { return true }); err == nil {
		t.Error("a closed store was pruned")
	}
	if n, err := open(t, testConfig("")).Prune(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
