package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// TestKindCodes names the exit code of every kind, so that a new kind has to be
// given one on purpose.
func TestKindCodes(t *testing.T) {
	want := map[string]int{
		"other": 1, "invalid": 2, "not_found": 3, "ambiguous": 3, "not_resident": 4, "pending": 4,
		"identity": 1, "context_too_long": 1, "busy": 1, "deadline": 1, "cancelled": 1, "worker_lost": 5,
		"unavailable": 1, "engine": 1, "engine_missing": 6, "unsupported": 1, "config": 1, "protocol": 1,
		"model_file": 1, "shutting_down": 1,
	}
	for k := shared.Kind(0); !strings.HasPrefix(k.String(), "kind_"); k++ {
		code, ok := want[k.String()]
		if !ok {
			t.Errorf("kind %s has no exit code in this table", k)
			continue
		}
		delete(want, k.String())
		err := fmt.Errorf("cannot do it: %w", &shared.Error{Kind: k})
		if got := exitCode(t.Context(), err); got != code {
			t.Errorf("kind %s ends with %d instead of %d", k, got, code)
		}
		if got := exitCode(t.Context(), &silentError{err}); got != code {
			t.Errorf("kind %s, already reported, ends with %d instead of %d", k, got, code)
		}
	}
	for name := range want {
		t.Errorf("there is no kind %s", name)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := exitCode(ctx, &shared.Error{Kind: shared.KindCancelled}); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if code := exitCode(ctx, nil); code != exitOK {
		t.Errorf("exit code %d of a command that ended well", code)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, line := range []string{
		"", "nonsense", "slots extra", "slots --nonsense", "generate", "generate a b", "generate --top-k x a",
		"generate --slot a --model b c", "generate --json --ndjson a", "generate --raw --system s a",
		"generate --on-miss later a", "generate --max-tokens -1 a", "generate --deadline -1s a",
		"prepare", "evict a b", "restart", "serve", "validate", "engine", "engine nonsense", "engine path x",
		"bench --runs 0", "bench --slot a --model b", "demo x", "doctor x", "version x", "completion bash x",
	} {
		t.Run(line, func(t *testing.T) {
			r := runIn(t, newFake(), "", strings.Fields(line)...)
			if r.code != exitUsage {
				t.Errorf("exit code %d: %s", r.code, r.stderr)
			}
			// Whoever asks for a document gets one.
			if asked := strings.Contains(line, "--json"); asked != (r.stdout != "") || asked == (r.stderr != "") {
				t.Errorf("printed %q, and %q to standard error", r.stdout, r.stderr)
			}
		})
	}
}

func TestUnknownCommandNamesTheNearest(t *testing.T) {
	r := runIn(t, newFake(), "", "generat", "x")
	if !strings.Contains(r.stderr, "did you mean generate?") {
		t.Error(r.stderr)
	}
}

// TestErrorsInWords checks that people see what they can do about an error.
func TestErrorsInWords(t *testing.T) {
	f := newFake()
	f.refuse = &shared.Error{
		Op: "resolve", Kind: shared.KindNotFound, Field: "precision", Message: "no slot has precision Q4_K_M",
		Candidates: nearest(f), LogTail: []string{"last words"},
	}
	r := runIn(t, f, "", "generate", "--precision", "Q4_K_M", "Hello!")
	if r.code != exitNoMatch || r.stdout != "" {
		t.Errorf("exit code %d, printed %q", r.code, r.stdout)
	}
	for _, part := range []string{"precision Q4_K_M", demoQ8, demoF16, "Q8_0", "log: last words"} {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("%q is not in: %s", part, r.stderr)
		}
	}
}

// TestPartialAnswer checks that an error does not stand on the answer's last line.
func TestPartialAnswer(t *testing.T) {
	f := newFake()
	f.fail = &shared.Error{Kind: shared.KindWorkerLost, Message: "signal killed"}
	r := runIn(t, f, "", "generate", "Hello!")
	if r.code != exitWorkerLost || r.stdout != "Once\n" || !strings.Contains(r.stderr, "signal killed") {
		t.Errorf("%+v", r)
	}
}

func TestVersion(t *testing.T) {
	r := runIn(t, newFake(), "", "version", "--json")
	var doc versionJSON
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil || r.code != exitOK {
		t.Fatalf("exit code %d: %v", r.code, err)
	}
	if doc.Version == "" || !strings.Contains(doc.Engine, shared.EngineVersion) || doc.Go == "" || doc.OS == "" || doc.Arch == "" {
		t.Errorf("%+v", doc)
	}
}
