package supervisor

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/firstframe/firstframe/shared/regular"
)

const (
	tailLines    = 10      // lines kept from the end of the log
	tailLineMax  = 400     // bytes kept of one line
	tailScanMax  = 8 << 20 // bytes of the log that are looked at
	tailErrorFar = 50      // how far from the end an error still counts as the cause
)

// readLogTail gives what is most telling in a log from an offset on, and the
// signal that Go says it crashed by. A log that cannot be read tells nothing.
func readLogTail(path string, offset int64) (lines []string, signal string) {
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, ""
	}
	defer func() { _ = f.Close() }()
	if offset > info.Size() {
		offset = 0 // the log was emptied meanwhile
	}
	if _, err := f.Seek(max(offset, info.Size()-tailScanMax), io.SeekStart); err != nil {
		return nil, ""
	}
	return logTail(f)
}

// logTail picks the line that says most about the end of a process, followed by
// the last lines before any dump of goroutines: an aborting engine's last words
// stand before hundreds of lines that Go adds to them.
func logTail(r io.Reader) (lines []string, signal string) {
	var scan tailScan
	in := bufio.NewReaderSize(r, 4096)
	for {
		line, err := readClipped(in)
		if line != "" {
			scan.add(line)
		}
		if err != nil {
			return scan.result(), scan.signal
		}
	}
}

// readClipped reads a line and keeps its beginning.
func readClipped(in *bufio.Reader) (string, error) {
	var kept []byte
	for {
		part, err := in.ReadSlice('\n')
		if room := tailLineMax - len(kept); room > 0 {
			kept = append(kept, part[:min(room, len(part))]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(clip(string(kept), tailLineMax), " \t\r\n"), err
		}
	}
}

// clip cuts text to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// tailScan takes lines from first to last.
type tailScan struct {
	recent    []string // the last lines before a dump
	assertion string   // of native code
	crash     string   // what Go says of a panic
	signal    string   // that Go says it crashed by, such as SIGABRT
	inDump    bool
}

func (t *tailScan) add(line string) {
	if nativeAssertion(line) {
		t.assertion = line
	}
	if name := signalName(line); name != "" && t.signal == "" && (t.inDump || anySignal(line)) {
		t.signal = name
	}
	if !t.inDump && dumpBegins(line) {
		t.inDump = true
		t.crash = line
	}
	if t.inDump {
		return
	}
	if len(t.recent) == tailErrorFar {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	t.recent = append(t.recent, line)
}

func (t *tailScan) result() []string {
	tell := t.telling()
	if tell == "" {
		return nil
	}
	last := t.recent[max(0, len(t.recent)-tailLines):]
	return append([]string{tell}, slices.DeleteFunc(slices.Clone(last), func(l string) bool { return l == tell })...)
}

// telling is the line that says most.
func (t *tailScan) telling() string {
	if t.assertion != "" {
		return t.assertion
	}
	if t.crash != "" && !anySignal(t.crash) {
		return t.crash
	}
	for _, line := range slices.Backward(t.recent) {
		if errorLike(line) {
			return line
		}
	}
	if t.crash != "" {
		return t.crash
	}
	if len(t.recent) > 0 {
		return t.recent[len(t.recent)-1]
	}
	return ""
}

// nativeAssertion recognises "file.cpp:123: text" and the engine's own assertions.
func nativeAssertion(line string) bool {
	if strings.Contains(line, "GGML_ASSERT") {
		return true
	}
	for _, suffix := range []string{".c:", ".cc:", ".cpp:", ".cu:", ".h:", ".hpp:", ".m:"} {
		if _, after, ok := strings.Cut(line, suffix); ok {
			number, _, more := strings.Cut(after, ": ")
			if more && number != "" && strings.Trim(number, "0123456789") == "" {
				return true
			}
		}
	}
	return false
}

// dumpBegins recognises the first line of what Go prints when a process crashes.
func dumpBegins(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || anySignal(line) ||
		strings.HasPrefix(line, "goroutine ") && strings.Contains(line, " [")
}

// signalName finds the signal in "SIGABRT: abort" and "[signal SIGSEGV: …".
func signalName(line string) string {
	name, _, ok := strings.Cut(strings.TrimPrefix(line, "[signal "), ": ")
	if !ok || !strings.HasPrefix(name, "SIG") || strings.ToUpper(name) != name || strings.Contains(name, " ") {
		return ""
	}
	return name
}

// anySignal recognises a crash by a signal, which is named but not explained.
func anySignal(line string) bool {
	return strings.HasPrefix(line, "SIG") && signalName(line) != "" || strings.HasPrefix(line, "fatal error: unexpected signal")
}

func errorLike(line string) bool {
	lower := strings.ToLower(line)
	return strings.Contains(lower, "error") || strings.Contains(lower, "failed") || strings.Contains(lower, "cannot ")
}
