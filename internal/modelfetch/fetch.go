package modelfetch

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// Stages of Progress.
const (
	stageFetching = "fetching"
	stageChecking = "checking"
)

// Fetch fetches one file. When it fails, what has come in stays for the next try,
// unless that proved to be wrong.
func Fetch(ctx context.Context, cfg Config) (res Result, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	if cfg.Out, err = filepath.Abs(cfg.Out); err != nil {
		return Result{}, err
	}
	if _, err := os.Lstat(cfg.Out); err == nil {
		return cfg.reuse(ctx)
	}
	p, err := openPart(cfg.Out)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	f := newFetcher(cfg, p)
	defer f.close()
	if err := f.all(ctx); err != nil {
		if p.size == 0 {
			err = errors.Join(err, p.remove())
		}
		return Result{}, err
	}
	digest, err := cfg.prove(ctx, p, f.promised)
	if err != nil {
		return Result{}, err
	}
	if err := p.finish(cfg.Out); err != nil {
		return Result{}, err
	}
	return Result{Path: cfg.Out, SHA256: digest, Bytes: p.size, Resumed: f.resumed}, nil
}

// reuse takes a file that is there, if it is known to be the one that is wanted.
func (c Config) reuse(ctx context.Context) (Result, error) {
	if c.SHA256 == "" {
		return Result{}, shared.Errorf(shared.KindInvalid, "%s is there already; --sha256 proves that it is the same file, --out names another place", c.Out)
	}
	file, size, err := gguf.Open(c.Out)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	digest, err := c.digest(ctx, file, size)
	if err != nil {
		return Result{}, err
	}
	if digest != c.SHA256 {
		return Result{}, shared.Errorf(shared.KindModelFile, "%s is there already and is another file: its sha256 is %s", c.Out, digest)
	}
	return Result{Path: c.Out, SHA256: digest, Bytes: size, Reused: true}, nil
}

func (c Config) digest(ctx context.Context, r io.Reader, size int64) (string, error) {
	revision, err := gguf.Digest(ctx, r, size, func(done int64) { c.Progress(Progress{stageChecking, done, size}) })
	return strings.TrimPrefix(revision, "sha256:"), err
}

// prove reads the bytes from where they were written. Wrong ones are removed: no
// further byte would make them right.
func (c Config) prove(ctx context.Context, p *part, promised string) (string, error) {
	magic := make([]byte, 4)
	if _, err := p.file.ReadAt(magic, 0); err != nil || string(magic) != "GGUF" {
		return "", errors.Join(shared.Errorf(shared.KindModelFile, "what came is no GGUF file"), p.remove())
	}
	digest, err := c.digest(ctx, io.NewSectionReader(p.file, 0, p.size), p.size)
	if err != nil {
		return "", err
	}
	for want, whose := range map[string]string{c.SHA256: "the sha256 that was asked for", promised: "the sha256 that the server names"} {
		if want != "" && digest != want {
			return "", errors.Join(shared.Errorf(shared.KindModelFile, "the file is not the one that was meant: its sha256 is %s, %s is %s", digest, whose, want), p.remove())
		}
	}
	return digest, nil
}

// all asks until everything is there. A connection that was cut is asked for the
// rest; only one that brings nothing, several times in a row, is given up.
func (f *fetcher) all(ctx context.Context) error {
	for fruitless := 0; ; {
		before := f.part.size
		whole, err := f.once(ctx)
		switch {
		case err == nil && whole:
			return nil
		case ctx.Err() != nil:
			return shared.Errorf(shared.KindCancelled, "the fetch was stopped with %d bytes; the same command goes on from there", f.part.size)
		case !errors.As(err, new(*cutError)):
			return err
		}
		if fruitless++; f.part.size > before {
			fruitless = 0
		}
		if fruitless >= f.cfg.Tries {
			return shared.Errorf(shared.KindUnavailable, "cannot fetch the file, of which %d bytes are there: %w", f.part.size, err)
		}
		pause := f.cfg.Wait << fruitless
		f.cfg.Retry(err, pause)
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}
