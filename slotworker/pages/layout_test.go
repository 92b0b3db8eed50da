package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// realState is what the engine wrote for 5 tokens in sequence 2 of 4.
func realState(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "storyteller-q8_0-seq2of4-5cells.state"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseStateOfTheEngine(t *testing.T) {
	st, err := ParseState(realState(t))
	if err != nil {
		t.Fatal(err)
	}
	want := Layout{Streams: 4, Planes: slices.Repeat([]Plane{{Type: 1, Row: 512}}, 8)}
	if st.Sequence != 2 || st.Cells != 5 || !st.Layout.Equal(want) {
		t.Fatalf("%d cells of sequence %d in %+v", st.Cells, st.Sequence, st.Layout)
	}
	if n := st.Layout.StateBytes(5); n != len(realState(t)) {
		t.Fatalf("a state of 5 cells would have %d bytes", n)
	}
	// Joined from its own pieces it is the same blob again.
	whole := Piece{Payload: make([]byte, 5*want.CellBytes()), Cells: 5, Use: 5}
	if err := st.Cut(0, 5, whole.Payload); err != nil {
		t.Fatal(err)
	}
	got, err := want.Join(nil, 2, []Piece{whole})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, realState(t)) {
		t.Fatal("the blob is another one after cutting and joining")
	}
}

// Every way in which a blob can be wrong is refused.
func TestParseStateRefuses(t *testing.T) {
	const streams, cells, planes = 8, 20, 20 + 4 + 5*cellBytes + 4
	u32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], v)
			return b
		}
	}
	cases := map[string]func([]byte) []byte{
		"empty":                func([]byte) []byte { return nil },
		"magic":                u32(0, 1),
		"sequence":             u32(4, 1),
		"sequence too high":    u32(4, 9),
		"no stream":            u32(streams, 0),
		"more streams":         u32(streams, 5),
		"very many streams":    u32(streams, 1<<31),
		"cells of another":     u32(cells-8, 5),
		"no cells":             u32(cells, 0),
		"fewer cells":          u32(cells, 4),
		"very many cells":      u32(cells, 1<<31),
		"position":             u32(cells+4+cellBytes, 7),
		"owners":               u32(cells+4+4, 2),
		"owner":                u32(cells+4+8, 3),
		"transposed values":    u32(planes-4, 1),
		"layers":               u32(planes, 3),
		"no layers":            u32(planes, 0),
		"very many layers":     u32(planes, 1<<31),
		"row size":             u32(planes+8, 511),
		"no row":               u32(planes+8, 0),
		"very large row":       u32(planes+12, 1<<31),
		"one byte less":        func(b []byte) []byte { return b[:len(b)-1] },
		"one byte more":        func(b []byte) []byte { return append(b, 0) },
		"ends after the cells": func(b []byte) []byte { return b[:planes-4] },
		"ends in the cells":    func(b []byte) []byte { return b[:cells+10] },
		"ends in the streams":  func(b []byte) []byte { return b[:cells] },
	}
	for name, change := range cases {
		if _, err := ParseState(change(realState(t))); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Pages cut anywhere and joined into any sequence give the rows of the whole.
func TestCutAndJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newFakeEngine()
		e.layout = Layout{Streams: 3, Planes: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Plane {
			return Plane{Type: rapid.Uint32Range(0, 40).Draw(t, "type"), Row: rapid.IntRange(1, 70).Draw(t, "row")}
		}), 2, 8).Filter(func(p []Plane) bool { return len(p)%2 == 0 && (Layout{Planes: p}).CellBytes() >= 16 }).Draw(t, "planes")}
		tokens := rapid.SliceOfN(rapid.Int32(), 1, 60).Draw(t, "tokens")
		e.decode(1, tokens...)
		st, err := ParseState(e.state(1))
		if err != nil {
			t.Fatal(err)
		}
		var pieces []Piece
		used := 0
		for used < len(tokens) {
			n := rapid.IntRange(1, len(tokens)-used).Draw(t, "cells")
			p := Piece{Payload: make([]byte, n*e.layout.CellBytes()), Cells: n, Use: n}
			if err := st.Cut(used, used+n, p.Payload); err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, p)
			used += n
		}
		last := &pieces[len(pieces)-1]
		last.Use = rapid.IntRange(1, last.Cells).Draw(t, "use")
		used -= last.Cells - last.Use
		got, err := st.Layout.Join(make([]byte, 0, rapid.IntRange(0, 4096).Draw(t, "capacity")), 2, pieces)
		if err != nil {
			t.Fatal(err)
		}
		cold := newFakeEngine()
		cold.layout = e.layout
		cold.decode(2, tokens[:used]...)
		if !bytes.Equal(got, cold.state(2)) {
			t.Fatal("the joined state differs")
		}
	})
}

