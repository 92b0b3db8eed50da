package hcl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

func TestNamesAreSafeForATerminal(t *testing.T) {
	_, diags := Load(filepath.Join(t.TempDir(), "\x1b[2J.hcl"))
	var out bytes.Buffer
	if err := WriteDiagnostics(&out, diags, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), `\x1b[2J.hcl`) {
		t.Errorf("got %q", &out)
	}
}

func TestManyErrorsAreCut(t *testing.T) {
	cfg, diags := Parse(Source{Name: "test.hcl", Text: []byte(strings.Repeat("slot \"s\" {}\n", 5000))})
	if cfg != nil || len(diags) != maxDiagnostics+1 || !strings.Contains(diags[maxDiagnostics].Detail, "the first") {
		t.Errorf("%d diagnostics", len(diags))
	}
}

// TestHostileFiles parses what, at the size that a file may have, overflowed the
// stack, which ends the process, or took hours. Each is refused for its own
// reason, so files far smaller show that it is.
func TestHostileFiles(t *testing.T) {
	const size = 1 << 14
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(strings.NewReplacer("THIS", fmt.Sprintf("k%05d", i), "NEXT", fmt.Sprintf("k%05d", i+1)).Replace(format))
		}
		return b.String()
	}
	fill := func(part string) string { return strings.Repeat(part, size/len(part)) }
	for name, c := range map[string]struct{ want, text string }{
		"not":               {"Too complex", "locals { a = " + fill("!") + "true }"},
		"minus":             {"Too complex", "locals { a = " + fill("-") + "1 }"},
		"plus":              {"Too complex", "locals { a = 1" + fill("+1") + " }"},
		"lines in brackets": {"Too complex", "locals { a = (1\n" + fill("+1\n") + ") }"},
		"condition":         {"Too complex", "locals { a = " + fill("true?1:") + "2 }"},
		"index":             {"Too complex", "locals { a = b" + fill("[0]") + " }"},
		"attribute":         {"Too complex", "locals { a = b" + fill(".a") + " }"},
		"splat":             {"Too complex", "locals { a = b" + fill("[*]") + " }"},
		"calls":             {"Too complex", "locals { a = " + fill("env(") + " }"},
		"namespaces":        {"Too complex", "locals { a = " + fill("a::") + "b() }"},
		"interpolations":    {"Too complex", "locals { a = " + fill(`"${`) + " }"},
		"template if":       {"Too complex", `locals { a = "` + fill("%{if true}") + `" }`},
		"template for":      {"Too complex", `locals { a = "` + fill("%{for a in []}") + `" }`},
		"heredoc":           {"Too complex", "locals {\n a = <<A\n" + fill("%{if true}\n") + "A\n}"},
		"open blocks":       {"Too complex", fill("a {\n")},
		"after brackets":    {"Too complex", "locals { a = " + strings.Repeat("(", 200) + "1" + strings.Repeat("+1+1)", 200) + " }"},
		"chain of locals":   {"Too complex", "locals {\n" + numbered("THIS=local.NEXT\n") + "}"},
		"digits":            {"Number too long", "locals { a = " + fill("1") + " }"},
		"exponent":          {"Value too large", "locals { a = 1e99999 }"},
		"endless exponent":  {"Value too large", "locals { a = 1e999999999 }"},
		"large list":        {"Value too large", "locals { a = [" + strings.Repeat("1,", 10000) + "] }"},
		"repeated list":     {"Value too large", "locals {\na=[" + strings.Repeat("1,", 1000) + "]\nb=[" + strings.Repeat("local.a,", 50) + "]\n}"},
		"squares":           {"Value too large", "locals {\na0=1e9\na1=local.a0*local.a0\na2=local.a1*local.a1\na3=local.a2*local.a2\na4=local.a3*local.a3\n}"},
		"unknown keys":      {"More errors", "slot \"s\" {\n" + numbered("THIS=1\n") + "}"},
		"empty slots":       {"More errors", numbered("slot \"THIS\" {}\n")},
		"wrong references":  {"More errors", numbered("slot \"THIS\" { model = model.NEXT }\n")},
		"unknown blocks":    {"More errors", numbered("THIS {}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, diags := Parse(Source{Name: "hostile.hcl", Text: []byte(c.text)})
			refused := func(d *hcl.Diagnostic) bool { return d.Summary == c.want }
			if cfg != nil || !slices.ContainsFunc(diags, refused) {
				t.Errorf("not refused as %q: %v", c.want, diags)
			}
		})
	}
}

// TestLargeFilesAreFine keeps the bounds away from what is legitimate.
func TestLargeFilesAreFine(t *testing.T) {
	var b strings.Builder
	b.WriteString("locals {\n  folder = \"models\"\n  list = [" + strings.Repeat("\"x\", ", 1000) + "]\n}\nmodel \"m\" { path = \"${local.folder}/m.gguf\" }\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "slot \"s%d\" {\n  model = model.m # shared\n  context { tokens = 4 * 1024 }\n}\n", i)
	}
	cfg, diags := Parse(Source{Name: "large.hcl", Text: []byte(b.String())})
	if err := Err(diags); err != nil || len(cfg.Slots) != 1000 || cfg.Slots[999].ContextTokens != 4096 {
		t.Fatal(err)
	}
}

func TestTooManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range maxFiles + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.hcl", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, diags := Load(dir); !strings.Contains(diags.Error(), "are not read") {
		t.Error(diags)
	}
}

func TestTextIsBoundedToo(t *testing.T) {
	_, diags := Parse(Source{Name: "test.hcl", Text: make([]byte, maxFileBytes+1)})
	if !strings.Contains(diags.Error(), "larger than") {
		t.Error(diags)
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
		const secret = "correct-horse-battery"
		e := newEvaluator()
		e.lookup = func(name string) (string, bool) { return secret, name != "NOT_SET" }
		cfg, diags := parse([]Source{{Name: "fuzz.hcl", Base: ".", Text: text}}, e)
		if (cfg == nil) != diags.HasErrors() {
			t.Errorf("configuration %v with diagnostics %v", cfg, diags)
		}
		var out bytes.Buffer
		if err := WriteDiagnostics(&out, diags, true); err != nil {
			t.Error(err)
		}
		if strings.Contains(out.String(), secret) {
			t.Errorf("the value of an environment variable is printed:\n%s", &out)
		}
		if !utf8.Valid(out.Bytes()) {
			t.Errorf("not text: %q", &out)
		}
		if cfg != nil && len(cfg.Slots) == 0 {
			t.Error("a configuration without slots was accepted")
		}
	})
}
