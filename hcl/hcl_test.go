package hcl

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func TestEnvironmentIsNeverPrinted(t *testing.T) {
	const secret = "correct-horse-battery"
	for _, text := range []string{
		`slot "s" { threads = env("SECRET") }
		 model "m" { path = "x" }`,
		`locals { a = env("SECRET") }
		 model "m" { path = local.a + 1 }`,
		`locals { a = { b = env("SECRET") } }
		 model "m" { path = local.a.c }`,
		`locals { a = env("SECRET") }
		 model "m" { path = [local.a] }
		 slot "s" { model = local.a }`,
	} {
		cfg, out := parseText(text, map[string]string{"SECRET": secret})
		if cfg != nil || out == "" {
			t.Errorf("accepted: %s", text)
		}
		if strings.Contains(out, secret) {
			t.Errorf("the value of the environment variable is printed:\n%s", out)
		}
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

func TestCheckModels(t *testing.T) {
	cfg, out := parseText(`model "a" { path = "a" }
model "b" { path = "b" }
slot "a" {
  model = model.a
  context { tokens = 4096 }
}
slot "b" { model = model.b }`, nil)
	if cfg == nil {
		t.Fatal(out)
	}
	diags := cfg.CheckModels(func(path string) (int, error) {
		if path == "base/b" {
			return 0, fmt.Errorf("no such file")
		}
		return 2048, nil
	})
	if len(diags) != 2 || diags[0].Subject.Start.Line != 5 || diags[1].Subject.Start.Line != 7 {
		t.Errorf("got %v", diags)
	}
}

// TestBadFiles compares the diagnostics of every bad file with its golden.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("../testdata/hcl/bad/*.hcl")
	if err != nil || len(files) < 20 {
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

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../testdata/hcl/*.hcl", "../testdata/hcl/bad/*.hcl"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, diags := Parse(Source{Name: "fuzz.hcl", Base: ".", Text: text})
		if (cfg == nil) != diags.HasErrors() {
			t.Errorf("configuration %v with diagnostics %v", cfg, diags)
		}
		if err := WriteDiagnostics(&bytes.Buffer{}, diags, true); err != nil {
			t.Error(err)
		}
		if cfg != nil && len(cfg.Slots) == 0 {
			t.Error("a configuration without slots was accepted")
		}
	})
}
