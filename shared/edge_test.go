package shared

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// frontendFunc is a Frontend whose Generate is a function; nothing else is called.
func frontendFunc(f generateFunc) Frontend { return generatorFrontend{generate: f} }

// TestEdgeAccount delays each place at the edge by a known time and looks for
// it in the one phase where it belongs.
func TestEdgeAccount(t *testing.T) {
	const hop, flush, later = 3 * time.Millisecond, 5 * time.Millisecond, 7 * time.Millisecond
	worker := Phases{Route: time.Millisecond, Queue: 2 * time.Millisecond, Prefill: 20 * time.Millisecond}
	synctest.Test(t, func(t *testing.T) {
		f := frontendFunc(func(_ context.Context, _ GenerateRequest, emit func(Chunk) error) (Result, error) {
			if err := emit(Chunk{Progress: &Progress{Stage: "read"}}); err != nil {
				return Result{}, err
			}
			time.Sleep(worker.Sum() + hop)
			for i := range 3 {
				c := Chunk{Text: "word "}
				if i == 0 {
					c.Phases = &worker
				}
				if err := emit(c); err != nil {
					return Result{}, err
				}
				time.Sleep(later)
			}
			return Result{FinishReason: FinishStop, Phases: worker}, nil
		})
		m, err := GenerateAtEdge(t.Context(), f, time.Now(), GenerateRequest{}, func(c Chunk) error {
			if c.Text != "" {
				time.Sleep(flush)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := worker
		want.FirstChunkFlush, want.Other = flush, hop
		if m.Phases != want || m.FirstChunk != worker.Sum()+hop+flush || m.Phases.Sum() != m.FirstChunk {
			t.Errorf("got %+v, first chunk %v", m.Phases, m.FirstChunk)
		}
		if m.FullResponse != worker.Sum()+hop+3*(flush+later) {
			t.Errorf("full response %v", m.FullResponse)
		}
	})
}

func TestEdgeWithoutText(t *testing.T) {
	f := frontendFunc(func(context.Context, GenerateRequest, func(Chunk) error) (Result, error) {
		return Result{FinishReason: FinishStop, Phases: Phases{Prefill: time.Millisecond}}, nil
	})
	m, err := GenerateAtEdge(t.Context(), f, time.Now(), GenerateRequest{}, func(Chunk) error { return nil })
	if err != nil || m.FirstChunk != 0 || m.Phases != (Phases{}) {
		t.Errorf("an answer without text has no first frame, got %+v, %v", m, err)
	}
}

func TestEdgeError(t *testing.T) {
	broken := errors.New("closed pipe")
	f := frontendFunc(func(_ context.Context, _ GenerateRequest, emit func(Chunk) error) (Result, error) {
		return Result{}, emit(Chunk{Text: "word"})
	})
	if _, err := GenerateAtEdge(t.Context(), f, time.Now(), GenerateRequest{}, func(Chunk) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
