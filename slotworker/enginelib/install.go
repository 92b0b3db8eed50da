package enginelib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/firstframe/firstframe/shared"
)

// lockPoll is how often a waiting installation looks whether another has ended.
const lockPoll = 50 * time.Millisecond

// Options say what to install and where.
type Options struct {
	// Dir is the directory to make; empty means Dir().
	Dir string
	// Device is what the engine is to compute on beside the CPU.
	Device Device
	// From is the pinned package's tarball, or a directory with libraries that
	// the operator vouches for. Empty means that sources are tried in order.
	From string
	// Progress is told what is going on; nil is allowed.
	Progress func(Progress)
	// Log is told in one line each what people should know; nil is allowed.
	Log func(line string)
}

// Progress is the state of a running installation.
type Progress struct {
	Stage string // waiting, fetching, unpacking or checking
	Bytes int64  // written so far; how many there will be is not known before
}

// Result is an engine that is ready to be loaded.
type Result struct {
	Dir    string
	Source string // package name and version, or a directory
	Reused bool   // it was there already
	Bytes  int64
}

// Install makes an engine directory ready. One that is there and undamaged is
// kept, unless From asks for a certain source. Processes that install at the same
// time take turns, and those that come later find the work done.
func Install(ctx context.Context, opts Options) (Result, error) {
	in := installer{
		dir:      opts.Dir,
		from:     opts.From,
		device:   opts.Device,
		progress: func(Progress) {},
		log:      func(string) {},
	}
	if opts.Progress != nil {
		in.progress = opts.Progress
	}
	if opts.Log != nil {
		in.log = opts.Log
	}
	if in.dir == "" {
		dir, err := Dir(in.device)
		if err != nil {
			return Result{}, err
		}
		in.dir = dir
		if in.device == CPU && os.Getenv(EnvDir) == "" {
			in.system = systemDirs()
		}
	}
	if npm, err := exec.LookPath("npm"); err == nil {
		in.npm = npm
	}
	in.pin, in.pinned = pinFor(runtime.GOOS, runtime.GOARCH, in.device)
	return in.install(ctx)
}

// installer is one installation with everything that it takes from its
// surroundings.
type installer struct {
	dir      string
	from     string
	device   Device
	system   []string // where a system library may be taken as it is
	npm      string   // path of the npm client, empty when there is none
	pin      pin
	pinned   bool
	progress func(Progress)
	log      func(string)
}

func (in *installer) install(ctx context.Context) (Result, error) {
	dir, err := filepath.Abs(in.dir)
	if err != nil {
		return Result{}, fmt.Errorf("cannot install the engine: %w", err)
	}
	in.dir = dir
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Result{}, shared.Errorf(shared.KindEngineMissing, "cannot install the engine: %w", err)
	}
	in.progress(Progress{Stage: "waiting"})
	lock := flock.New(filepath.Join(parent, "."+filepath.Base(dir)+".lock"))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, shared.Errorf(shared.KindEngineMissing, "cannot lock the engine's directory: %w", err)
	}
	result, err := in.locked(ctx, parent)
	return result, errors.Join(err, lock.Unlock())
}

// locked runs while no other process installs into the directory.
func (in *installer) locked(ctx context.Context, parent string) (Result, error) {
	if in.from == "" {
		in.progress(Progress{Stage: "checking"})
		if source, ok := in.there(); ok {
			return Result{Dir: in.dir, Source: source, Reused: true}, nil
		}
		if system, ok := findSystem(in.system); ok {
			return Result{Dir: system, Source: system, Reused: true}, nil
		}
	}
	if err := in.replaceable(); err != nil {
		return Result{}, err
	}
	// Under the lock every other temporary directory was left by a process that
	// was killed.
	prefix := "." + filepath.Base(in.dir) + ".new-"
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return Result{}, fmt.Errorf("cannot look for old installations: %w", err)
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return Result{}, fmt.Errorf("cannot remove an old installation: %w", err)
		}
	}
	temp, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return Result{}, shared.Errorf(shared.KindEngineMissing, "cannot install the engine: %w", err)
	}
	result, err := in.fill(ctx, temp)
	return result, errors.Join(err, os.RemoveAll(temp))
}

