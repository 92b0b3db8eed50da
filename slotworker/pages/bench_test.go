package pages

import (
	"crypto/sha256"
	"fmt"
	"hash/crc64"
	"os"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// benchLayout has 24 KiB a token, as a model of 350 million parameters with 24
// layers and 256 KV dimensions in F16.
var benchLayout = Layout{Streams: 4, Planes: slices.Repeat([]Plane{{1, 512}}, 48)}

const (
	benchPage   = 64
	benchTokens = 512
)

func benchState(b *testing.B) State {
	payload := make([]byte, benchTokens*benchLayout.CellBytes())
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	blob, err := benchLayout.Join(nil, 1, []Piece{{payload, benchTokens, benchTokens}})
	if err != nil {
		b.Fatal(err)
	}
	st, err := ParseState(blob)
	if err != nil {
		b.Fatal(err)
	}
	return st
}

func benchStore(b *testing.B, dir string) *Store {
	s, err := Open(Config{
		Identity: testIdentity, PageTokens: benchPage, Layout: benchLayout,
		HostBytes: 256 << 20, Dir: dir, DiskBytes: 4 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(b.Context()); err != nil {
			b.Log(err)
		}
	})
	return s
}

// BenchmarkHostTier saves and restores a prompt of 512 tokens, 12 MiB.
func BenchmarkHostTier(b *testing.B) {
	st := benchState(b)
	s := benchStore(b, "")
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := ParseState(st.blob); err != nil {
				b.Fatal(err)
			}
		}
	})
	group := 0
	b.Run("save", func(b *testing.B) {
		b.SetBytes(benchTokens * int64(benchLayout.CellBytes()))
		for b.Loop() {
			group++
			if _, err := s.Save(Save{Prompt: s.NewPrompt(seq(group, benchTokens)), State: st}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lookup and join", func(b *testing.B) {
		b.SetBytes(benchTokens * int64(benchLayout.CellBytes()))
		var blob []byte
		for b.Loop() {
			p := s.Lookup(Query{Prompt: s.NewPrompt(seq(group, benchTokens))})
			if p.Tokens != benchTokens-1 {
				b.Fatal(p.Tokens)
			}
			var err error
			if blob, err = benchLayout.Join(blob, 2, p.Pieces()); err != nil {
				b.Fatal(err)
			}
			s.Release(p, Used)
		}
	})
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			s.Release(s.Lookup(Query{Prompt: s.NewPrompt(seq(group, benchTokens))}), Used)
		}
	})
}

// BenchmarkDiskTier writes the same prompt and reads it again.
func BenchmarkDiskTier(b *testing.B) {
	st := benchState(b)
	s := benchStore(b, b.TempDir())
	group := 0
	b.Run("save and flush", func(b *testing.B) {
		b.SetBytes(benchTokens * int64(benchLayout.CellBytes()))
		for b.Loop() {
			group++
			if _, err := s.Save(Save{Prompt: s.NewPrompt(seq(group, benchTokens)), State: st}); err != nil {
				b.Fatal(err)
			}
			if err := s.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		b.SetBytes(benchTokens * int64(benchLayout.CellBytes()))
		for b.Loop() {
			b.StopTimer()
			s.mu.Lock()
			for e := s.host.victim(); e != nil; e = s.host.victim() {
				s.evict(e)
			}
			s.mu.Unlock()
			b.StartTimer()
			p := s.Lookup(Query{Prompt: s.NewPrompt(seq(group, benchTokens))})
			s.Load(b.Context(), p)
			if p.DiskTokens != benchTokens-1 {
				b.Fatalf("%+v", p)
			}
			s.Release(p, Used)
		}
	})
	b.Run("probe for nothing", func(b *testing.B) {
		for b.Loop() {
			p := s.Lookup(Query{Prompt: s.NewPrompt(seq(-5, benchTokens))})
			s.Load(b.Context(), p)
			s.Release(p, Used)
		}
	})
}

// BenchmarkChecksum compares what could guard a page of 1.5 MiB.
func BenchmarkChecksum(b *testing.B) {
	page := make([]byte, benchPage*benchLayout.CellBytes())
	table := crc64.MakeTable(crc64.ECMA)
	for name, sum := range map[string]func(){
		"xxhash64": func() { xxhash.Sum64(page) },
		"sha256":   func() { sha256.Sum256(page) },
		"crc64":    func() { crc64.Checksum(page, table) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				sum()
			}
		})
	}
}

// BenchmarkScan opens a directory of many pages.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{100, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			for g := range n / 8 {
				e := newFakeEngine()
				e.decode(0, seq(g, 32)...)
				st, err := ParseState(e.state(0))
				if err != nil {
					b.Fatal(err)
				}
				s := benchScanStore(b, dir)
				if _, err := s.Save(Save{Prompt: s.NewPrompt(seq(g, 32)), State: st}); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				s := benchScanStore(b, dir)
				<-s.Scanned()
				if err := s.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchScanStore(b *testing.B, dir string) *Store {
	s, err := Open(testConfig(dir))
	if err != nil {
		b.Fatal(err)
	}
	return s
}
