package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared/sandbox"
)

var (
	httpAt    = regexp.MustCompile(`(?m)^http at (\S+)$`)
	httpStart = regexp.MustCompile(`frontend started: .*pid=(\d+)`)
)

// TestFrontendKeysStaySecret looks for the keys where other users could.
func TestFrontendKeysStaySecret(t *testing.T) {
	const key, admin = "key-of-users", "key-of-admins"
	t.Setenv("TEST_API_KEY", key)
	s := serve(t, web(t, fmt.Sprintf("api_keys = [env(\"TEST_API_KEY\")]\n admin_keys = [%q]", admin)))
	url, pid := s.url(), s.child(1)
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil || strings.Contains(string(text), "key-of") {
			t.Errorf("%s of the proxy: %v\n%s", file, err, text)
		}
	}
	if status, _ := get(t, url+"/v1/models", "Authorization", "Bearer "+key); status != 200 {
		t.Errorf("with the key: %d", status)
	}
	if status, _ := get(t, url+"/v1/models", "Authorization", "Bearer "+key+"x"); status != 401 {
		t.Errorf("with another key: %d", status)
	}
	s.printed("confined by") // by the proxy, whose output may come later than its answers
	if strings.Contains(s.out.String(), "key-of") {
		t.Errorf("a key was printed:\n%s", s.out)
	}
	// The proxy and the worker are confined as far as the kernel lets them.
	for _, process := range []int{pid, s.slots()["f16"].PID} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
		if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
			t.Errorf("process %d may gain privileges: %v", process, err)
		}
	}
	for who, file := range map[string]string{"the proxy": "", "the worker": filepath.Join(s.state, "logs", "f16.log")} {
		text := s.out.String()
		if file != "" {
			log, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(log)
		}
		landlocked := strings.Contains(text, "Landlock ABI")
		if _, err := sandbox.Landlock(); !strings.Contains(text, "confined by") || (err == nil) != landlocked {
			t.Errorf("%s does not say what confines it: %v\n%s", who, err, text)
		}
	}
	s.doctorSaysWhatHolds("f16")
	gone := watchEnd(t, pid)
	kill(t, s.cmd.Process.Pid, syscall.SIGKILL)
	if !gone(patience) {
		t.Error("the proxy outlives its supervisor")
	}
	s.waitEnd()
}

// doctorSaysWhatHolds wants doctor to report of confinement what the worker of a
// slot does, which includes what is not denied.
func (s *server) doctorSaysWhatHolds(slot string) {
	s.t.Helper()
	log, err := os.ReadFile(filepath.Join(s.state, "logs", slot+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	var doc struct {
		Checks []struct{ Name, Detail string }
	}
	out := s.run("doctor", "--json")
	if err := json.Unmarshal([]byte(out.stdout), &doc); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out.stdout, out.stderr)
	}
	for _, c := range doc.Checks {
		if c.Name == "confinement" {
			if says, ok := strings.CutPrefix(c.Detail, "workers are "); !ok || !strings.Contains(string(log), says) {
				s.t.Errorf("doctor says %q, the worker:\n%s", c.Detail, log)
			}
			return
		}
	}
	s.t.Errorf("doctor says nothing about confinement: %s", out.stdout)
}

// TestProxyCrash kills the proxy under load: slots keep their state, the proxy
// comes back on the same address, and one that attached from outside goes on.
func TestProxyCrash(t *testing.T) {
	s := serve(t, web(t, ""))
	url, outside := s.url(), s.proxy()
	before := s.slots()
	const streams = 8
	going := make(chan struct{}, streams)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	for i := range streams {
		load.Go(func() {
			resp, err := open(ctx, url, fmt.Sprint("A story about number ", i), 200)
			if err != nil {
				t.Error(err)
				going <- struct{}{}
				return
			}
			defer resp.Body.Close()
			r := bufio.NewReader(resp.Body)
			if _, err := r.ReadString('\n'); err != nil {
				t.Error(err)
			}
			going <- struct{}{}
			_, _ = io.Copy(io.Discard, r) // cut
		})
	}
	for range streams {
		<-going
	}
	kill(t, s.child(1), syscall.SIGKILL)
	load.Wait()
	resp, err := open(ctx, url, "Once more", 8)
	if err == nil {
		err = wholeStream(resp, 8)
	}
	if err != nil {
		t.Errorf("the proxy is not back: %v", err)
	}
	if resp, err = open(ctx, outside, "And outside", 8); err == nil {
		err = wholeStream(resp, 8)
	}
	if err != nil {
		t.Errorf("the proxy from outside: %v", err)
	}
	s.child(2)
	after := s.until("nothing runs", func(slots map[string]slotDoc) bool { return slots["f16"].InFlight == 0 })
	if after["f16"].PID != before["f16"].PID || after["f16"].Restarts != 0 || after["f16"].Status != "resident" {
		t.Errorf("the slot was %+v and is %+v", before["f16"], after["f16"])
	}
}

