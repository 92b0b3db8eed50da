package pages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/firstframe/firstframe/shared"
)

// A page's file, little endian:
//
//	8 bytes magic, u16 version, u16 0, u32 length of the fields
//	fields: strings and token ids preceded by their length, see appendFields
//	u64 checksum of all so far
//	payload
//	u64 checksum of all so far
//
// The first checksum lets a header be trusted alone, the second ties the payload
// to it. xxHash64 finds damage; it is no defence against somebody who may write
// the directory, for which it is readable by the owner alone.
const (
	fileMagic     = "ffpage\r\n"
	fileVersion   = 1
	filePreamble  = 16
	checksumBytes = 8
	maxFields     = 1 << 20
	pageSuffix    = ".page"
)

// Errors about a page's file.
var (
	errDamaged = errors.New("the page's file is damaged")
	// errVersion means that another version of this program wrote the file. It is
	// no damage: the file is left to whoever can read it, or to the size limit.
	errVersion = errors.New("the page's file has another format version")
	// errOldVersion is an errVersion that nobody needs any more.
	errOldVersion = fmt.Errorf("%w, an older one", errVersion)
)

func damagedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// header is everything of a page's file but its payload.
type header struct {
	space   Space
	index   int
	page    int // tokens of a full page
	prev    link
	link    link
	tokens  []int32
	shape   string // of the layout
	payload int64
}

// fileName depends on the page's full key.
type fileName [20]byte

func nameOf(s Space, index int, h Hash) fileName {
	sum := sha256.Sum256(shared.EncodeFields(domainFile, s.ModelRevision, s.TokenizerRevision,
		s.LayoutRevision, s.SlotRevision, s.Salt, strconv.Itoa(index), string(h[:])))
	return fileName(sum[:20])
}

func (n fileName) String() string { return hex.EncodeToString(n[:]) + pageSuffix }

func (h *header) name() fileName { return nameOf(h.space, h.index, h.link.hash) }

// parseName reads a directory entry; false means that it is no page.
func parseName(s string) (fileName, bool) {
	var n fileName
	if len(s) != 2*len(n)+len(pageSuffix) || s[2*len(n):] != pageSuffix {
		return n, false
	}
	_, err := hex.Decode(n[:], []byte(s[:2*len(n)]))
	return n, err == nil && n.String() == s
}

// fileBytes is the size of the whole file.
func (h *header) fileBytes() int64 {
	return int64(len(h.encode())) + h.payload + checksumBytes
}

// encode is the file up to the payload.
func (h *header) encode() []byte {
	b := append(make([]byte, 0, 1024), fileMagic...)
	b = binary.LittleEndian.AppendUint16(b, fileVersion)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = h.appendFields(b)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-filePreamble))
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

func (h *header) appendFields(b []byte) []byte {
	for _, s := range []string{h.space.ModelRevision, h.space.TokenizerRevision, h.space.LayoutRevision,
		h.space.SlotRevision, h.space.Salt, h.shape} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(h.index))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.page))
	b = append(b, h.prev.hash[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.prev.sum)
	b = append(b, h.link.hash[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.link.sum)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.tokens)))
	b = appendTokens(b, h.tokens)
	return binary.LittleEndian.AppendUint64(b, uint64(h.payload))
}

// parsePreamble says how long the fields are.
func parsePreamble(b []byte) (int, error) {
	r := reader{b: b}
	magic := string(r.take(len(fileMagic)))
	version, zero, length := r.u16(), r.u16(), r.u32()
	switch {
	case r.short || magic != fileMagic:
		return 0, damagedf("it does not begin as a page")
	case version < fileVersion:
		return 0, errOldVersion
	case version > fileVersion:
		return 0, fmt.Errorf("%w: %d", errVersion, version)
	case zero != 0 || length > maxFields:
		return 0, damagedf("its fields have %d bytes", length)
	}
	return int(length), nil
}

// parseHeader reads the file up to the payload.
func parseHeader(b []byte) (header, error) {
	length, err := parsePreamble(b)
	if err != nil {
		return header{}, err
	}
	r := reader{b: b, at: filePreamble + length}
	if r.at > len(b) {
		return header{}, damagedf("it ends in the header")
	}
	if sum := r.u64(); r.short || sum != xxhash.Sum64(b[:filePreamble+length]) || r.at != len(b) {
		return header{}, damagedf("the header's checksum is wrong")
	}
	h, err := parseFields(b[filePreamble : filePreamble+length])
	if err != nil {
		return header{}, err
	}
	return h, nil
}

func parseFields(b []byte) (header, error) {
	var h header
	r := reader{b: b}
	for _, s := range []*string{&h.space.ModelRevision, &h.space.TokenizerRevision, &h.space.LayoutRevision,
		&h.space.SlotRevision, &h.space.Salt, &h.shape} {
		*s = string(r.take(int(r.u32())))
	}
	h.index = int(r.u32())
	h.page = int(r.u32())
	copy(h.prev.hash[:], r.take(len(h.prev.hash)))
	h.prev.sum = r.u64()
	copy(h.link.hash[:], r.take(len(h.link.hash)))
	h.link.sum = r.u64()
	ids := reader{b: r.take(4 * int(r.u32()))}
	payload := r.u64()
	if r.short || r.at != len(b) {
		return header{}, damagedf("the header's fields do not fill it")
	}
	h.tokens = make([]int32, 0, len(ids.b)/4)
	for ids.at < len(ids.b) {
		h.tokens = append(h.tokens, int32(ids.u32()))
	}
	h.payload = int64(payload)
	if len(h.tokens) < 1 || len(h.tokens) > h.page || payload < 1 || payload > 1<<40 {
		return header{}, damagedf("the header speaks of %d tokens in %d bytes", len(h.tokens), payload)
	}
	return h, nil
}

// readHeader reads the header of a file and gives its bytes as well.
func readHeader(f io.Reader) (header, []byte, error) {
	preamble := make([]byte, filePreamble, 1024)
	if _, err := io.ReadFull(f, preamble); err != nil {
		return header{}, nil, endIsDamage(err, "it ends in the preamble")
	}
	length, err := parsePreamble(preamble)
	if err != nil {
		return header{}, nil, err
	}
	raw := slices.Concat(preamble, make([]byte, length+checksumBytes))
	if _, err := io.ReadFull(f, raw[filePreamble:]); err != nil {
		return header{}, nil, endIsDamage(err, "it ends in the header")
	}
	h, err := parseHeader(raw)
	return h, raw, err
}

// readPayload reads the rest of a file into dst and checks the whole.
func readPayload(f io.Reader, raw []byte, dst []byte) error {
	if _, err := io.ReadFull(f, dst); err != nil {
		return endIsDamage(err, "it ends in the payload")
	}
	var end [checksumBytes + 1]byte
	n, err := io.ReadFull(f, end[:])
	switch {
	case err == nil:
		return damagedf("bytes follow its end")
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return err
	case n != checksumBytes:
		return damagedf("it ends in the checksum")
	}
	if binary.LittleEndian.Uint64(end[:]) != fileChecksum(raw, dst) {
		return damagedf("the checksum is wrong")
	}
	return nil
}

func fileChecksum(raw, payload []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write(raw)
	_, _ = d.Write(payload)
	return d.Sum64()
}

func endIsDamage(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damagedf("%s", what)
	}
	return err
}

func putChecksum(dst, raw, payload []byte) {
	binary.LittleEndian.PutUint64(dst, fileChecksum(raw, payload))
}
