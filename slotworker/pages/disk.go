package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// diskState is what an entry knows of its copy on disk.
type diskState struct {
	on      bool
	bytes   int64
	touched time.Time // when the file was last marked as used
	queued  bool      // waits to be written
}

// How many files a directory may hold, and how many of them the quarantine.
const (
	filesMost      = 100_000
	quarantineMost = 16
)

// disk is the directory of the disk tier: one file a page. Reading needs no
// lock, and finds that a file is gone when another store has removed it. Changes
// are made by the writer alone.
type disk struct {
	*sharing
	limit int64

	mu    sync.Mutex
	known usage // this store's last sight of the whole directory
}

// listed is one page in the directory.
type listed struct {
	name  fileName
	bytes int64
	used  time.Time
}

func newDisk(dir string, limit int64, ops FileOps, wait time.Duration) *disk {
	return &disk{sharing: newSharing(dir, ops, wait), limit: limit}
}

// open makes the directory ready and lists its pages, those used last first.
func (d *disk) open(ctx context.Context) ([]listed, error) {
	if err := d.ops.MkdirAll(opOpenDir, filepath.Join(d.dir, quarantineDir)); err != nil {
		return nil, fmt.Errorf("cannot make the page directory: %w", err)
	}
	var pages []listed
	err := d.locked(ctx, func() error {
		if err := d.join(); err != nil {
			return err
		}
		// What goes here is in nobody's index yet.
		if _, _, err := d.shrink(0); err != nil {
			return err
		}
		var err error
		pages, err = d.list()
		return err
	})
	slices.SortFunc(pages, func(a, b listed) int { return b.used.Compare(a.used) })
	return pages, err
}

func (d *disk) list() ([]listed, error) {
	entries, err := d.ops.List(opScan, d.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", d.dir, err)
	}
	var pages []listed
	for _, e := range entries {
		name, ok := parseName(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", d.dir, err)
		}
		pages = append(pages, listed{name: name, bytes: info.Size(), used: info.ModTime()})
	}
	return pages, nil
}

// shrink counts the directory anew and removes the pages that were not used for
// the longest time, until room bytes more fit below the limit. It then goes
// somewhat further, so that not every write has to list the directory. The
// directory must be locked.
func (d *disk) shrink(room int64) (removed []fileName, u usage, err error) {
	pages, err := d.list()
	if err != nil {
		return nil, usage{}, err
	}
	for _, p := range pages {
		u.bytes += p.bytes
		u.files++
	}
	if d.over(u, room) {
		room += d.limit / 16
		slices.SortFunc(pages, func(a, b listed) int { return a.used.Compare(b.used) })
		for _, p := range pages {
			if !d.over(u, room) {
				break
			}
			if err = ignoreMissing(d.ops.Remove(opEvict, d.path(p.name))); err != nil {
				break
			}
			removed = append(removed, p.name)
			u.bytes -= p.bytes
			u.files--
		}
	}
	return removed, u, errors.Join(err, d.book(u))
}

// book writes the sum down. The directory must be locked.
func (d *disk) book(u usage) error {
	d.mu.Lock()
	d.known = u
	d.mu.Unlock()
	return d.writeUsage(u)
}

// total is the directory as this store last saw it.
func (d *disk) total() Tier {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Tier{Pages: int(d.known.files), Bytes: d.known.bytes}
}

func (d *disk) over(u usage, room int64) bool {
	more := int64(0)
	if room > 0 {
		more = 1
	}
	return u.bytes+room > d.limit || u.files+more > filesMost
}

func (d *disk) path(n fileName) string { return filepath.Join(d.dir, n.String()) }

// charge adds to the directory's sum before a page is written, and makes room
// when there is none. Nothing is added when there is an error.
func (d *disk) charge(ctx context.Context, bytes int64) (removed []fileName, err error) {
	if bytes > d.limit {
		return nil, fmt.Errorf("cannot store a page of %d bytes in %d", bytes, d.limit)
	}
	err = d.locked(ctx, func() error {
		if err := d.join(); err != nil {
			return err
		}
		u, ok := d.readUsage()
		if !ok || d.over(u, bytes) {
			if removed, u, err = d.shrink(bytes); err != nil {
				return err
			}
		}
		if d.over(u, bytes) {
			return fmt.Errorf("cannot make room for %d bytes in %s", bytes, d.dir)
		}
		u.bytes += bytes
		u.files++
		return d.book(u)
	})
	return removed, err
}

