package gguf

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/firstframe/firstframe/shared"
)

// scanPiece is about how many bytes are scanned between looks at the context.
const scanPiece = 1 << 20

// piece is a run of whole blocks of one tensor.
type piece struct {
	tensor *Tensor
	rule   rule
	start  int64 // in its file
	end    int64
}

// CheckWeights looks for weights that are no numbers in data, the whole files:
// NaN and infinity in F32, F16 and BF16, and in the scales of the blocks of
// quantized types. The engine loads such a file without a word and answers
// with garbage. The types NVFP4 and I32 have no values of that kind. It uses
// all cores and reads only what it needs, a few bytes of each block.
//
// An error names the first such weight in file order.
func (f *File) CheckWeights(ctx context.Context, data ...[]byte) error {
	if len(data) != len(f.sizes) {
		return shared.Errorf(shared.KindModelFile, "the model has %d parts, but its header was read from %d", len(data), len(f.sizes))
	}
	for i, d := range data {
		if int64(len(d)) != f.sizes[i] {
			return shared.Errorf(shared.KindModelFile, "the model has %d bytes, but its header was read from %d", len(d), f.sizes[i])
		}
	}
	s := &weightScan{data: data, pieces: f.pieces()}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(s.pieces)) {
		workers.Go(func() {
			for ctx.Err() == nil && s.step() {
				continue
			}
		})
	}
	workers.Wait()
	if s.err == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.err
}

// pieces cuts the tensors that have a rule into runs of blocks.
func (f *File) pieces() []piece {
	var list []piece
	for i := range f.tensors {
		t := &f.tensors[i]
		l, _ := t.Type.layout()
		r, ok := ruleOf(t.Type)
		if !ok {
			continue
		}
		step := scanPiece / int64(l.size) * int64(l.size)
		for done := int64(0); done < t.Bytes; done += step {
			list = append(list, piece{t, r, t.Offset + done, t.Offset + min(done+step, t.Bytes)})
		}
	}
	return list
}

// weightScan hands pieces to the workers in order. After a find, pieces before
// it are still finished, so that the first one in the file is reported.
type weightScan struct {
	data   [][]byte
	pieces []piece

	mu    sync.Mutex
	next  int
	found int // the piece that err is about
	err   error
}

// step scans one more piece and reports whether there may be others.
func (s *weightScan) step() bool {
	s.mu.Lock()
	number := s.next
	s.next++
	more := number < len(s.pieces) && s.err == nil
	s.mu.Unlock()
	if !more {
		return false
	}
	err := s.pieces[number].scan(s.data[s.pieces[number].tensor.Part])
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && (s.err == nil || number < s.found) {
		s.found, s.err = number, err
	}
	return true
}

// scan applies the rule to one piece. The data may be a mapped file: when
// somebody cuts it now, the read faults, which must not end the process.
func (p piece) scan(data []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault := recover()
		if _, isFault := fault.(interface{ Addr() uintptr }); isFault {
			err = p.fail(p.start, "the data cannot be read any more: the file was cut or its disk fails")
		} else if fault != nil {
			panic(fault)
		}
	}()
	if at := p.rule.find(data[p.start:p.end]); at >= 0 {
		return p.fail(p.start+int64(at), p.rule.what+" that is no finite number")
	}
	return nil
}

func (p piece) fail(at int64, text string) error {
	return &shared.Error{
		Kind:    shared.KindModelFile,
		Field:   p.tensor.Name,
		Message: fmt.Sprintf("tensor %q of type %s at byte %d: %s", p.tensor.Name, p.tensor.Type, at, text),
	}
}
