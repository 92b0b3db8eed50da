//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// spy keeps what the API answered, and every state that a slot's card has shown.
const spy = `
const asked = window.fetch;
window.fetch = async (...args) => {
  const response = await asked(...args);
  if (String(args[0]).includes("/v1/")) response.clone().text().then((text) => { window.apiText = text; });
  return response;
};
window.shown = [];
new MutationObserver(() => {
  for (const card of document.querySelectorAll("[data-slot]")) {
    const now = card.dataset.slot + " " + card.dataset.state;
    if (!window.shown.includes(now)) window.shown.push(now);
  }
}).observe(document, { childList: true, subtree: true, attributes: true });
`

// chrome opens a browser in which no script may fail.
func chrome(t *testing.T) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.WindowSize(1180, 900))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run as root otherwise
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %+v", ev.ExceptionDetails)
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.EntryLevelError {
				t.Errorf("the browser complains: %s (%s)", ev.Entry.Text, ev.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func do(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, step := range steps {
		value(t, ctx, i, step)
	}
}

// value is what a step gives; where names it in an error.
func value[T any](t *testing.T, ctx context.Context, where any, step chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(ctx, step)
	if err != nil {
		t.Fatalf("step %v: %v", where, err)
	}
	return v
}

func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	return value(t, ctx, expression, chromedp.Evaluate[T](expression))
}

func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	value(t, ctx, expression, chromedp.Poll[bool](expression))
}

// slot is the selector of a card in a state.
func slot(id, state string) chromedp.CSS {
	return chromedp.CSS(`[data-slot="` + id + `"][data-state="` + state + `"]`)
}

func TestPage(t *testing.T) {
	url := serve(t)
	ctx := chrome(t)
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: spy}); err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.Navigate(url+"/"), chromedp.WaitVisible(slot("story", "resident")), chromedp.WaitVisible(slot("story-f16", "resident")),
		chromedp.WaitVisible(slot("spare", "empty")), chromedp.WaitVisible(chromedp.CSS(`#link[data-link="live"]`)))

	// A prompt, by keyboard alone.
	do(t, ctx, chromedp.KeyEvent("/"), chromedp.WaitVisible(chromedp.CSS("#prompt:focus")))
	checkPrompt(t, ctx)

	// Admin actions.
	do(t, ctx, chromedp.Click(chromedp.CSS(`[data-slot="story-f16"] [data-op="evict"]`)), chromedp.WaitVisible(slot("story-f16", "empty")),
		chromedp.Click(chromedp.CSS(`[data-slot="story-f16"] [data-op="prepare"]`)), chromedp.WaitVisible(slot("story-f16", "resident")))

	// A worker that is killed shows as restarting, and comes back.
	about := value(t, ctx, "pid", chromedp.Text(chromedp.CSS(`[data-slot="story"] .sub`)))
	_, after, _ := strings.Cut(about, "pid ")
	pid, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatalf("%q: %v", about, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `window.shown.includes("story restarting")`)
	do(t, ctx, chromedp.WaitVisible(slot("story", "resident")))

	// Something to see: hits, a beginning that is known, and a slot that is cold.
	do(t, ctx, chromedp.Click(chromedp.CSS(`[data-slot="story-f16"] [data-op="evict"]`)), chromedp.WaitVisible(slot("story-f16", "empty")))
	asks := [][2]string{
		{"storyteller:F16", "Tell me a story about a bear."}, {"gpt-4o-mini", "Tell me a story about a cat who found a key."},
		{"gpt-4o-mini", "Tell me a story about a cat who found a boat."}, {"gpt-4o-mini", "Tell me a story about a cat who found a boat."},
	}
	for _, ask := range asks {
		evaluate[string](t, ctx, `window.apiText = ""`)
		do(t, ctx, chromedp.SetValue(chromedp.CSS("#model"), ask[0]), chromedp.SetValue(chromedp.CSS("#prompt"), ask[1]), chromedp.Click(chromedp.CSS("#send")))
		until(t, ctx, `window.apiText.includes("[DONE]")`)
		do(t, ctx, chromedp.WaitVisible(chromedp.CSS("#stop:disabled")))
	}
	until(t, ctx, `document.querySelectorAll(".request").length === 5`)
	for word, n := range map[string]int{"cold": 1, "miss": 3, "hit": 1} {
		until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll(".request .badge")].filter((b) => b.textContent.startsWith(%q)).length === %d`, word, n))
	}
	do(t, ctx, chromedp.Click(chromedp.CSS(".request:nth-child(4) summary")), chromedp.WaitVisible(chromedp.CSS(".request:nth-child(4)[open] .fall .part .lane")))
	for _, scheme := range []string{"light", "dark"} {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
			t.Fatal(err)
		}
		picture := value(t, ctx, "screenshot", chromedp.FullScreenshot(100))
		file := filepath.Join(t.ArtifactDir(), "page-"+scheme+".png")
		if err := os.WriteFile(file, picture, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Log("screenshot", file)
	}
}

// checkPrompt sends what stands in the prompt and compares the waterfall with
// what the API said.
func checkPrompt(t *testing.T, ctx context.Context) {
	t.Helper()
	do(t, ctx, chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl)),
		chromedp.WaitVisible(chromedp.CSS("#answer-fall [data-first] :last-child")))
	until(t, ctx, `(window.apiText ?? "").includes("[DONE]")`)
	answer := value(t, ctx, "answer", chromedp.Text(chromedp.CSS("#answer")))
	api := evaluate[string](t, ctx, `window.apiText`)
	first := evaluate[string](t, ctx, `document.querySelector("#answer-fall [data-first]").dataset.first`)
	rows := evaluate[[]struct{ Phase, MS, Text string }](t, ctx, `[...document.querySelectorAll("#answer-fall [data-phase]")].map((r) =>
		({ Phase: r.dataset.phase, MS: r.dataset.ms, Text: r.lastChild.textContent }))`)
	if !strings.Contains(answer, "fox") {
		t.Errorf("the answer is %q", answer)
	}
	var last struct {
		Timings struct {
			PhaseMS      map[string]float64 `json:"phase_ms"`
			FirstChunkMS float64            `json:"first_chunk_ms"`
		}
	}
	frames := strings.Split(strings.TrimSpace(api), "\n\n")
	if err := json.Unmarshal([]byte(strings.TrimPrefix(frames[len(frames)-2], "data: ")), &last); err != nil {
		t.Fatalf("%v: %s", err, api)
	}
	if shown, err := strconv.ParseFloat(first, 64); err != nil || shown != last.Timings.FirstChunkMS || shown <= 0 {
		t.Errorf("first chunk %q on the page, %v from the API", first, last.Timings.FirstChunkMS)
	}
	if len(rows) != 8 || len(last.Timings.PhaseMS) != 8 {
		t.Errorf("the page shows %d phases, the API %d", len(rows), len(last.Timings.PhaseMS))
	}
	for _, r := range rows {
		shown, err := strconv.ParseFloat(r.MS, 64)
		if want := last.Timings.PhaseMS[r.Phase]; err != nil || shown != want || !strings.HasPrefix(r.Text, strconv.FormatFloat(want, 'f', decimals(want), 64)) {
			t.Errorf("%s: the page shows %s (%q), the API says %v", r.Phase, r.MS, r.Text, want)
		}
	}
}

// decimals is how precisely the page writes milliseconds.
func decimals(ms float64) int {
	switch {
	case ms >= 100:
		return 0
	case ms >= 10:
		return 1
	default:
		return 2
	}
}
