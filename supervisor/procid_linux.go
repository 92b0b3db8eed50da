package supervisor

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// maxSocketPath is how long the path of a Unix socket can be.
const maxSocketPath = 107

var errProcStat = errors.New("the process status has an unknown form")

// processStart tells when a process was started, in a form that is unique over
// reboots too, and whether it has ended and only waits for its parent.
func processStart(pid int) (start string, dead bool, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false, err
	}
	state, ticks, err := parseProcStat(string(text))
	if err != nil {
		return "", false, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false, err
	}
	dead = state == "Z" || state == "X"
	return strings.TrimSpace(string(boot)) + "/" + ticks, dead, nil
}

// parseProcStat reads the fields 3 and 22. Field 2 is the program's name in
// parentheses, and may itself contain spaces and parentheses.
func parseProcStat(text string) (state, ticks string, err error) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return "", "", errProcStat
	}
	fields := strings.Fields(text[end+1:])
	const stateField, startField = 0, 22 - 3
	if len(fields) <= startField {
		return "", "", errProcStat
	}
	if _, err := strconv.ParseUint(fields[startField], 10, 64); err != nil {
		return "", "", errProcStat
	}
	return fields[stateField], fields[startField], nil
}

// residentBytes is the memory of a process that is in RAM now, 0 when that is
// not known.
func residentBytes(pid int) int64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
