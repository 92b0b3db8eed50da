package pages

import (
	"errors"
	"fmt"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Config is what a Store is opened with.
type Config struct {
	// Identity of the slot; every field must be set.
	Identity shared.Identity
	// PageTokens is the number of tokens in a page.
	PageTokens int
	// Exact takes whole pages only and leaves the rest of a prompt, at least one
	// token, to be computed as one chunk, so that the logits are those of a cold
	// run to the bit. It needs pages that were themselves computed as whole chunks
	// of prompts: only those may be saved, and pages of other stores never match.
	// Without it all but the last token of a prompt may come from pages.
	Exact bool
	// Layout is what Prove returned.
	Layout Layout
	// HostBytes is the budget of the host tier; at least one page must fit.
	HostBytes int64
	// Memory provides the host tier's memory; nil means NewMappedMemory.
	Memory Memory
	// SlabBytes is asked for at a time; 0 means 16 MiB.
	SlabBytes int
	// Dir is the directory of the disk tier, which other stores may share; empty
	// means that there is no disk tier.
	Dir string
	// DiskBytes is the limit of all pages in Dir, whoever wrote them. While pages
	// are being written, each store may be one page above it.
	DiskBytes int64
	// QueuePages is how many pages may wait to be written to disk, which is what
	// the death of the process loses at most; 0 means 256.
	QueuePages int
	// Loaders read pages from disk side by side; 0 means 4.
	Loaders int
	// LockWait is how long to wait while another store changes Dir; 0 means 1s.
	LockWait time.Duration
	// RetryAfter is how long nothing is written after a write failed; 0 means 5s.
	RetryAfter time.Duration
	// OnError is told what goes wrong behind the requests; nil means nobody is.
	// It is called from the store's goroutines and must not call the store.
	OnError func(error)
	// Hasher makes token hashes; nil means HashSHA256.
	Hasher Hasher
	// Files is the file system; nil means that of the operating system.
	Files FileOps
}

// Validate reports what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case !c.Identity.Complete():
		return errors.New("context pages need a complete identity")
	case c.PageTokens < 1 || c.PageTokens > maxPageTokens:
		return fmt.Errorf("a context page has 1 to %d tokens, not %d", maxPageTokens, c.PageTokens)
	case len(c.Layout.Planes) == 0:
		return errors.New("context pages need a proven layout")
	case c.HostBytes < int64(newArena(c.Layout.CellBytes(), c.PageTokens, 0, 0).frameBytes()):
		return fmt.Errorf("%d bytes of host memory hold no context page", c.HostBytes)
	case c.Dir != "" && c.DiskBytes < 1:
		return errors.New("the disk tier of context pages needs a size limit")
	case c.QueuePages < 0 || c.Loaders < 0 || c.SlabBytes < 0 || c.LockWait < 0 || c.RetryAfter < 0:
		return errors.New("a setting of the context pages is negative")
	}
	return nil
}

// maxPageTokens bounds the header of a page's file.
const maxPageTokens = 1 << 15

func (c Config) withDefaults() Config {
	if c.Memory == nil {
		c.Memory = NewMappedMemory()
	}
	if c.SlabBytes == 0 {
		c.SlabBytes = 16 << 20
	}
	if c.QueuePages == 0 {
		c.QueuePages = 256
	}
	if c.Loaders == 0 {
		c.Loaders = 4
	}
	if c.LockWait == 0 {
		c.LockWait = time.Second
	}
	if c.RetryAfter == 0 {
		c.RetryAfter = 5 * time.Second
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	if c.Hasher == nil {
		c.Hasher = HashSHA256
	}
	if c.Files == nil {
		c.Files = NewOSFiles()
	}
	return c
}
