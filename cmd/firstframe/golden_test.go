package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file in testdata/cli, or rewrites the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "..", "testdata", "cli", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s has changed (-want +got); rewrite it with -update\n%s", name, diff)
	}
}

// ran is what one run of the program in this process gave.
type ran struct {
	code           int
	stdout, stderr string
}

// runIn runs the program with a supervisor that is made up, inside a bubble whose
// clock moves only when everybody waits.
func runIn(t *testing.T, f shared.Frontend, stdin string, args ...string) ran {
	t.Helper()
	var r ran
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		a := &app{out: &stdout, errOut: &stderr, in: strings.NewReader(stdin), frontend: f}
		r = ran{a.run(t.Context(), args), stdout.String(), stderr.String()}
	})
	return r
}

// nearest are the candidates of errors.
func nearest(f *fakeFrontend) []shared.Candidate {
	var out []shared.Candidate
	for _, s := range f.slots {
		out = append(out, shared.Candidate{SlotID: s.SlotID, Model: s.Model, Identity: s.Identity})
	}
	return out
}

func TestDocuments(t *testing.T) {
	tests := []struct {
		golden string
		args   []string
		set    func(*fakeFrontend)
		code   int
	}{
		{"slots.json", []string{"slots", "--json"}, func(f *fakeFrontend) {
			f.slots[1].Status, f.slots[1].Process, f.slots[1].PID = shared.SlotEmpty, shared.ProcessBackoff, 0
			f.slots[1].LastError, f.slots[1].LogTail = "the worker process ended (signal killed)", []string{"last words"}
			f.slots[0].Status, f.slots[0].Progress = shared.SlotPrefetching, shared.Progress{Stage: "read", DoneBytes: 5, TotalBytes: 10}
		}, exitOK},
		{"slots-gpu.json", []string{"slots", "--json"}, onGPU, exitOK},
		{"slots-none.json", []string{"slots", "--json"}, func(f *fakeFrontend) { f.slots = nil }, exitOK},
		{"generate.json", []string{"generate", "--slot", demoF16, "--json", "Hello!"}, nil, exitOK},
		{"generate-cold.json", []string{"generate", "--json", "Hello!"}, func(f *fakeFrontend) { f.cold[demoQ8] = detail(true) }, exitOK},
		{"generate.ndjson", []string{"generate", "--ndjson", "Hello!"}, nil, exitOK},
		{"generate-pending.json", []string{"generate", "--json", "--on-miss", "pending", "Hello!"}, func(f *fakeFrontend) {
			f.refuse = &shared.Error{Op: "generate", SlotID: demoQ8, Kind: shared.KindPending, RetryAfter: 1500 * time.Millisecond}
		}, exitNotResident},
		{"generate-pending.ndjson", []string{"generate", "--ndjson", "Hello!"}, func(f *fakeFrontend) {
			f.refuse = &shared.Error{Op: "generate", SlotID: demoQ8, Kind: shared.KindPending, RetryAfter: 1500 * time.Millisecond}
		}, exitNotResident},
		{"generate-not-found.json", []string{"generate", "--json", "--model", "storyteller", "--precision", "Q4_K_M", "Hello!"}, func(f *fakeFrontend) {
			f.refuse = &shared.Error{Op: "resolve", Kind: shared.KindNotFound, Field: "precision", Message: "no slot has precision Q4_K_M", Candidates: nearest(f)}
		}, exitNoMatch},
		{"generate-ambiguous.json", []string{"generate", "--json", "--model", "storyteller", "Hello!"}, func(f *fakeFrontend) {
			f.refuse = &shared.Error{Op: "resolve", Kind: shared.KindAmbiguous, Field: "precision", Message: "storyteller means 2 identities", Candidates: nearest(f)}
		}, exitNoMatch},
		{"generate-unavailable.json", []string{"generate", "--json", "Hello!"}, func(f *fakeFrontend) {
			f.refuse = &shared.Error{
				Op: "generate", SlotID: demoQ8, Kind: shared.KindUnavailable, Message: "the worker keeps ending",
				RetryAfter: 2 * time.Second, LogTail: []string{"GGML_ASSERT(false) failed"}, Err: errors.New("signal aborted"),
			}
		}, exitFailed},
		{"generate-lost.ndjson", []string{"generate", "--ndjson", "Hello!"}, func(f *fakeFrontend) {
			f.fail = &shared.Error{Op: "generate", SlotID: demoQ8, Kind: shared.KindWorkerLost, Message: "signal killed"}
		}, exitWorkerLost},
		{"prepare.json", []string{"prepare", "--json", demoQ8}, nil, exitOK},
		{"evict.json", []string{"evict", "--json", demoQ8}, nil, exitOK},
		{"evict-drop-host.json", []string{"evict", "--drop-host", "--json", demoQ8}, nil, exitOK},
		{"restart.json", []string{"restart", "--json", demoQ8}, nil, exitOK},
		{"restart-unknown.json", []string{"restart", "--json", "nobody"}, nil, exitNoMatch},
		{"usage.json", []string{"generate", "--json"}, nil, exitUsage},
		{"demo.json", []string{"demo", "--json"}, func(f *fakeFrontend) { f.cold[demoQ8], f.cold[demoF16] = detail(true), detail(true) }, exitOK},
		{"bench.json", []string{"bench", "--slot", demoQ8, "--runs", "2", "--cases", "cold,resident,hit,evicted"}, nil, exitOK},
		{"validate.json", []string{"validate", "--json", "-c", "../../testdata/hcl/demo.hcl"}, nil, exitOK},
		{"validate-bad.json", []string{"validate", "--json", "-c", "../../testdata/hcl/bad/cuda.hcl"}, nil, exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			f := newFake()
			if tt.set != nil {
				tt.set(f)
			}
			r := runIn(t, f, "", tt.args...)
			if r.code != tt.code {
				t.Errorf("exit code %d instead of %d; %s", r.code, tt.code, r.stderr)
			}
			golden(t, tt.golden, withoutMachine(r.stdout))
			wantJSON(t, r.stdout, strings.HasSuffix(tt.golden, ".ndjson"))
		})
	}
}

