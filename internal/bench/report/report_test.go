package report

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/internal/bench"
)

const hostile = `<script>alert("&")</script>`

// document has something of everything, with names that would break a page.
func document() bench.Document {
	run := func(name string, ms float64) bench.Run {
		return bench.Run{Case: name, FirstChunkMS: ms, FullResponseMS: 3 * ms, PhaseMS: map[string]float64{
			"route": 0.01, "queue": 0.1, "slot_activation": ms / 2, "prefill": ms / 4, "other": ms / 8,
		}}
	}
	d := bench.Document{
		Benchmark:   bench.Name,
		Environment: &bench.Environment{CPU: hostile, Engine: "llama.cpp"},
		Settings:    &bench.Settings{Model: hostile, Runs: 3},
		Runs:        []bench.Run{run("cold", 600), run("cold", 700), run("resident", 2), run("resident", 3)},
		Loads: []bench.Load{
			{Case: "clients_8", Mode: bench.Closed, Requests: 64, TokensPerSecond: 900, FirstChunkMS: bench.Percentiles{Min: 1, Median: 5, P90: 8, P95: 9, P99: 12, Max: 14}},
			{Case: "open", Mode: bench.Open, RatePerSecond: 30, Requests: 64},
		},
		Curves: []bench.Curve{{Case: "slots_route", X: "declared slots", Unit: "ms", Points: []bench.Point{{X: 1, Value: bench.Spread{Median: 0.01}}, {X: 1000, Value: bench.Spread{Median: 0.012, P95: 0.1}}}}},
		Peers:  []bench.PeerInfo{{URL: "http://127.0.0.1:1", Kind: bench.LlamaRouter, Model: hostile, NotComparable: []string{"engine: " + hostile}}},
		Comparisons: []bench.Comparison{
			bench.Compare("http://127.0.0.1:1", "hit", bench.FirstChunk, []bench.Pair{{Ours: 1, Theirs: 2}, {Ours: 2, Theirs: 3}}),
			{Peer: "http://127.0.0.1:1", Case: "switch", NotComparable: hostile},
		},
	}
	d.Summary = bench.Summarise(d.Runs)
	return d
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	want := document()
	if err := Write(dir, want); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var back bench.Document
	if err := json.Unmarshal(read(JSONFile), &back); err != nil || len(back.Runs) != len(want.Runs) || back.Comparisons[0].Ratio != want.Comparisons[0].Ratio {
		t.Errorf("the JSON document came back as %+v: %v", back, err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(read(CSVFile)))).ReadAll()
	// Two cases with eleven measures, two loads with three, a curve of two points, a
	// comparison of three lines, and the head.
	if err != nil || len(rows) != 1+2*11+2*3+2+3 {
		t.Errorf("%d rows: %v", len(rows), err)
	}
	page := string(read(PageFile))
	if strings.Contains(page, "<script") || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("a name is taken for markup")
	}
	for _, outside := range []string{"src=", "href=", "@import", "url("} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has a %s: it has to work without a network", outside)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(pictures) < 8 || strings.Count(page, "<figure>") != len(pictures) {
		t.Errorf("%d pictures, %d on the page: %v", len(pictures), strings.Count(page, "<figure>"), err)
	}
	wellFormed(t, PageFile, page)
	for _, p := range pictures {
		wellFormed(t, p, string(read(filepath.Base(p))))
	}
}

// wellFormed reads a text as XML, which is stricter than browsers are.
func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	elements := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s is not well formed: %v", filepath.Base(name), err)
			return
		}
		if _, ok := token.(xml.StartElement); ok {
			elements++
		}
	}
	if elements == 0 {
		t.Errorf("%s has no elements", name)
	}
}

// A document of one run, or of nothing, has a page too.
func TestSmallDocuments(t *testing.T) {
	for _, d := range []bench.Document{{Benchmark: bench.Name}, {Benchmark: bench.Name, Curves: []bench.Curve{{Case: "empty"}}, Loads: []bench.Load{{Case: "none"}}}, func() bench.Document {
		d := bench.Document{Runs: document().Runs[:1]}
		d.Summary = bench.Summarise(d.Runs)
		return d
	}()} {
		page, _, err := render(d)
		if err != nil {
			t.Errorf("%+v: %v", d, err)
			continue
		}
		wellFormed(t, PageFile, string(page))
	}
}

func TestWriteWhereNobodyMay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, document()); err == nil || !strings.Contains(err.Error(), "cannot make the folder") {
		t.Errorf("a file in the way: %v", err)
	}
}
