package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared/cores"
)

// systemChecks are notes on what the kernel allows: nothing here keeps slots
// from being served.
func systemChecks() []check {
	var checks []check
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		checks = append(checks, check{Name: "kernel", OK: true, Detail: "Linux " + unix.ByteSliceToString(uts.Release[:])})
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		unit := uint64(info.Unit)
		detail := fmt.Sprintf("%s, %s free without caches", humanize.IBytes(info.Totalram*unit), humanize.IBytes(info.Freeram*unit))
		if limit, ok := groupMemory("/sys/fs/cgroup", ownGroup()); ok && limit < info.Totalram*unit {
			detail += fmt.Sprintf("; of it the control group allows %s to all processes in it", humanize.IBytes(limit))
		}
		checks = append(checks, check{Name: "memory", OK: true, Detail: detail})
	}
	return append(checks, coresCheck(), libffiCheck(), memlockCheck())
}

// coresCheck tells cores from hardware threads.
func coresCheck() check {
	threads := runtime.NumCPU()
	c := check{Name: "cores", OK: true, Detail: fmt.Sprintf("%d hardware threads; an engine gets %d threads unless told otherwise, one a core", threads, cores.Usable())}
	if usable := runtime.GOMAXPROCS(0); usable < threads {
		c.Detail += fmt.Sprintf("; the control group or GOMAXPROCS allows %d at a time", usable)
	}
	return c
}

// libffiCheck names the library that calls into the engine go through. It was
// loaded when this process started; without it no command would run.
func libffiCheck() check {
	c := check{Name: "libffi"}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	for line := range strings.Lines(string(maps)) {
		if _, path, ok := strings.Cut(line, "/"); ok && strings.Contains(path, "libffi") {
			c.OK, c.Detail = true, "/"+strings.TrimSpace(path)
			return c
		}
	}
	c.Detail = "it is not among the loaded libraries"
	return c
}

func memlockCheck() check {
	c := check{Name: "locked memory"}
	var limit unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); {
	case err != nil:
		c.Detail = err.Error()
	case limit.Cur == unix.RLIM_INFINITY:
		c.OK, c.Detail = true, "unlimited"
	case exceedsMemlock(limit.Cur):
		c.OK, c.Detail = true, fmt.Sprintf("limit %s, which this process may exceed", humanize.IBytes(limit.Cur))
	default:
		c.Detail = fmt.Sprintf("limit %s: larger host buffers are not locked; raise it with ulimit -l", humanize.IBytes(limit.Cur))
	}
	return c
}

// exceedsMemlock locks more than the limit, without touching it. Who runs as root
// may lack the right to, as in most containers.
func exceedsMemlock(limit uint64) bool {
	if limit > math.MaxInt64/2 {
		return false // more than any memory; it does not limit anything either
	}
	size := int(limit) + os.Getpagesize()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(b) }() // unlocks it as well
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(size), unix.MLOCK_ONFAULT)
	return errno == 0
}

// ownGroup is this process's control group, version 2; empty when there is none.
func ownGroup() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// groupMemory is the lowest limit of memory on the way from a control group to the root.
func groupMemory(root, group string) (lowest uint64, ok bool) {
	if group == "" {
		return 0, false
	}
	for {
		text, err := os.ReadFile(filepath.Join(root, group, "memory.max"))
		if err == nil {
			limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && (!ok || limit < lowest) {
				lowest, ok = limit, true
			}
		}
		if group == "/" || group == "." {
			return lowest, ok
		}
		group = filepath.Dir(group)
	}
}
