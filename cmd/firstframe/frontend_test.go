package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// The socket that serve keeps for its proxy is not watched: a file that has no
// deadlines is one that the poller does not know.
func TestKeptSocketIsNotPolled(t *testing.T) {
	h, err := listenHTTP(t.Context(), proxySpec{HTTP: shared.HTTPSpec{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.socket.SetDeadline(time.Now()); !errors.Is(err, os.ErrNoDeadline) {
		t.Errorf("setting a deadline gave %v", err)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
}
