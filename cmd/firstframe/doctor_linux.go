package main

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"
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
	return append(checks, memlockCheck(), landlockCheck())
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

func landlockCheck() check {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return check{Name: "landlock", Detail: "this kernel does not offer it: " + errno.Error()}
	}
	return check{Name: "landlock", OK: true, Detail: fmt.Sprintf("ABI %d is offered; this version does not use it yet", abi)}
}
