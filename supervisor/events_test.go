package supervisor

import (
	"bufio"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// lockedText is written to by many.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestEveryChangeIsOneEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := &lockedText{}
		cfg := budgeted()
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: out, JSONFormat: true, Level: hclog.Trace})
		for i := range cfg.Slots {
			cfg.Slots[i].PagesSalt = "secret-salt"
		}
		r := newRig(t, cfg, nil)
		for _, id := range []string{"a", "b", "c"} {
			r.mustAsk(id, func(req *shared.GenerateRequest) { req.Prompt = "secret-prompt" })
		}
		r.launcher.process("c").worker.crash()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.end()

		seen := map[string]int{}
		lines := bufio.NewScanner(strings.NewReader(out.String()))
		for lines.Scan() {
			var doc map[string]any
			if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"slot", "cause", "identity"} {
				if _, ok := doc[key].(string); !ok {
					t.Errorf("no %s in %s", key, lines.Text())
				}
			}
			to, _ := doc["to"].(string)
			seen[doc["@message"].(string)+" "+to+" by "+doc["cause"].(string)]++
		}
		for _, want := range []string{
			"slot changed resident by activated", "slot changed evicting by reclaim", "process changed backoff by exited",
			"process changed starting by room", "slot needs room  by acquire", "slot's room changed  by room", "slot failed  by exited",
		} {
			if seen[want] == 0 {
				t.Errorf("no event %q among %v", want, seen)
			}
		}
		if strings.Contains(out.String(), "secret") {
			t.Error("a secret was logged")
		}
	})
}
