package supervisor

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each transcript is a story: lines with > are events, # are remarks, and what
// is indented is what the slot makes of an event. Only the indented lines are
// rewritten by -update.
func TestMachineTranscripts(t *testing.T) {
	files, err := filepath.Glob("../testdata/machine/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the slot behaves differently (-file +now):\n%s", diff)
			}
		})
	}
}

// testRules restarts so often within a minute, and finds a worker wedged after 20 s.
func testRules(attempts int) slotRules {
	return slotRules{
		restart:    shared.RestartPolicy{Attempts: attempts, Interval: time.Minute, Delay: time.Second, MaxDelay: time.Minute, Mode: shared.RestartDelay},
		wedgeAfter: 20 * time.Second,
		step:       10 * time.Second,
	}
}

// play runs the events of a transcript and writes it anew.
func play(t *testing.T, text string) string {
	var out strings.Builder
	s := newSlotState(testRules(2), false)
	s.rules.restart.Mode = shared.RestartFail
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		command, isEvent := strings.CutPrefix(line, "> ")
		switch {
		case strings.HasPrefix(line, " "):
			continue
		case isEvent && command == "preload":
			s.wanted = true
			fmt.Fprintln(&out, line)
		case isEvent && command == "budgeted":
			s.rules.budgeted = true
			fmt.Fprintln(&out, line)
		case isEvent && command == "idle-ttl":
			s.rules.idleTTL = time.Minute
			fmt.Fprintln(&out, line)
		case isEvent && command == "mode delay":
			s.rules.restart.Mode = shared.RestartDelay
			fmt.Fprintln(&out, line)
		case isEvent:
			before := s
			var actions []action
			s, actions = step(s, parseEvent(t, s, command))
			fmt.Fprintln(&out, line)
			if a, b := sketch(before), sketch(s); a != b {
				fmt.Fprintln(&out, "  "+b)
			}
			for _, a := range actions {
				fmt.Fprintln(&out, "    "+sketchAction(a))
			}
		default:
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}

// sketch is a state as a transcript shows it: what is not said is off or zero.
func sketch(s slotState) string {
	var b strings.Builder
	host := ""
	if s.host {
		host = "+host"
	}
	fmt.Fprintf(&b, "%s%s, process %s", s.status, host, s.process)
	for _, f := range []struct {
		name string
		on   bool
	}{
		{"wanted", s.wanted}, {"cancelling", s.cancelling}, {"stopping", s.stopping}, {"restart", s.restart},
		{"stuck", s.stuck}, {"drop-host", s.dropHost}, {"closing", s.closing}, {"finished", s.finished}, {"blocked", s.blocked != nil},
		{"resumes", s.resumes}, {"claims", s.claim == claimOpen}, {"gave its claim up", s.claim == claimGivenUp}, {"room", s.room},
	} {
		if f.on {
			b.WriteString(", " + f.name)
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{
		{"leases", s.leases}, {"orphans", s.orphans}, {"waiters", len(s.waiters)}, {"crashes", s.crashes},
	} {
		if f.n != 0 {
			fmt.Fprintf(&b, ", %d %s", f.n, f.name)
		}
	}
	if s.lastErr != nil {
		fmt.Fprintf(&b, ", error %q", s.lastErr.Text())
	}
	return b.String()
}

func sketchAction(a action) string {
	switch a := a.(type) {
	case actRefuse:
		return fmt.Sprintf("refuse %d: %s (%s)", a.call, a.err.Text(), a.err.Kind)
	case actCancelLeases:
		return fmt.Sprintf("cancel leases of process %d: %s", a.epoch, a.err.Text())
	case actFault:
		return "fault: " + a.text
	}
	name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", a), "supervisor.act"))
	return strings.TrimSuffix(fmt.Sprintf("%s %s", name, strings.Trim(fmt.Sprintf("%+v", a), "{}")), " ")
}

// parseEvent reads an event. Reports are about the present process unless the
// line ends in "of N".
func parseEvent(t *testing.T, s slotState, command string) event {
	words := strings.Fields(command)
	ep, now := s.epoch, time.Unix(1000, 0)
	for len(words) > 2 {
		key, value := words[len(words)-2], words[len(words)-1]
		switch key {
		case "of":
			ep = epoch(number(t, value))
		case "at":
			now = now.Add(time.Duration(number(t, value)) * time.Second)
		default:
			key = ""
		}
		if key == "" {
			break
		}
		words = words[:len(words)-2]
	}
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	call := func() callID { return callID(number(t, arg(1))) }
	failure := func() *shared.Error { return refusal(kindNamed(t, arg(1)), strings.Join(words[2:], " ")) }
	switch words[0] {
	case "declared":
		return evDeclared{}
	case "declared-bad":
		return evDeclared{err: failure()}
	case "redeclare":
		return evRedeclare{}
	case "acquire":
		return evAcquire{call: call(), onMiss: shared.OnMiss(arg(2))}
	case "release":
		return evRelease{epoch: ep, now: now}
	case "prepare":
		return evPrepare{call: call()}
	case "evict":
		return evEvict{call: call(), dropHost: arg(2) == "drop-host"}
	case "restart":
		return evRestart{call: call()}
	case "left":
		return evLeft{call: call()}
	case "launched":
		return evLaunched{epoch: ep, now: now}
	case "launch-failed":
		return evLaunchFailed{epoch: ep, now: now, err: failure()}
	case "exited":
		return evExited{epoch: ep, now: now, err: refusal(shared.KindWorkerLost, "signal killed")}
	case "stopped":
		return evStopped{epoch: ep}
	case "room":
		return evRoom{}
	case "no-room":
		return evNoRoom{err: refusal(shared.KindUnavailable, "host memory is short"), urgent: arg(1) == "urgent"}
	case "reclaim":
		return evReclaim{dropHost: arg(1) == "drop-host"}
	case "idle":
		return evIdle{now: now}
	case "beat":
		return evBeat{epoch: ep, now: now, progress: uint64(number(t, arg(1))), busy: arg(2) == "busy"}
	case "watch":
		return evWatch{now: now}
	case "cut-off":
		return evCutOff{epoch: ep, err: refusal(shared.KindUnavailable, "the socket is gone")}
	case "unreachable":
		return evUnreachable{epoch: ep}
	case "outdated":
		return evOutdated{epoch: ep}
	case "prefetched":
		return evPrefetched{epoch: ep}
	case "activated":
		return evActivated{epoch: ep, now: now}
	case "prepare-failed":
		return evPrepareFailed{epoch: ep, err: failure()}
	case "evicted":
		return evEvicted{epoch: ep, dropHost: arg(1) == "drop-host"}
	case "evict-failed":
		return evEvictFailed{epoch: ep, err: failure()}
	case "evict-deadline":
		return evEvictDeadline{}
	case "backoff-over":
		return evBackoffOver{}
	case "close":
		return evClose{}
	}
	t.Fatalf("no event is called %q", words[0])
	return nil
}

func number(t *testing.T, word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatalf("%q is no number", word)
	}
	return n
}

func kindNamed(t *testing.T, name string) shared.Kind {
	for k := shared.KindOther; ; k++ {
		if k.String() == name {
			return k
		}
		if k > 100 {
			t.Fatalf("no kind is called %q", name)
		}
	}
}
