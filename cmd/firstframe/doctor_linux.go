package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared/sandbox"
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
		checks = append(checks, check{Name: "memory", OK: true, Detail: fmt.Sprintf("%s, %s free without caches",
			humanize.IBytes(info.Totalram*unit), humanize.IBytes(info.Freeram*unit))})
	}
	return append(checks, coresCheck(), libffiCheck(), memlockCheck(), landlockCheck())
}

// coresCheck tells cores from hardware threads: two threads of one core compute
// hardly more than one.
func coresCheck() check {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return check{Name: "cores", Detail: err.Error()}
	}
	threads := runtime.NumCPU()
	cores := countCores(string(text), threads)
	c := check{Name: "cores", OK: true, Detail: fmt.Sprintf("%d cores with %d hardware threads", cores, threads)}
	if cores < threads {
		c.Detail += fmt.Sprintf("; try threads = %d for a slot", cores)
	}
	return c
}

// countCores counts the different cores that /proc/cpuinfo lists. Where it does
// not name them, as on many machines that are not x86, every thread is one.
func countCores(cpuinfo string, threads int) int {
	seen := map[string]bool{}
	socket := ""
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "physical id":
			socket = strings.TrimSpace(value)
		case "core id":
			seen[socket+"/"+strings.TrimSpace(value)] = true
		}
	}
	if len(seen) == 0 {
		return threads
	}
	return min(len(seen), threads)
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
	case unix.Geteuid() == 0:
		c.OK, c.Detail = true, fmt.Sprintf("limit %s, which root may exceed", humanize.IBytes(limit.Cur))
	default:
		c.Detail = fmt.Sprintf("limit %s: larger host buffers are not locked; raise it with ulimit -l", humanize.IBytes(limit.Cur))
	}
	return c
}

// landlockCheck says what confines workers and proxies; all of it is optional.
func landlockCheck() check {
	abi, err := sandbox.Landlock()
	if err != nil {
		return check{Name: "landlock", Detail: "workers and proxies are not confined to their files: " + err.Error()}
	}
	c := check{Name: "landlock", OK: true, Detail: fmt.Sprintf("ABI %d confines workers and proxies to their files", abi)}
	if abi < 4 {
		c.Detail += ", not from TCP, which needs ABI 4"
	}
	return c
}
