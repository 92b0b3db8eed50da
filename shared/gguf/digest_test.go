package gguf_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// brokenAfter gives an error where its reader ends.
type brokenAfter struct {
	io.Reader
	err error
}

func (b *brokenAfter) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return n, err
}

func TestDigest(t *testing.T) {
	content := strings.Repeat("0123456789", 300_000)
	var told []int64
	got, err := gguf.Digest(t.Context(), strings.NewReader(content), int64(len(content)), func(done int64) { told = append(told, done) })
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	if got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("got %s", got)
	}
	if len(told) < 2 || told[len(told)-1] != int64(len(content)) {
		t.Errorf("progress was %v", told)
	}
	_, err = gguf.Digest(t.Context(), strings.NewReader(content), int64(len(content))+1, nil)
	wantModelError(t, err, "the file ended after 3000000 of 3000001 bytes")
	_, err = gguf.Digest(t.Context(), strings.NewReader(content), int64(len(content))-1, nil)
	wantModelError(t, err, "more than the 2999999 bytes")
	broken := errors.New("the disk is broken")
	_, err = gguf.Digest(t.Context(), &brokenAfter{strings.NewReader(content[:99]), broken}, int64(len(content)), nil)
	wantModelError(t, err, "cannot read the model at byte 99")
	if !errors.Is(err, broken) {
		t.Errorf("the cause is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = gguf.Digest(ctx, bytes.NewReader(make([]byte, 8<<20)), 8<<20, func(int64) { cancel() })
	if shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v", err)
	}
}