// refund takes back what charge added, or accounts for a file that went away.
func (d *disk) refund(ctx context.Context, bytes, files int64) error {
	return d.locked(ctx, func() error {
		if err := d.join(); err != nil {
			return err
		}
		u, ok := d.readUsage()
		if !ok {
			return nil // the next one who needs the sum counts anew
		}
		u.bytes -= bytes
		u.files -= files
		return d.book(u)
	})
}

// recount sums the directory up anew.
func (d *disk) recount(ctx context.Context) error {
	return d.locked(ctx, func() error {
		if err := d.join(); err != nil {
			return err
		}
		_, _, err := d.shrink(0)
		return err
	})
}

// write stores a page unless its file is there already. It returns the pages
// that had to go for it.
func (d *disk) write(ctx context.Context, h *header, payload []byte) (bytes int64, removed []fileName, err error) {
	raw := h.encode()
	bytes = int64(len(raw)+len(payload)) + checksumBytes
	path := d.path(h.name())
	if info, err := d.ops.Stat(opWrite, path); err == nil && info.Size() == bytes {
		return bytes, nil, nil
	}
	if removed, err = d.charge(ctx, bytes); err != nil {
		return 0, removed, err
	}
	var end [checksumBytes]byte
	putChecksum(end[:], raw, payload)
	if err = d.replace(opWrite, path, raw, payload, end[:]); err != nil {
		return 0, removed, errors.Join(err, d.refund(ctx, bytes, 1))
	}
	return bytes, removed, nil
}

// openPage opens a page's file and reads its header.
func (d *disk) openPage(op string, n fileName) (*pageFile, error) {
	f, err := d.ops.Open(op, d.path(n))
	if err != nil {
		return nil, err
	}
	h, raw, err := readHeader(f)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return &pageFile{header: h, raw: raw, file: f}, nil
}

// pageFile is an open page whose header was read.
type pageFile struct {
	header header
	raw    []byte
	file   File
}

// read reads and checks the payload.
func (p *pageFile) read(dst []byte) error {
	if int64(len(dst)) != p.header.payload {
		return damagedf("it has %d bytes of rows instead of %d", p.header.payload, len(dst))
	}
	return readPayload(p.file, p.raw, dst)
}

func (p *pageFile) close() { _ = p.file.Close() } // it was only read

// touch marks a page as used now, or, with the zero time, as the first to go.
func (d *disk) touch(n fileName, t time.Time) error {
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	return ignoreMissing(d.ops.Touch(opTouch, d.path(n), t))
}

// setAside moves a bad page into the quarantine, where the last few are kept
// for people to look at, under a name that ends in the reason.
func (d *disk) setAside(ctx context.Context, n fileName, why Reason) error {
	from := d.path(n)
	info, err := d.ops.Stat(opQuarantine, from)
	if err != nil {
		return ignoreMissing(err) // somebody else has removed it
	}
	to := filepath.Join(d.dir, quarantineDir, n.String()+"."+string(why))
	if err := d.move(from, to); err != nil {
		if d.ops.Remove(opQuarantine, from) != nil {
			return fmt.Errorf("cannot set %s aside: %w", from, err)
		}
	}
	return errors.Join(d.refund(ctx, info.Size(), 1), d.trimQuarantine())
}

// move renames a file; where the system does not let files change their
// directory, as under a sandbox, it copies.
func (d *disk) move(from, to string) error {
	err := d.ops.Rename(opQuarantine, from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return ignoreMissing(err)
	}
	f, err := d.ops.Open(opQuarantine, from)
	if err != nil {
		return ignoreMissing(err)
	}
	_ = ignoreMissing(d.ops.Remove(opQuarantine, to)) // an older copy under the same name
	out, err := d.ops.Create(opQuarantine, to)
	if err == nil {
		_, err = io.Copy(out, f)
		err = errors.Join(err, out.Close())
	}
	_ = f.Close() // it was only read
	return errors.Join(err, ignoreMissing(d.ops.Remove(opQuarantine, from)))
}

func (d *disk) trimQuarantine() error {
	dir := filepath.Join(d.dir, quarantineDir)
	entries, err := d.ops.List(opQuarantine, dir)
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", dir, err)
	}
	type bad struct {
		name string
		used time.Time
	}
	var all []bad
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.Contains(e.Name(), pageSuffix) {
			all = append(all, bad{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b bad) int { return a.used.Compare(b.used) })
	for _, b := range all[:max(0, len(all)-quarantineMost)] {
		err = errors.Join(err, ignoreMissing(d.ops.Remove(opQuarantine, filepath.Join(dir, b.name))))
	}
	return err
}