// TestProxyReconnects restarts the supervisor below a proxy from outside.
func TestProxyReconnects(t *testing.T) {
	s := serve(t, web(t, ""))
	outside := s.proxy()
	if status, body := get(t, outside+"/readyz"); status != 200 {
		t.Errorf("before: %d %s", status, body)
	}
	kill(t, s.cmd.Process.Pid, syscall.SIGKILL)
	s.waitEnd()
	if status, body := get(t, outside+"/v1/models"); status != 503 || !strings.Contains(body, `"unavailable"`) {
		t.Errorf("without a supervisor: %d %s", status, body)
	}
	again := serveIn(t, s.file, s.state)
	deadline := time.Now().Add(patience)
	for {
		status, body := get(t, outside+"/readyz")
		if status == 200 {
			break
		}
		if time.Now().After(deadline) || status != 503 {
			t.Fatalf("after: %d %s", status, body)
		}
	}
	resp, err := open(t.Context(), outside, "Hello again", 4)
	if err == nil {
		err = wholeStream(resp, 4)
	}
	if err != nil {
		t.Error(err)
	}
	again.served("f16")
}

// TestManyStreams has clients leave and dawdle among others who get all they asked for.
func TestManyStreams(t *testing.T) {
	const streams, tokens = 256, 8
	s := serve(t, web(t, ""))
	url := s.url()
	resp, err := open(t.Context(), url, "Hello", tokens)
	if err == nil {
		err = wholeStream(resp, tokens)
	}
	if err != nil {
		t.Fatal(err)
	}
	goroutines, fds := gauge(t, url, "go_goroutines"), gauge(t, url, "process_open_fds")

	order := rand.New(rand.NewPCG(1, 2)).Perm(streams)
	var honest, others sync.WaitGroup
	over := make(chan struct{}) // every honest client has its answer
	for i, kind := range order {
		prompt := fmt.Sprint("Tell me a story about ", i%16)
		switch {
		case kind < streams/10: // leaves, some before the first byte and some after
			others.Go(func() {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if kind%2 == 0 {
					ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }})
				}
				resp, err := open(ctx, url, prompt, 200)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				defer resp.Body.Close()
				_, _ = resp.Body.Read(make([]byte, 1)) // or not: this client leaves
			})
		case kind < streams/10+streams/20: // reads one byte a second
			others.Go(func() {
				resp, err := open(t.Context(), url, prompt, 200)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						_, _ = resp.Body.Read(make([]byte, 1))
					case <-over:
						return
					}
				}
			})
		default:
			honest.Go(func() {
				resp, err := open(t.Context(), url, prompt, tokens)
				if err == nil {
					err = wholeStream(resp, tokens)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	honest.Wait()
	close(over)
	others.Wait()
	s.until("nothing runs", func(slots map[string]slotDoc) bool { return slots["f16"].InFlight == 0 })
	deadline := time.Now().Add(patience)
	const idleStreams = 4 // connections to the supervisor that are kept for the next requests
	for {
		g, f := gauge(t, url, "go_goroutines"), gauge(t, url, "process_open_fds")
		if g <= goroutines && f <= fds+idleStreams && gauge(t, url, "firstframe_http_requests_running") == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %d goroutines and %d fds, at first %d and %d", g, f, goroutines, fds)
		}
	}
	if p := s.slots()["f16"]; p.Restarts != 0 {
		t.Errorf("the worker was restarted: %+v", p)
	}
}
