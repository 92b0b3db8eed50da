package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// ownServer is `firstframe serve` as people run it: a process of its own, with
// its proxy. It is what a comparison measures.
type ownServer struct {
	url   string
	pid   int
	ended func() error // nil while it runs, else how it ended
}

// withOwnServer runs with a server that ends afterwards.
func withOwnServer(ctx context.Context, dir string, slots []shared.SlotSpec, budget map[string]int64, run func(ownServer) error) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "serve.hcl")
	if err := os.WriteFile(config, []byte(serveConfig(filepath.Join(dir, "s"), slots, budget)), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "serve", "-c", config, "--log-level", "warn")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = demoDrain + closeMargin
	var log strings.Builder
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	lines := bufio.NewReader(stdout)
	url, ready := awaitURL(lines)
	gone := make(chan struct{})
	var result error
	go func() {
		_, _ = io.Copy(io.Discard, lines) // until it ends
		result = cmd.Wait()
		close(gone)
	}()
	ended := func() error {
		select {
		case <-gone:
			return fmt.Errorf("the server has ended: %w\n%s", errors.Join(result, errors.New("by itself")), log.String())
		default:
			return nil
		}
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt) // one that has ended needs none
		select {
		case <-gone:
		case <-time.After(cmd.WaitDelay):
			_ = cmd.Process.Kill() // its workers follow
			<-gone
		}
	}()
	if !ready {
		<-gone
		return ended()
	}
	return run(ownServer{url: url, pid: cmd.Process.Pid, ended: ended})
}

// awaitURL reads until the server says that it is ready.
func awaitURL(lines *bufio.Reader) (url string, ready bool) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", false
		}
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "http at "); ok {
			url = at
		}
		if strings.HasPrefix(line, "ready") {
			return url, true
		}
	}
}

// serveConfig is the configuration of the server.
func serveConfig(state string, slots []shared.SlotSpec, budget map[string]int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "supervisor {\n  state_dir = %q\n  drain_timeout = \"1s\"\n  min_residency = \"0s\"\n", state)
	if len(budget) > 0 {
		b.WriteString("  budget {\n")
		for device, bytes := range budget {
			fmt.Fprintf(&b, "    device %q { memory = \"%dB\" }\n", device, bytes)
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n\nfrontend \"http\" { listen = \"127.0.0.1:0\" }\n")
	for i, s := range slots {
		fmt.Fprintf(&b, "\nmodel \"m%d\" {\n  name = %q\n  path = %q\n}\n", i, s.Model, s.ModelPath)
		fmt.Fprintf(&b, "\nslot %q {\n  model = model.m%d\n  transfer = %q\n  threads = %d\n  preload = %v\n", s.SlotID, i, s.Transfer, s.Threads, i == 0)
		fmt.Fprintf(&b, "  context {\n    tokens = %d\n    parallel = %d\n    page = %d\n    prefill_chunk = %d\n  }\n", s.ContextTokens, s.Parallel, s.PageTokens, s.PrefillChunk)
		fmt.Fprintf(&b, "  pages { disk = \"%dB\" }\n}\n", s.PagesDisk)
	}
	return b.String()
}
