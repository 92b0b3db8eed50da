package sandbox

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// system is what every program reads: its libraries, the loader's table, time
// zones, and what the kernel tells of the machine and of the process itself.
// /proc of others is not among it: it shows their environment and their memory.
func system() []string {
	return []string{
		"/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime",
		ownProc, "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/sys",
		"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm", "/dev/urandom", "/dev/zero",
	}
}

const ownProc = "/proc/self"

// Enter confines this process and starts its program again in the same process,
// with the same arguments, environment and inherited files. The second time it
// returns, with what holds. It is called before anything else is opened.
//
// Starting again is how all threads come to be confined: the restrictions are
// set on one thread, which a program that uses native libraries cannot do for
// the others, and the program that this thread starts has them all along.
func Enter(p Policy) Report {
	if private, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && private == 1 {
		if r, ok := second(); ok {
			return r
		}
	}
	var r Report
	r.note("no core dumps", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
	if p.OpenFiles > 0 {
		r.note("a limit of open files", limitFiles(p.OpenFiles))
	}
	if p.OOMScore > 0 {
		r.note("a higher OOM score", os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(p.OOMScore)), 0))
	}
	// Not unlocked: either the program starts again on this thread or the process
	// goes on with everything but the thread.
	failed := make(chan Report)
	go func() {
		runtime.LockOSThread()
		failed <- confine(p, r)
		select {} // a thread that ends would take native libraries' destructors along
	}()
	return <-failed
}

// confine restricts the calling thread and starts the program again on it. It
// returns only when that fails.
func confine(p Policy, r Report) Report {
	r.note("no new privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	emptyNetwork := false
	if !p.Network {
		err := unix.Unshare(unix.CLONE_NEWNET)
		emptyNetwork = err == nil
		r.note("an empty network namespace", err)
	}
	if p.EndWithParent {
		r.note("an end with its parent", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	}
	abi, err := restrict(p)
	if err == nil {
		r.note(fmt.Sprintf("Landlock ABI %d", abi), nil)
	} else {
		r.note("Landlock", err)
	}
	r.Open = p.open(abi, emptyNetwork)
	err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), r.encode()))
	return Report{Missing: []string{fmt.Sprintf("anything (cannot start the program again: %v)", err)}, Open: everything()}
}

// restrict puts the calling thread under Landlock.
func restrict(p Policy) (abi int, err error) {
	abi, err = Landlock()
	if err != nil {
		return 0, err
	}
	config := landlock.V7
	rules := []landlock.Rule{landlock.PathAccess(readFile|writeFile, "/dev/null").IgnoreIfMissing()}
	for _, path := range append(system(), p.Read...) {
		rules = append(rules, readRule(path))
	}
	for _, path := range p.Write {
		rules = append(rules, landlock.PathAccess(readDir|writeDir, path))
	}
	programs, err := ownProgram()
	if err != nil {
		return 0, err
	}
	// Only what is started again may be started.
	rules = append(rules, landlock.PathAccess(readFile|ll.AccessFSExecute, programs...))
	for _, pattern := range p.Devices {
		files, _ := filepath.Glob(pattern) // the pattern is a constant
		rules = append(rules, landlock.PathAccess(readFile|writeFile, files...).WithIoctlDev())
	}
	if p.Network {
		config.HandledAccessNet = 0
	}
	// The rule holds for the folder as it is now. Left open, also by the program
	// that is started, it stays the same one for as long as the process lives.
	if _, err := unix.Open(ownProc, unix.O_PATH, 0); err != nil {
		return 0, err
	}
	fd, flags, err := config.BestEffort().NewRulesetFD(rules...)
	if err != nil {
		return 0, err
	}
	if fd < 0 {
		return 0, errors.New("there is nothing that it could restrict")
	}
	defer func() { _ = unix.Close(fd) }()
	if err := ll.LandlockRestrictSelf(fd, flags); err != nil {
		return 0, err
	}
	return abi, nil
}

// What rules give. None of them lets a program be started.
const (
	readFile  landlock.AccessFSSet = ll.AccessFSReadFile
	readDir                        = readFile | ll.AccessFSReadDir
	writeFile landlock.AccessFSSet = ll.AccessFSWriteFile | ll.AccessFSTruncate
	writeDir                       = writeFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock |
		ll.AccessFSMakeSym | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile
)

// readRule lets a file or a whole folder be read.
func readRule(path string) landlock.Rule {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return landlock.PathAccess(readFile, path)
	}
	return landlock.PathAccess(readDir, path).IgnoreIfMissing()
}

// ownProgram is this program, wherever it was, and the loader that the kernel
// starts it with.
func ownProgram() ([]string, error) {
	const own = "/proc/self/exe"
	file, err := elf.Open(own)
	if err != nil {
		return nil, fmt.Errorf("cannot read the own program: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			path, err := io.ReadAll(part.Open())
			if err != nil {
				return nil, fmt.Errorf("cannot read the own program's loader: %w", err)
			}
			return []string{own, strings.TrimRight(string(path), "\x00")}, nil
		}
	}
	return []string{own}, nil
}

// limitFiles lowers the limit for good; one that is lower already stays.
func limitFiles(n uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	n = min(n, limit.Max)
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}

// Landlock gives the version of Landlock that the kernel offers.
func Landlock() (abi int, err error) {
	abi, err = ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, errors.New("this kernel is built without it")
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, errors.New("it was not switched on when the kernel started")
	case err == nil && abi < 1:
		return 0, errors.New("the kernel does not offer it")
	}
	return abi, err
}
