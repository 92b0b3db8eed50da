package llamacpp

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/utils"
)

// logTap reads the library's log while something is loaded or built, for two
// things that no function tells: why it failed, and how much memory it took. It
// passes lines on to standard error without the debug ones, of which there are
// hundreds. Decoding logs nothing, so the tap costs nothing there.
type logTap struct {
	callback uintptr

	mu       sync.Mutex
	level    llama.LogLevel
	text     strings.Builder
	problems strings.Builder
}

// newLogTap makes the one callback of a process: callbacks are never freed.
func newLogTap() *logTap {
	t := &logTap{}
	t.callback = purego.NewCallback(func(level int32, text *byte, _ uintptr) uintptr {
		t.line(llama.LogLevel(level), utils.BytePtrToString(text))
		return 0
	})
	return t
}

func (t *logTap) line(level llama.LogLevel, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if level != llama.LogLevelContinue {
		t.level = level
	}
	if t.level == llama.LogLevelDebug {
		return
	}
	t.text.WriteString(text)
	if t.level == llama.LogLevelError || t.level == llama.LogLevelWarn {
		t.problems.WriteString(text)
	}
	// The log is a help; a full disk below it must not stop a load.
	_, _ = os.Stderr.WriteString(text)
}

// during runs f with the tap open and gives what was logged.
func (t *logTap) during(f func()) logged {
	t.mu.Lock()
	t.text.Reset()
	t.problems.Reset()
	t.mu.Unlock()
	llama.LogSet(t.callback)
	f()
	llama.LogSet(llama.LogNormal)
	t.mu.Lock()
	defer t.mu.Unlock()
	return logged{text: t.text.String(), problems: t.problems.String()}
}

// logged is what the library said during one call.
type logged struct {
	text     string
	problems string // warnings and errors only
}

// maxReason bounds how much of the library's log becomes an error message.
const maxReason = 400

// reason is the last problems in one line, without the names of C++ functions
// that they begin with.
func (l logged) reason() string {
	var parts []string
	for line := range strings.Lines(l.problems) {
		line = strings.TrimSpace(line)
		if function, rest, ok := strings.Cut(line, ": "); ok && !strings.Contains(function, " ") {
			line = rest
		}
		if line != "" && (len(parts) == 0 || parts[len(parts)-1] != line) {
			parts = append(parts, line)
		}
	}
	text := strings.Join(parts[max(0, len(parts)-3):], "; ")
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	if text == "" {
		return "the engine gave no reason"
	}
	return strings.ToValidUTF8(text, "?")
}

// outOfMemory says whether the library could not get the memory of a device or of
// the host that it asked for.
func (l logged) outOfMemory() bool {
	for _, words := range []string{"out of memory", "unable to allocate", "failed to allocate"} {
		if strings.Contains(l.problems, words) {
			return true
		}
	}
	return false
}

// buffers adds up the sizes of the buffers that the library reports having
// allocated and that are wanted by their place, such as "CUDA0", and kind, such as "KV".
func (l logged) buffers(wanted func(where, kind string) bool) int64 {
	size := regexp.MustCompile(`(\S+)\s+(\S+) buffer size =\s+([0-9.]+) MiB`)
	var sum float64
	for _, m := range size.FindAllStringSubmatch(l.text, -1) {
		// Weights that are read in place take none; what an adapter has of that kind
		// is allocated all the same.
		if !wanted(m[1], m[2]) || m[2] == "model" && strings.HasSuffix(m[1], "_Mapped") {
			continue
		}
		if mib, err := strconv.ParseFloat(m[3], 64); err == nil {
			sum += mib
		}
	}
	return int64(sum * (1 << 20))
}

// variant is the CPU backend that the library chose among those it found.
func (l logged) variant() string {
	file := regexp.MustCompile(`loaded CPU backend from .*libggml-cpu-?([^/]*?)\.(?:so|dylib)`)
	m := file.FindStringSubmatch(l.text)
	if m == nil {
		return "built-in"
	}
	if m[1] == "" {
		return "default"
	}
	return m[1]
}
