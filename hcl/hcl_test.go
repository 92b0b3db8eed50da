package hcl

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func parseText(text string, env map[string]string) (*Config, string) {
	e := newEvaluator()
	e.lookup = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	cfg, diags := parse([]Source{{Name: "test.hcl", Base: "base", Text: []byte(text)}}, e)
	var out bytes.Buffer
	_ = WriteDiagnostics(&out, diags, false)
	return cfg, out.String()
}

func TestDemoFile(t *testing.T) {
	cfg, diags := Load("../testdata/hcl/demo.hcl")
	if err := Err(diags); err != nil {
		t.Fatal(err)
	}
	want := []shared.SlotSpec{{
		SlotID: "story", Model: "storyteller", ModelPath: "../testdata/models/storyteller-q8_0.gguf",
		DeclaredSHA256:    "89b019474aa81e5c299e0ed32d19d49460c3bf19d8aca446fadf19b8f4c730c8",
		DeclaredPrecision: "Q8_0", Device: "cpu", Threads: 1, Transfer: "auto", ContextTokens: 2048, Parallel: 4,
		PageTokens: 64, KVType: "f16", PrefillChunk: 512, Preload: true, OnMiss: "wait",
		PagesHost: 512 << 20, Reuse: shared.ReuseFast, Queue: 64, Deadline: 5 * time.Minute,
	}, {
		SlotID: "story-f16", Model: "storyteller", ModelPath: "../testdata/models/storyteller-f16.gguf",
		DeclaredSHA256:    "32e52065a5b1e29c0f6fea6b19618951d5e46aeeac08fbba2e7622ec93b32ac3",
		DeclaredPrecision: "F16", Device: "cpu", Threads: 1, Transfer: "pageable", ContextTokens: 2048, Parallel: 1,
		PageTokens: 64, KVType: "f16", PrefillChunk: 512, Preload: true, OnMiss: "wait",
		PagesHost: 512 << 20, Reuse: shared.ReuseFast, Queue: 64, Deadline: 5 * time.Minute,
	}}
	if diff := cmp.Diff(want, cfg.Slots); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"gpt-4o-mini": "story"}, cfg.Aliases); diff != "" {
		t.Error(diff)
	}
}