// Above a size the copies are shared out; the result is the same.
func TestCutAndJoinInParallel(t *testing.T) {
	layout := Layout{Streams: 1, Planes: []Plane{{1, 3 << 10}, {1, 1 << 10}, {1, 5}, {1, 7 << 10}}}
	blob, err := layout.Join(nil, 0, []Piece{{Payload: bytes.Repeat([]byte("abcdefg"), 1000*layout.CellBytes()/7+1)[:1000*layout.CellBytes()], Cells: 1000, Use: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if len(blob) < parallelFrom {
		t.Fatal("the blob is too small for this test")
	}
	st, err := ParseState(blob)
	if err != nil {
		t.Fatal(err)
	}
	var pieces []Piece
	var spans []span
	for at := 0; at < 1000; at += 100 {
		p := Piece{Payload: make([]byte, 100*layout.CellBytes()), Cells: 100, Use: 100}
		if spans, err = st.cutSpans(spans, at, at+100, p.Payload); err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, p)
	}
	copySpans(spans)
	again, err := layout.Join(nil, 0, pieces)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(blob, again) {
		t.Fatal("the state differs after cutting and joining")
	}
}

func TestJoinRefuses(t *testing.T) {
	ok := Piece{Payload: make([]byte, 96), Cells: 2, Use: 2}
	cases := map[string]struct {
		seq    int
		pieces []Piece
	}{
		"no pieces":     {0, nil},
		"sequence":      {3, []Piece{ok}},
		"below":         {-1, []Piece{ok}},
		"use too many":  {0, []Piece{{ok.Payload, 2, 3}}},
		"use none":      {0, []Piece{{ok.Payload, 2, 0}}},
		"short payload": {0, []Piece{ok, {ok.Payload[:95], 2, 2}}},
	}
	for name, c := range cases {
		if _, err := testLayout.Join(nil, c.seq, c.pieces); err == nil {
			t.Errorf("%s was joined", name)
		}
	}
	st := state(t, seq(1, 4))
	for _, c := range [][3]int{{-1, 1, 96}, {2, 2, 0}, {3, 5, 96}, {0, 2, 95}, {0, 2, 97}} {
		if err := st.Cut(c[0], c[1], make([]byte, c[2])); err == nil {
			t.Errorf("cells %d to %d were cut into %d bytes", c[0], c[1], c[2])
		}
	}
}

func FuzzParseState(f *testing.F) {
	f.Add(realState(f))
	e := newFakeEngine()
	e.decode(1, seq(1, 3)...)
	f.Add(e.state(1))
	f.Add(e.state(0))
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := ParseState(b)
		if err != nil {
			return
		}
		if n := st.Layout.StateBytes(st.Cells); n != len(b) {
			t.Fatalf("a blob of %d bytes was parsed as one of %d", len(b), n)
		}
		payload := make([]byte, st.Cells*st.Layout.CellBytes())
		if err := st.Cut(0, st.Cells, payload); err != nil {
			t.Fatal(err)
		}
		back, err := st.Layout.Join(nil, st.Sequence, []Piece{{Payload: payload, Cells: st.Cells, Use: st.Cells}})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, back) {
			t.Fatal("cutting and joining changed the blob")
		}
	})
}
