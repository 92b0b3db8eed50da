package pages

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/firstframe/firstframe/shared/regular"
)

// Names in the directory beside the pages.
const (
	lockName      = "lock"
	usageName     = "usage"
	quarantineDir = "quarantine"
	ownerPrefix   = "owner."
	tempSuffix    = ".tmp"
)

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 2 * time.Millisecond

// sharing is what several stores that use one directory agree on: a lock for
// changes of the whole, the sum of what is in it, and for each store a file that
// is locked as long as the store lives, so that the temporary files of a dead
// one can be told from those of a living one. The writer alone uses it.
type sharing struct {
	dir   string
	ops   FileOps
	wait  time.Duration // for the lock
	lock  *flock.Flock
	owner *flock.Flock // nil until join
	id    string
	temps int
}

// usage is the sum of all pages in the directory.
type usage struct {
	bytes int64
	files int64
}

func newSharing(dir string, ops FileOps, wait time.Duration) *sharing {
	return &sharing{dir: dir, ops: ops, wait: wait,
		lock: flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))}
}

// locked runs do while no other store changes the directory as a whole.
func (s *sharing) locked(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	err := regular.Ensure(s.lock.Path(), 0o600)
	if err == nil {
		_, err = s.lock.TryLockContext(ctx, lockPoll)
	}
	if err != nil {
		return fmt.Errorf("cannot lock %s: %w", s.dir, err)
	}
	err = do()
	if unlockErr := s.lock.Unlock(); err == nil && unlockErr != nil {
		err = fmt.Errorf("cannot unlock %s: %w", s.dir, unlockErr)
	}
	return err
}

// join makes this store's owner file and removes what dead stores left. The
// directory must be locked.
func (s *sharing) join() error {
	if s.owner != nil {
		return nil
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return fmt.Errorf("cannot name an owner: %w", err)
	}
	s.id = hex.EncodeToString(random[:])
	owner := flock.New(filepath.Join(s.dir, ownerPrefix+s.id), flock.SetPermissions(0o600))
	if ok, err := owner.TryLock(); !ok || err != nil {
		return fmt.Errorf("cannot lock a new owner file in %s: %w", s.dir, err)
	}
	s.owner = owner
	return s.reap()
}

// reap removes the temporary files of stores that are gone.
func (s *sharing) reap() error {
	list, err := s.ops.List(opReap, s.dir)
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", s.dir, err)
	}
	alive := map[string]bool{s.id: true}
	for _, f := range list {
		id, ok := strings.CutPrefix(f.Name(), ownerPrefix)
		if !ok || id == s.id {
			continue
		}
		if s.gone(filepath.Join(s.dir, f.Name())) {
			err = errors.Join(err, ignoreMissing(s.ops.Remove(opReap, filepath.Join(s.dir, f.Name()))))
		} else {
			alive[id] = true
		}
	}
	for _, f := range list {
		id, rest, _ := strings.Cut(f.Name(), ".")
		if strings.HasSuffix(rest, strings.TrimPrefix(tempSuffix, ".")) && !alive[id] {
			err = errors.Join(err, ignoreMissing(s.ops.Remove(opReap, filepath.Join(s.dir, f.Name()))))
		}
	}
	return err
}

// gone reports whether nobody holds an owner file any more.
func (s *sharing) gone(name string) bool {
	other := flock.New(name, flock.SetFlag(os.O_RDWR))
	ok, err := other.TryLock()
	if err != nil || !ok {
		return false
	}
	return other.Close() == nil
}

// leave removes the owner file.
func (s *sharing) leave() error {
	if s.owner == nil {
		return s.lock.Close()
	}
	err := ignoreMissing(s.ops.Remove(opReap, s.owner.Path()))
	return errors.Join(err, s.owner.Close(), s.lock.Close())
}

// temp is a new name for a temporary file of this store.
func (s *sharing) temp() string {
	s.temps++
	return filepath.Join(s.dir, s.id+"."+strconv.Itoa(s.temps)+tempSuffix)
}

// readUsage reads the sum; false means that it has to be counted anew.
func (s *sharing) readUsage() (usage, bool) {
	f, err := s.ops.Open(opUsage, filepath.Join(s.dir, usageName))
	if err != nil {
		return usage{}, false
	}
	var b [16]byte
	_, err = io.ReadFull(f, b[:])
	if closeErr := f.Close(); err != nil || closeErr != nil {
		return usage{}, false
	}
	u := usage{bytes: int64(binary.LittleEndian.Uint64(b[:])), files: int64(binary.LittleEndian.Uint64(b[8:]))}
	return u, u.bytes >= 0 && u.files >= 0
}

func (s *sharing) writeUsage(u usage) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(max(0, u.bytes)))
	b = binary.LittleEndian.AppendUint64(b, uint64(max(0, u.files)))
	return s.replace(opUsage, filepath.Join(s.dir, usageName), b)
}

// replace writes a file beside its place and renames it there: whoever reads
// the name sees the whole file or none.
func (s *sharing) replace(op, name string, parts ...[]byte) error {
	temp := s.temp()
	f, err := s.ops.Create(op, temp)
	if err != nil {
		return fmt.Errorf("cannot create a file in %s: %w", s.dir, err)
	}
	for _, p := range parts {
		if _, err = f.Write(p); err != nil {
			break
		}
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = s.ops.Rename(op, temp, name)
	}
	if err != nil {
		_ = s.ops.Remove(op, temp) // the first error says more
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
