package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/supervisor"
)

// gpuSlots is a configuration with a slot on the CPU and slots on GPUs that this
// machine does not have.
func gpuSlots(t testing.TB, worker string, devices int) string {
	t.Helper()
	var b strings.Builder
	if worker != "" {
		fmt.Fprintf(&b, "supervisor { cuda_worker = %q }\n", worker)
	}
	fmt.Fprintf(&b, "frontend \"http\" { listen = \"127.0.0.1:0\" }\nmodel \"m\" { path = %q }\n", model(t, "storyteller-q8_0.gguf"))
	b.WriteString("slot \"cpu\" {\n  model = model.m\n  threads = 1\n  context { tokens = 512 }\n}\n")
	for i := range devices {
		fmt.Fprintf(&b, "slot \"gpu%d\" {\n  model = model.m\n  device = \"cuda:%d\"\n  context { tokens = 512 }\n}\n", i, i)
	}
	return b.String()
}

// complete asks over HTTP.
func (s *server) complete(slot string) (int, string) {
	s.t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"model": %q, "prompt": "Once", "max_tokens": 2}`, slot))
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url()+"/v1/completions", body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := browser().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// onlyError wants that a slot has this one error wherever one looks, and that
// nothing is tried again and again because of it.
func (s *server) onlyError(slot, want string) {
	s.t.Helper()
	if doc := s.slots()[slot]; !strings.Contains(doc.LastError, want) || doc.Status != "empty" || doc.Process != "stopped" || doc.Restarts != 0 || doc.RetryAfterMS != 0 {
		s.t.Errorf("slots --json: %+v", doc)
	}
	table := s.run("slots").stdout
	if strings.Count(table, "\n"+slot+": ") != 1 || !strings.Contains(table, want) {
		s.t.Errorf("slots:\n%s", table)
	}
	if a := s.ask(slot); a.Error == nil || a.Error.Kind != "unavailable" || a.Error.Field != "device" || !strings.Contains(a.Error.Message, want) {
		s.t.Errorf("generate: %+v", a)
	}
	if status, text := s.complete(slot); status != http.StatusServiceUnavailable || !strings.Contains(text, want) {
		s.t.Errorf("HTTP %d: %s", status, text)
	}
}

// TestGPUWithoutAWorker: a slot on a GPU says how to get the program for it, and
// the others serve.
func TestGPUWithoutAWorker(t *testing.T) {
	s := serve(t, gpuSlots(t, "", 1))
	s.onlyError("gpu0", supervisor.CUDAWorkerName+" is neither beside it nor in PATH; build it with `task cuda:build`")
	s.served("cpu")
	if status, text := s.complete("cpu"); status != http.StatusOK {
		t.Errorf("HTTP %d: %s", status, text)
	}
	// A restart looks again, once.
	if out := s.run("restart", "gpu0"); out.code == 0 || !strings.Contains(out.stderr, "task cuda:build") {
		t.Errorf("restart: %+v", out)
	}
	if doc := s.slots()["gpu0"]; doc.Process != "failed" || doc.Restarts != 0 || doc.RetryAfterMS != 0 {
		t.Errorf("after the restart: %+v", doc)
	}
}

// TestGPUWorkerThatCannotStart has programs in the worker's place that end as it
// does without a driver and without a device, and the worker without CUDA.
func TestGPUWorkerThatCannotStart(t *testing.T) {
	worker := filepath.Join(t.TempDir(), "worker")
	script := fmt.Sprintf(`#!/bin/sh
case "$1" in
--describe=cuda:0)
	echo 'Error in initialization, please refer to "https://docs.nvidia.com/cuda/" for details on: NoDevice'
	exit 1 ;;
--describe=cuda:1)
	echo "$0: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory" >&2
	exit 127 ;;
esac
exec %q slotworker "$@"
`, program.path)
	if err := os.WriteFile(worker, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s := serve(t, gpuSlots(t, worker, 3))
	s.onlyError("gpu0", "the driver sees no GPU")
	s.onlyError("gpu1", "there is no NVIDIA driver on this machine")
	s.onlyError("gpu2", "this worker was built without CUDA and cannot use cuda:2")
	s.served("cpu")
}
