package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

// What lies where in a state directory. Everything in workDir belongs to the
// running supervisor and is removed when the next one starts.
const (
	lockFile       = "lock"
	endpointFile   = "endpoint.json"
	logDir         = "logs"
	slotDir        = "slots" // what workers keep, a folder each
	workDir        = "w"
	frontendSocket = "frontend.sock" // in workDir, and the next one, too
	streamSocket   = "streams.sock"
	recordFile     = "proc.json" // in the directory of a worker, in workDir
)

// socketReserve is what a worker's socket path needs beyond the state directory:
// workDir, the worker's directory and the name that go-plugin chooses.
const socketReserve = len("/" + workDir + "/zzzzzz/plugin4294967295")

// lockPatience is how long OpenStateDir waits for the directory: a supervisor that
// has just been killed gives it back only once the kernel is done with it.
const lockPatience = time.Second

// ErrStateDirInUse means that another process has the state directory open.
var ErrStateDirInUse = errors.New("it is in use")

// StateDir is the directory in which one running supervisor keeps its sockets,
// its logs and the records of its workers. Only one process at a time has it open.
type StateDir struct {
	path string
	lock *flock.Flock
}

// DefaultStateDir is the per-user directory that is used when none is named.
func DefaultStateDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "firstframe")
	}
	return filepath.Join(os.TempDir(), "firstframe-"+strconv.Itoa(os.Getuid()))
}

// OpenStateDir makes the directory if needed and takes it for this process. A
// directory that another user owns or can write to is refused, since whoever can
// write to it can talk to workers and swap files under them.
func OpenStateDir(dir string) (*StateDir, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, stateDirError(dir, "cannot make the path absolute: %w", err)
	}
	if longest := maxSocketPath - socketReserve; len(path) > longest {
		return nil, stateDirError(path, "the path has %d bytes, but the sockets in it need a path of at most %d; choose a shorter state_dir", len(path), longest)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, stateDirError(path, "cannot make it: %w", err)
	}
	if err := checkPrivate(path); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(path, lockFile))
	if err := regular.Ensure(lock.Path(), 0o600); err != nil {
		return nil, stateDirError(path, "cannot lock it: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	held, err := lock.TryLockContext(ctx, lockPatience/50)
	if err != nil && ctx.Err() == nil {
		return nil, stateDirError(path, "cannot lock it: %w", err)
	}
	if !held {
		return nil, stateDirError(path, "%w by %s; stop that one or choose another state_dir", ErrStateDirInUse, lockHolder(lock.Path()))
	}
	s := &StateDir{path: path, lock: lock}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(stateDirError(path, "cannot prepare it: %w", err), s.Close())
	}
	return s, nil
}

// prepare says who has the directory and makes what is in it.
func (s *StateDir) prepare() error {
	if err := os.WriteFile(s.lock.Path(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return err
	}
	for _, name := range []string{logDir, workDir, slotDir} {
		dir := filepath.Join(s.path, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := checkPrivate(dir); err != nil {
			return err
		}
	}
	return nil
}

// Path is the directory itself, absolute.
func (s *StateDir) Path() string { return s.path }

// LogPath is where the worker of a slot writes its log.
func (s *StateDir) LogPath(slotID string) string {
	return filepath.Join(s.path, logDir, fileName(slotID)+".log")
}

// SlotDir is the folder of what a slot's worker keeps from one process to the next.
func (s *StateDir) SlotDir(slotID string) string {
	return filepath.Join(s.path, slotDir, fileName(slotID))
}

// fileName gives each slot a name that stays in the folder it is used in.
func fileName(slotID string) string {
	name := url.PathEscape(slotID)
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	return name
}

// Close lets another process open the directory.
func (s *StateDir) Close() error { return s.lock.Close() }

func (s *StateDir) work(name ...string) string {
	return filepath.Join(append([]string{s.path, workDir}, name...)...)
}

// checkPrivate refuses a directory that somebody else could have put there or
// can change.
func checkPrivate(path string) error {
	link, err := os.Lstat(path)
	if err != nil {
		return stateDirError(path, "cannot examine it: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return stateDirError(path, "cannot examine it: %w", err)
	}
	switch uid := os.Getuid(); {
	case !info.IsDir():
		return stateDirError(path, "it is not a directory")
	case ownerOf(info) != uid:
		return stateDirError(path, "it belongs to user %d, and this process runs as user %d", ownerOf(info), uid)
	case ownerOf(link) != uid && ownerOf(link) != 0:
		return stateDirError(path, "it is a link that belongs to user %d", ownerOf(link))
	case info.Mode().Perm()&0o022 != 0:
		return stateDirError(path, "others can write to it (mode %04o); make it private with chmod 700", info.Mode().Perm())
	}
	return nil
}

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// lockHolder names the process that has the lock, as it wrote it there.
func lockHolder(path string) string {
	text, err := regular.Read(path, maxRecord)
	pid, parseErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || parseErr != nil || pid <= 0 {
		return "another supervisor"
	}
	return fmt.Sprintf("the supervisor with pid %d", pid)
}

func stateDirError(path, format string, args ...any) *shared.Error {
	e := shared.Errorf(shared.KindConfig, "cannot use the state directory %s: "+format, append([]any{path}, args...)...)
	e.Field = "state_dir"
	return e
}