// replaceable protects a directory that holds anything but an engine of ours.
func (in *installer) replaceable() error {
	entries, err := os.ReadDir(in.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("cannot read the engine's directory: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(in.dir, manifestName)); err != nil {
		return shared.Errorf(shared.KindEngineMissing, "%s has other files in it and is no engine of version %s; empty it or name another directory", in.dir, shared.EngineVersion)
	}
	return nil
}

// fill builds the engine below temp and moves it to its place.
func (in *installer) fill(ctx context.Context, temp string) (Result, error) {
	w := &writer{dir: filepath.Join(temp, "engine"), device: in.device}
	var total int64
	w.wrote = func(n int64) {
		total += n
		in.progress(Progress{Stage: "unpacking", Bytes: total})
	}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		return Result{}, fmt.Errorf("cannot install the engine: %w", err)
	}
	if err := in.source(ctx, w, temp); err != nil {
		return Result{}, err
	}
	if err := w.finish(); err != nil {
		return Result{}, shared.Errorf(shared.KindEngineMissing, "cannot install the engine: %w", err)
	}
	in.progress(Progress{Stage: "checking", Bytes: total})
	if err := w.manifest.verify(w.dir, in.pin); err != nil {
		return Result{}, shared.Errorf(shared.KindEngineMissing, "cannot install the engine: %w", err)
	}
	old := filepath.Join(temp, "old")
	if err := os.Rename(in.dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Result{}, fmt.Errorf("cannot replace the engine: %w", err)
	}
	if err := os.Rename(w.dir, in.dir); err != nil {
		return Result{}, fmt.Errorf("cannot install the engine: %w", err)
	}
	if err := syncDir(filepath.Dir(in.dir)); err != nil {
		return Result{}, err
	}
	return Result{Dir: in.dir, Source: w.manifest.Source, Bytes: total}, nil
}

// source writes the libraries from wherever they can be had.
func (in *installer) source(ctx context.Context, w *writer, temp string) error {
	if in.from != "" {
		return in.given(ctx, w)
	}
	if !in.pinned {
		return in.unreachable(fmt.Sprintf("no package is pinned for %s/%s", runtime.GOOS, runtime.GOARCH))
	}
	if in.npm == "" {
		return in.unreachable("npm is not on PATH")
	}
	in.log("fetching the engine library, package " + in.pin.source())
	var tarballs []string
	for p := &in.pin; p != nil; p = p.Also {
		in.progress(Progress{Stage: "fetching"})
		fetched, err := os.MkdirTemp(temp, "fetched-")
		if err != nil {
			return fmt.Errorf("cannot install the engine: %w", err)
		}
		tarball, err := npmPack(ctx, in.npm, *p, fetched)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return in.unreachable(err.Error())
		}
		tarballs = append(tarballs, tarball)
	}
	return in.tarball(ctx, w, tarballs...)
}

// given installs from the operator's tarball or directory.
func (in *installer) given(ctx context.Context, w *writer) error {
	info, err := os.Stat(in.from)
	if err != nil {
		return shared.Errorf(shared.KindEngineMissing, "cannot install the engine: %w", err)
	}
	if info.IsDir() {
		w.manifest = newManifest(in.from, "", in.device)
		if err := w.copyDir(ctx, in.from); err != nil {
			return shared.Errorf(shared.KindEngineMissing, "cannot install the engine from %s: %w", in.from, err)
		}
		return nil
	}
	if !in.pinned {
		return shared.Errorf(shared.KindEngineMissing, "no package is pinned for %s/%s, so a tarball cannot be checked; unpack it and name the directory", runtime.GOOS, runtime.GOARCH)
	}
	if in.pin.Also != nil {
		return shared.Errorf(shared.KindEngineMissing, "the engine is in two packages, %s; unpack both into one folder and name the folder of the libraries", in.pin.source())
	}
	return in.tarball(ctx, w, in.from)
}

// tarball takes the packages of the pin, in their order.
func (in *installer) tarball(ctx context.Context, w *writer, paths ...string) error {
	w.manifest = newManifest(in.pin.source(), in.pin.Integrity, in.device)
	p := &in.pin
	for _, path := range paths {
		if err := w.unpack(ctx, path, *p); err != nil {
			return shared.Errorf(shared.KindEngineMissing, "cannot install the engine: %w", err)
		}
		p = p.Also
	}
	return nil
}

// unreachable says what was tried and what helps.
func (in *installer) unreachable(npm string) error {
	system := "not looked for, since a directory was named"
	if len(in.system) > 0 {
		system = "none of this version in " + strings.Join(in.system, ", ")
	}
	fetch := "build llama.cpp v" + shared.EngineVersion + " for this platform"
	if in.pinned {
		fetch = fmt.Sprintf("install npm, or run `npm pack %s` on another machine", in.pin.spec())
		if in.pin.Also != nil {
			fetch += fmt.Sprintf(", and `npm pack %s`, unpack both into one folder", in.pin.Also.spec())
		}
	}
	return shared.Errorf(shared.KindEngineMissing,
		"cannot install version %s of the engine library: no source can be used (system library: %s; package: %s); to fix it %s and use `%s --from DIR|TARBALL`, or set %s to a directory with the libraries",
		shared.EngineVersion, system, npm, fetch, in.device.command(), in.device.environment())
}

// there says whether an undamaged engine is in place, and where it came from.
func (in *installer) there() (source string, ok bool) {
	m, err := readManifest(in.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return in.dir, unmanaged(in.dir) == nil && (in.device != CUDA || HasCUDA(in.dir))
	}
	if err == nil {
		err = m.verify(in.dir, in.pin)
	}
	if err != nil {
		in.log("installing the engine library anew: " + err.Error())
		return "", false
	}
	return m.Source, true
}
