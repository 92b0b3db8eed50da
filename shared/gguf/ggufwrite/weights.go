package ggufwrite

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"

	"github.com/firstframe/firstframe/shared/gguf"
)

// deviation of the random weights, which is what trained models start from.
const deviation = 0.02

// filler makes n numbers of a tensor.
type filler func(w io.Writer, n int64, random *rand.PCG) error

// weight adds a matrix of random numbers in F16.
func (b *builder) weight(name string, dims ...int) {
	b.tensor(name, gguf.F16, normal16, dims...)
}

// vector adds a vector, which the engine wants in F32.
func (b *builder) vector(name string, n int, fill filler) {
	b.tensor(name, gguf.F32, fill, n)
}

// tensor adds a tensor whose data depends on the seed and its place only.
func (b *builder) tensor(name string, typ gguf.TensorType, fill filler, dims ...int) {
	t := Tensor{Name: name, Type: typ, Bytes: 2}
	if typ == gguf.F32 {
		t.Bytes = 4
	}
	n := int64(1)
	for _, d := range dims {
		t.Dims = append(t.Dims, uint64(d))
		n *= int64(d)
	}
	t.Bytes *= n
	seed, place := b.model.Seed, uint64(len(b.file.Tensors))
	t.Data = func(w io.Writer) error { return fill(w, n, rand.NewPCG(seed, place)) }
	b.file.Tensors = append(b.file.Tensors, t)
}

// normal16 draws from a table of the normal distribution's quantiles, which is
// many times faster than computing each number.
func normal16(w io.Writer, n int64, random *rand.PCG) error {
	var table [1 << 16]uint16
	for i := range table {
		table[i] = float16(quantile((float64(i) + 0.5) / float64(len(table))))
	}
	buf := make([]byte, 0, 1<<16)
	for n > 0 {
		buf = buf[:0]
		for len(buf) < cap(buf) && n > 0 {
			bits := random.Uint64()
			for range min(n, 4) {
				buf = binary.LittleEndian.AppendUint16(buf, table[uint16(bits)])
				bits >>= 16
				n--
			}
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// quantile is the value of the normal distribution below which a share lies.
func quantile(share float64) float64 {
	return math.Erfinv(2*share-1) * math.Sqrt2 * deviation
}

func normal32(w io.Writer, n int64, random *rand.PCG) error {
	return each(w, n, func(int64) float64 {
		return quantile((float64(random.Uint64()>>12) + 0.5) / (1 << 52))
	})
}

func ones(w io.Writer, n int64, _ *rand.PCG) error {
	return each(w, n, func(int64) float64 { return 1 })
}

// decays are the rates at which a state fades, one row for each channel.
func decays(w io.Writer, n int64, _ *rand.PCG) error {
	return each(w, n, func(i int64) float64 { return -float64(1 + i%16) })
}

func each(w io.Writer, n int64, value func(i int64) float64) error {
	buf := make([]byte, 0, 4*n)
	for i := range n {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(float32(value(i))))
	}
	_, err := w.Write(buf)
	return err
}

// float16 rounds to the nearest number of half precision. It is for weights,
// which are far from the format's upper end.
func float16(x float64) uint16 {
	sign := uint16(0)
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	const smallestNormal = 1.0 / (1 << 14)
	if x < smallestNormal {
		return sign | uint16(math.RoundToEven(x*(1<<24)))
	}
	fraction, exponent := math.Frexp(x) // fraction from 0.5 to below 1
	// The carry of a fraction that rounds up to 1 moves into the exponent.
	return sign | (uint16(exponent+13)<<10 + uint16(math.RoundToEven(fraction*2048)))
}
