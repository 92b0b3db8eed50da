package modelfetch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

// part is a file that is not whole yet, beside its final place. What its bytes are
// a part of is written down before the first of them.
type part struct {
	path, note string
	file       *os.File
	lock       *flock.Flock
	origin     origin
	size       int64
}

// origin tells one state of one remote file from every other.
type origin struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // a strong ETag or the time of change
	Total     int64  `json:"total"`
}

// maxNote bounds the note beside what was fetched.
const maxNote = 64 << 10

// openPart opens what an earlier fetch has left, or makes it. Only one process
// fetches a file.
func openPart(out string) (*part, error) {
	dir, name := filepath.Split(out)
	if err := os.MkdirAll(filepath.Clean(dir), 0o755); err != nil {
		return nil, shared.Errorf(shared.KindConfig, "cannot make the folder of models: %w", err)
	}
	p := &part{path: filepath.Join(dir, "."+name+".part")}
	p.note = p.path + ".json"
	p.lock = flock.New(p.path, flock.SetPermissions(0o644))
	if err := regular.Ensure(p.path, 0o644); err != nil {
		return nil, shared.Errorf(shared.KindConfig, "cannot write beside %s: %w", out, err)
	}
	locked, err := p.lock.TryLock()
	if err != nil {
		return nil, shared.Errorf(shared.KindConfig, "cannot write beside %s: %w", out, err)
	}
	if !locked {
		return nil, errors.Join(shared.Errorf(shared.KindBusy, "%s is being fetched by another process", out), p.lock.Close())
	}
	if p.file, err = os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, errors.Join(shared.Errorf(shared.KindConfig, "cannot write beside %s: %w", out, err), p.lock.Close())
	}
	info, err := p.file.Stat()
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.size = info.Size()
	text, err := regular.Read(p.note, maxNote)
	if err != nil || json.Unmarshal(text, &p.origin) != nil {
		p.origin = origin{} // of what is there nobody knows what it is
	}
	return p, nil
}

// begin empties the file and notes what is going to fill it.
func (p *part) begin(o origin) error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	p.size, p.origin = 0, o
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := regular.Ensure(p.note, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(p.note, text, 0o600); err != nil {
		return err
	}
	return nil
}

// Write appends.
func (p *part) Write(b []byte) (int, error) {
	n, err := p.file.WriteAt(b, p.size)
	p.size += int64(n)
	return n, err
}

// finish moves the file to its place, where there is none.
func (p *part) finish(out string) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	// Link instead of rename: it never replaces a file that has come meanwhile.
	err := os.Link(p.path, out)
	if errors.Is(err, fs.ErrExist) {
		return shared.Errorf(shared.KindInvalid, "%s is there already", out)
	}
	if err != nil {
		err = os.Rename(p.path, out) // a file system without links
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(out))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close(), p.remove())
}

// remove leaves nothing of the part.
func (p *part) remove() error {
	var errs []error
	for _, path := range []string{p.path, p.note} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *part) close() error { return errors.Join(p.file.Close(), p.lock.Close()) }