func TestPagesAndLimits(t *testing.T) {
	cfg, diags := parseText(`
		model "m" { path = "m.gguf" }
		slot "s" {
			model    = model.m
			queue    = 7
			deadline = "1m30s"
			pages {
				host  = "1.5GiB"
				disk  = "4GB"
				reuse = "exact"
				salt  = "tenant"
			}
		}
	`, nil)
	if cfg == nil {
		t.Fatal(diags)
	}
	s := cfg.Slots[0]
	if s.PagesHost != 3<<29 || s.PagesDisk != 4_000_000_000 || s.Reuse != shared.ReuseExact || s.PagesSalt != "tenant" || s.Queue != 7 || s.Deadline != 90*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestExpressions(t *testing.T) {
	cfg, diags := parseText(`
		locals {
			folder = "${local.root}/gguf"
			root   = env("MODELS", "models")
		}
		supervisor { state_dir = env("STATE") }
		model "m" {
			path   = "${local.folder}/m.gguf"
			sha256 = local.root == "" ? "" : "`+strings.Repeat("AB", 32)+`"
		}
		slot "s" {
			model   = model["m"]
			on_miss = "fail"
			preload = false
			threads = 3
		}
	`, map[string]string{"STATE": "state"})
	if cfg == nil {
		t.Fatal(diags)
	}
	s := cfg.Slots[0]
	if s.ModelPath != "base/models/gguf/m.gguf" || s.DeclaredSHA256 != strings.Repeat("ab", 32) || s.Preload ||
		s.Threads != 3 || s.OnMiss != shared.OnMissFail || cfg.StateDir != "base/state" || s.Model != "m" {
		t.Errorf("got %+v in %q", s, cfg.StateDir)
	}
}

func TestFolderIsOneConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1.hcl", `model "m" { path = "m.gguf" }`)
	write("2.hcl", `slot "s" { model = model.m }`)
	write("notes.txt", `not read`)
	write(".#2.hcl", `an editor's`)
	cfg, diags := Load(dir)
	if err := Err(diags); err != nil || len(cfg.Slots) != 1 {
		t.Fatalf("got %v, %v", cfg, err)
	}
	write("3.hcl", `slot "s" { model = model.m }`)
	_, diags = Load(dir)
	if err := Err(diags); err == nil || !strings.Contains(err.Error(), "3.hcl:1") || !strings.Contains(err.Error(), "2.hcl:1") {
		t.Errorf("the error does not name both places: %v", err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop.hcl")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "big.hcl")
	if err := os.WriteFile(big, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.hcl"): "no such file",
		loop:                           "too many levels",
		big:                            "larger than",
		t.TempDir():                    "none of its 0 entries",
		"/dev/null":                    "not a regular file",
	} {
		_, diags := Load(path)
		if err := Err(diags); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// TestNoValuesTravel is for writers of diagnostics other than ours, which print
// the variables of an expression that failed.
func TestNoValuesTravel(t *testing.T) {
	e := newEvaluator()
	e.lookup = func(string) (string, bool) { return "correct-horse-battery", true }
	_, diags := parse([]Source{{Name: "test.hcl", Text: []byte(`locals { a = env("SECRET") }
		model "m" { path = !local.a }`)}}, e)
	if len(diags) == 0 {
		t.Fatal("accepted")
	}
	for _, d := range diags {
		if d.Expression != nil || d.EvalContext != nil {
			t.Errorf("%v carries the values of variables", d)
		}
	}
}

func TestColor(t *testing.T) {
	_, diags := Parse(Source{Name: "test.hcl", Text: []byte("wrong = 1")})
	var out bytes.Buffer
	if err := WriteDiagnostics(&out, diags, true); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[31m^^^^^\x1b[0m"; !strings.Contains(out.String(), want) {
		t.Errorf("the mark is not red: %q", &out)
	}
}

func TestMarksStandBelow(t *testing.T) {
	for _, source := range []string{
		"\tkey = 1", "\u00e9 = { key = 1 }", "e\u0301 = { key = 1 }", strings.Repeat("x", 500) + "key",
		"key" + strings.Repeat("x", 500), "first\nkey\r\nlast",
	} {
		at := strings.Index(source, "key")
		line, mark := snippet([]byte(source), hcl.Range{Start: hcl.Pos{Byte: at}, End: hcl.Pos{Byte: at + 3}})
		before, after, _ := strings.Cut(line, "key")
		letters := strings.ReplaceAll(before, "\u0301", "")
		if len([]rune(letters))+3 != len([]rune(mark)) || !strings.HasSuffix(mark, "^^^") || len(after) > 200 {
			t.Errorf("%q:\n%s\n%s", source, line, mark)
		}
		if strings.Contains(line, "\r") || strings.Count(before, "\t") != strings.Count(mark, "\t") {
			t.Errorf("%q:\n%s\n%s", source, line, mark)
		}
	}
}

func TestArithmetic(t *testing.T) {
	cfg, out := parseText(`locals {
		half = -(-8) / 2
		text = "8"
	}
	model "m" { path = "m${local.half - 1}" }
	slot "s" {
		model   = model.m
		threads = (local.half + 2) % 4
		context { parallel = local.half * 2 > 7 ? local.text : 1 }
	}`, nil)
	if cfg == nil || cfg.Slots[0].ModelPath != "base/m3" || cfg.Slots[0].Threads != 2 || cfg.Slots[0].Parallel != 8 {
		t.Errorf("got %+v\n%s", cfg, out)
	}
	if cfg, _ := parseText(`locals {
		text = "8"
		sum  = local.text + 1
	}
	model "m" { path = "m" }
	slot "s" { model = model.m }`, nil); cfg != nil {
		t.Error("text was added up")
	}
}

// TestDocumentedExamples keeps the examples of the documentation right.
func TestDocumentedExamples(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```hcl\n")[1:]
	for _, example := range examples {
		code, _, _ := strings.Cut(example, "```")
		if cfg, out := parseText(code, nil); cfg == nil {
			t.Errorf("%s\n%s", code, out)
		}
	}
	if len(examples) == 0 {
		t.Error("there are none")
	}
}

func TestLocalsByIndex(t *testing.T) {
	cfg, out := parseText(`locals {
		a = local["z"]
		z = "m"
	}
	model "m" { path = local.a }
	slot "s" { model = model.m }`, nil)
	if cfg == nil || cfg.Slots[0].ModelPath != "base/m" {
		t.Error(out)
	}
}

// TestBadFiles compares the diagnostics of every bad file with its golden.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("../testdata/hcl/bad/*.hcl")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, diags := Load(file)
			if cfg != nil || !diags.HasErrors() {
				t.Fatal("the file was accepted")
			}
			var out bytes.Buffer
			if err := WriteDiagnostics(&out, diags, false); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".hcl") + ".txt"
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReference compares the documented keys with the schema.
func TestReference(t *testing.T) {
	var want bytes.Buffer
	var walk func(b Block, path string)
	walk = func(b Block, path string) {
		for _, k := range b.Keys {
			def := k.Default
			if k.Required {
				def = "required"
			}
			now := "yes"
			if k.Later {
				now = "not yet"
			}
			fmt.Fprintf(&want, "| `%s%s` | %s | %s | %s | %s |\n", path, k.Name, k.Type, def, now, k.Meaning)
		}
		for _, inner := range b.Blocks {
			walk(inner, path+inner.Name+".")
		}
	}
	walk(Schema(), "")
	const doc, begin, end = "../docs/configuration.md", "<!-- reference -->\n", "<!-- end of reference -->"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("the marks of the reference table are gone")
	}
	table := "| key | type | default | supported | meaning |\n|---|---|---|---|---|\n" + want.String()
	full := before + begin + table + end + after
	if *update {
		if err := os.WriteFile(doc, []byte(full), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(full, string(text)); diff != "" {
		t.Errorf("docs/configuration.md differs from the schema; run go test ./hcl -update\n%s", diff)
	}
}

func TestReplicasAndBudgets(t *testing.T) {
	cfg, diags := Parse(Source{Name: "x.hcl", Text: []byte(`
supervisor {
  min_residency = "0s"
  budget {
    host = "2GiB"
    device "cpu" { memory = "1GiB" }
  }
}
model "m" { path = "/m.gguf" }
slot "one" {
  model    = model.m
  pin      = true
  idle_ttl = "30m"
}
slot "many" {
  model    = model.m
  replicas = 2
  restart { mode = "fail" }
}
alias "gpt" { slot = slot.many }
alias "one-more" { slot = slot.one }
`)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var ids []string
	for _, s := range cfg.Slots {
		ids = append(ids, s.SlotID+" of "+s.ReplicaOf)
	}
	if !slices.Equal(ids, []string{"one of ", "many/0 of many", "many/1 of many"}) {
		t.Errorf("the slots are %q", ids)
	}
	if one := cfg.Slots[0]; !one.Pin || one.IdleTTL != 30*time.Minute || one.Restart != (shared.RestartPolicy{}) {
		t.Errorf("the slot is %+v", one)
	}
	if p := cfg.Slots[2].Restart; p.Mode != shared.RestartFail || p.Attempts != 3 {
		t.Errorf("the restarts are %+v", p)
	}
	if cfg.Aliases["gpt"] != "many/0" || cfg.Aliases["one-more"] != "one" {
		t.Errorf("the aliases are %v", cfg.Aliases)
	}
	want := map[string]int64{shared.HostDevice: 2 << 30, "cpu": 1 << 30}
	if !maps.Equal(cfg.Life.Budgets, want) || cfg.Life.MinResidency != 0 || cfg.Life.WedgeAfter != 20*time.Second {
		t.Errorf("life is %+v", cfg.Life)
	}
}
