package bench

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// machine is the processor's name, the memory and the load of the last minute.
// What the system does not tell stays empty.
func machine() (cpu string, memoryMB int64, load string) {
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kb); err == nil {
			memoryMB = kb >> 10
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(text), " ")
	}
	return cpu, memoryMB, load
}

var variantName = regexp.MustCompile(`libggml-cpu-([a-z0-9_]+)\.so`)

// CPUVariant is the engine's build for this processor that a process, or one of
// its children, has loaded; empty when it cannot be seen.
func CPUVariant(pid int) string {
	for _, p := range append([]int{pid}, children(pid)...) {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p))
		if err != nil {
			continue
		}
		if found := variantName.FindSubmatch(maps); found != nil {
			return string(found[1])
		}
	}
	return ""
}

// Inspect adds what can be seen of a server's process on this machine.
func (i *PeerInfo) Inspect() {
	u, err := url.Parse(i.URL)
	if err != nil {
		return
	}
	pid := listener(u.Port())
	if pid == 0 {
		return
	}
	i.CPUVariant = CPUVariant(pid)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	for n, a := range args {
		if (a == "-t" || a == "--threads") && n+1 < len(args) {
			i.Threads = args[n+1]
		}
	}
}

// listener is the process that listens on a port of this machine, 0 for none
// that may be looked at.
func listener(port string) int {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	var socket string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			const listening = "0A"
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) {
				socket = "socket:[" + f[9] + "]"
			}
		}
	}
	if socket == "" {
		return 0
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == socket {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2]) // the pattern says so
			return pid
		}
	}
	return 0
}

// children are all processes below one.
func children(pid int) []int {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// The name in brackets may hold anything.
		after := text[bytes.LastIndexByte(text, ')')+1:]
		f := strings.Fields(string(after))
		child, _ := strconv.Atoi(strings.Split(name, "/")[2]) // the pattern says so
		if len(f) > 1 {
			parents[child], _ = strconv.Atoi(f[1])
		}
	}
	var below []int
	for p := range parents {
		for at := parents[p]; at > 1; at = parents[at] {
			if at == pid {
				below = append(below, p)
				break
			}
		}
	}
	slices.Sort(below)
	return below
}

// CPUTime is the processor time that a process has used, in seconds, 0 when it
// cannot be seen.
func CPUTime(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	const ticks = 100 // a second, on every Linux that Go runs on
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / ticks
}
