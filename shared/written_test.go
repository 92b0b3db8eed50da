package shared

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		took := func(n uint64, ctx context.Context) time.Duration {
			start := time.Now()
			w.beyond(ctx, n)
			return time.Since(start)
		}
		go func() {
			time.Sleep(time.Millisecond)
			w.add()
		}()
		if d := took(0, t.Context()); d != time.Millisecond {
			t.Errorf("the write came after 1ms, the wait ended after %v", d)
		}
		if d := took(0, t.Context()); d != 0 {
			t.Errorf("the wait for a write that has been took %v", d)
		}
		if d := took(1, t.Context()); d != writtenWait {
			t.Errorf("without a write the wait took %v instead of %v", d, writtenWait)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if d := took(1, gone); d != 0 {
			t.Errorf("the wait of a caller who has left took %v", d)
		}
	})
}

func TestConnectionsCountTheirWrites(t *testing.T) {
	w := &writes{}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	conn, _, err := newCountingCredentials(w).Clone().ServerHandshake(here)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(there, make([]byte, 2))
		read <- err
	}()
	for i := range uint64(2) {
		if _, err := conn.Write([]byte{1}); err != nil || w.counted() != i+1 {
			t.Errorf("write %d: %v, %d counted", i, err, w.counted())
		}
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}
