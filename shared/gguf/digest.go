package gguf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/firstframe/firstframe/shared"
)

const digestBuffer = 1 << 20

// Digest reads a whole model and gives its revision, "sha256:" and the hex
// digest. It ends early when ctx does, and fails when r does not hold exactly
// size bytes. Progress, which may be nil, is told after each piece how many
// bytes were read.
func Digest(ctx context.Context, r io.Reader, size int64, progress func(done int64)) (string, error) {
	sum := sha256.New()
	buf := make([]byte, digestBuffer)
	var done int64
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := r.Read(buf)
		sum.Write(buf[:n])
		done += int64(n)
		if done > size {
			return "", shared.Errorf(shared.KindModelFile, "the file has more than the %d bytes that it had when it was opened", size)
		}
		if progress != nil && n > 0 {
			progress(done)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", shared.Errorf(shared.KindModelFile, "cannot read the model at byte %d: %w", done, err)
		}
	}
	if done != size {
		return "", shared.Errorf(shared.KindModelFile, "the file ended after %d of %d bytes", done, size)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