// withoutMachine empties what a document of bench says of this machine.
func withoutMachine(document string) string {
	return regexp.MustCompile(`(?s)"environment": \{.*?\n  \}`).ReplaceAllString(document, `"environment": {}`)
}

// wantJSON wants one document, or in a stream of events one a line.
func wantJSON(t *testing.T, text string, lines bool) {
	t.Helper()
	documents := []string{text}
	if lines {
		documents = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	for _, d := range documents {
		if !json.Valid([]byte(d)) {
			t.Errorf("not one JSON document: %q", d)
		}
	}
}

func TestPages(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("TERM", "xterm")
	cold := func(f *fakeFrontend) { f.cold[demoQ8], f.cold[demoF16] = detail(true), detail(true) }
	tests := []struct {
		golden string
		args   []string
		set    func(*fakeFrontend)
	}{
		{"slots.txt", []string{"slots"}, func(f *fakeFrontend) {
			f.slots[0].Status, f.slots[0].Progress = shared.SlotPrefetching, shared.Progress{Stage: "read"}
			f.slots[1].Pinned, f.slots[1].PinNote = false, "the limit of locked memory is 64 KiB"
			f.slots[1].Status, f.slots[1].LastError = shared.SlotEmpty, "the file has another digest"
		}},
		{"slots-gpu.txt", []string{"slots"}, onGPU},
		{"demo.txt", []string{"demo"}, cold},
		{"generate-phases.txt", []string{"generate", "--phases", "Hello!"}, cold},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			f := newFake()
			tt.set(f)
			r := runIn(t, f, "", tt.args...)
			if r.code != exitOK {
				t.Fatalf("exit code %d; %s", r.code, r.stderr)
			}
			page := r.stdout
			if r.stderr != "" {
				page += "--- standard error\n" + r.stderr
			}
			golden(t, tt.golden, page)
			for line := range strings.Lines(page) {
				if !strings.HasPrefix(tt.golden, "slots") && len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
					t.Errorf("wider than 80 columns: %q", line)
				}
			}
		})
	}
}

func TestWatch(t *testing.T) {
	f := newFake()
	later := newFake().slots
	later[0].InFlight = 3
	f.watched = []shared.SlotList{{Slots: f.slots}, {Slots: later}}
	ctx, interrupt := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	a := &app{out: &stdout, errOut: &stderr, frontend: f}
	done := make(chan int)
	go func() { done <- a.run(ctx, []string{"slots", "--watch", "--json"}) }()
	interrupt()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d after Ctrl-C: %s", code, stderr.String())
	}
	var seen []int
	for dec := json.NewDecoder(&stdout); dec.More(); {
		var doc slotsJSON
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, doc.Slots[0].InFlight)
	}
	if !cmp.Equal(seen, []int{0, 3}) {
		t.Errorf("saw %v in flight", seen)
	}
}

// onGPU has one slot on a GPU that serves and one whose worker is not there.
func onGPU(f *fakeFrontend) {
	a, b := &f.slots[0], &f.slots[1]
	a.Device, a.Transfer = "cuda:0", shared.TransferPinned
	a.DeviceInfo = shared.DeviceInfo{Name: "cuda:0", Model: "Some GPU", Capability: "9.0", UUID: "GPU-1", Driver: "12.4", Memory: 80 << 30}
	a.TransferReason = "pinned: page-locked memory copies at 24 GB/s and pageable memory copies at 6.0 GB/s"
	a.Probe = shared.TransferProbe{Points: []shared.ProbePoint{{Bytes: 1 << 20, Pageable: 6e9, Pinned: 24e9}}, PinBytesPerSecond: 4e9}
	b.Device, b.Status, b.Process, b.PID, b.HostBytes, b.DeviceBytes, b.Pinned = "cuda:1", shared.SlotEmpty, shared.ProcessStopped, 0, 0, 0, false
	b.LastError = "cuda:1 cannot be used: the driver sees no GPU"
}
