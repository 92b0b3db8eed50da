package gguf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// weightFormat says where a type keeps numbers that can be NaN: at each offset
// in a block, bits that make one.
type weightFormat struct {
	typ  gguf.TensorType
	size int // of a block
	bad  map[int][]byte
}

func weightFormats() []weightFormat {
	nan16, inf16 := []byte{0x01, 0x7e}, []byte{0x00, 0xfc}
	one := func(at int) map[int][]byte { return map[int][]byte{at: nan16} }
	two := func(a, b int) map[int][]byte { return map[int][]byte{a: nan16, b: inf16} }
	return []weightFormat{
		{0, 4, map[int][]byte{0: {0, 0, 0xc0, 0x7f}}}, {1, 2, one(0)}, {30, 2, map[int][]byte{0: {0x80, 0xff}}},
		{2, 18, one(0)}, {3, 20, two(0, 2)}, {6, 22, one(0)}, {7, 24, two(0, 2)}, {8, 34, one(0)},
		{10, 84, two(80, 82)}, {11, 110, one(108)}, {12, 144, two(0, 2)}, {13, 176, two(0, 2)}, {14, 210, one(208)},
		{16, 66, one(0)}, {17, 74, one(0)}, {18, 98, one(0)}, {19, 50, one(0)}, {20, 18, one(0)}, {21, 110, one(0)},
		{22, 82, one(0)}, {23, 136, one(0)}, {29, 56, map[int][]byte{52: {0, 0xf0, 0, 0x70}}}, {34, 54, one(52)}, {35, 66, one(64)},
		{39, 17, map[int][]byte{0: {0xff}}}, {41, 18, one(0)}, {42, 18, one(0)},
	}
}

// TestWeightsOfEachType puts one bad number into a tensor of each type, at the
// start, at the end and where two pieces of work meet.
func TestWeightsOfEachType(t *testing.T) {
	for _, w := range weightFormats() {
		blocks := (5 << 18) / w.size / 64 * 64 // more than one piece
		perBlock := uint64(256)
		data := make([]byte, blocks*w.size)
		f := small()
		f.Tensors = append(f.Tensors, ggufwrite.Tensor{
			Name: "two", Dims: []uint64{perBlock, uint64(blocks)}, Type: w.typ, Bytes: int64(len(data)), Data: ggufwrite.Bytes(data),
		})
		for perBlock = 256; perBlock >= 1; perBlock /= 2 {
			// The block's length is whatever makes the sizes agree.
			f.Tensors[1].Dims[0] = perBlock
			if n, err := w.typ.Bytes(f.Tensors[1].Dims); err == nil && n == int64(len(data)) {
				break
			}
		}
		file, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		header, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := header.CheckWeights(t.Context(), file); err != nil {
			t.Errorf("%v: zeros are refused: %v", w.typ, err)
		}
		start := int(header.Tensors()[1].Offset)
		for offset, bits := range w.bad {
			for _, block := range []int{0, (1 << 20) / w.size, blocks - 1} {
				at := start + block*w.size
				copy(file[at+offset:], bits)
				err := header.CheckWeights(t.Context(), file)
				wantModelError(t, err, fmt.Sprintf("tensor \"two\" of type %v at byte %d:", w.typ, at))
				clear(file[at+offset : at+offset+len(bits)])
			}
		}
	}
}

// TestGoodWeights fills tensors with the largest numbers that are still finite.
func TestGoodWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for typ, largest := range map[gguf.TensorType]uint32{gguf.F32: 0xff7fffff, gguf.F16: 0x7bff7bff, gguf.BF16: 0x7f7fff7f} {
		data := make([]byte, 4096)
		for i := 0; i < len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], largest)
		}
		// The lower bits of the mantissa may be anything.
		for i := 0; i < len(data); i += 4 {
			data[i] = byte(random.Uint32()) & 0x7f
		}
		f := small()
		n := uint64(len(data) / 4)
		if typ != gguf.F32 {
			n *= 2
		}
		f.Tensors = append(f.Tensors, ggufwrite.Tensor{Name: "two", Dims: []uint64{n / 2, 2}, Type: typ, Bytes: 4096, Data: ggufwrite.Bytes(data)})
		file, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		header, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := header.CheckWeights(t.Context(), file); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
	}
	for _, precision := range []string{"f16", "q8_0", "q4_0"} {
		file := storyteller(t, precision)
		header, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := header.CheckWeights(t.Context(), file); err != nil {
			t.Errorf("storyteller %s: %v", precision, err)
		}
	}
}

// TestFirstBadWeightIsNamed spoils the end of one tensor and the start of the
// next, which another worker finds sooner; the report does not depend on it.
func TestFirstBadWeightIsNamed(t *testing.T) {
	file := storyteller(t, "f16")
	header, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	first, second := header.Tensors()[0], header.Tensors()[1]
	if second.Type != gguf.F32 {
		t.Fatalf("the second tensor is %v", second.Type)
	}
	binary.LittleEndian.PutUint16(file[first.Offset+first.Bytes-2:], 0x7e00)
	binary.LittleEndian.PutUint32(file[second.Offset:], 0x7fc00000)
	for range 50 {
		err := header.CheckWeights(t.Context(), file)
		wantModelError(t, err, fmt.Sprintf("tensor %q", first.Name))
	}
}

func TestCheckWeightsEndsEarly(t *testing.T) {
	file := storyteller(t, "q4_0")
	header, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	wantModelError(t, header.CheckWeights(t.Context(), file[:len(file)-1]), "its header was read from")
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := header.CheckWeights(ctx, file); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}

// TestCheckWeightsSurvivesACutFile cuts a file while it is mapped.
func TestCheckWeightsSurvivesACutFile(t *testing.T) {
	content := storyteller(t, "f16")
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	data, err := unix.Mmap(int(file.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(data) }()
	header, err := read(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	wantModelError(t, header.CheckWeights(t.Context(), data), "the data cannot be read any more")
}

func BenchmarkCheckWeights(b *testing.B) {
	for _, precision := range []string{"f16", "q8_0", "q4_0"} {
		b.Run(precision, func(b *testing.B) {
			file := storyteller(b, precision)
			header, err := read(file)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(file)))
			for b.Loop() {
				if err := header.CheckWeights(b.Context(), file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	file := storyteller(b, "q8_0")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(file); err != nil {
			b.Fatal(err)
		}
	}
}
