// Package firstframe_test holds the rules that the tree as a whole keeps: which
// package may import which, and that each says in one place what it is for.
package firstframe_test

import (
	"bytes"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/firstframe/firstframe"

// source is one Go file.
type source struct {
	name    string
	test    bool
	made    bool // by a generator
	cuda    bool // built with the cuda tag only
	comment bool // carries a package comment
	imports []string
}

// load parses every package of the module, those in testdata too.
func load(t *testing.T) map[string][]source {
	t.Helper()
	pkgs := map[string][]source{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		src := source{
			name:    file,
			test:    strings.HasSuffix(file, "_test.go"),
			made:    ast.IsGenerated(parsed),
			cuda:    needsCUDA(parsed),
			comment: parsed.Doc != nil,
		}
		for _, spec := range parsed.Imports {
			src.imports = append(src.imports, strings.Trim(spec.Path.Value, `"`))
		}
		name := path.Join(module, filepath.ToSlash(filepath.Dir(file)))
		pkgs[name] = append(pkgs[name], src)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// needsCUDA reports whether a file is left out of every build without the tag.
func needsCUDA(parsed *ast.File) bool {
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			if c.Pos() > parsed.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err == nil && !expr.Eval(func(tag string) bool { return tag != "cuda" }) {
				return true
			}
		}
	}
	return false
}

// within reports whether an import path is a package or lies below it.
func within(name, parent string) bool { return name == parent || strings.HasPrefix(name, parent+"/") }

// reach follows the imports of programs, tests aside, inside the module. It
// gives each path that is reached with the chain of packages that leads to it.
func reach(pkgs map[string][]source, from string) map[string][]string {
	chains := map[string][]string{from: {from}}
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, src := range pkgs[at] {
			if src.test {
				continue
			}
			for _, next := range src.imports {
				if chains[next] == nil {
					chains[next] = append(slices.Clip(chains[at]), next)
					queue = append(queue, next)
				}
			}
		}
	}
	return chains
}

func TestImportsPointDown(t *testing.T) {
	const native = "it brings native code into a process that has to survive it"
	rules := []struct {
		from   string
		never  []string
		reason string
	}{
		{module + "/shared", []string{module + "/supervisor", module + "/slotworker", module + "/hcl"}, "shared is the contract and knows neither side of it"},
		{module + "/shared", []string{"github.com/hybridgroup/yzma", "github.com/ebitengine/purego", "github.com/jupiterrider/ffi"}, native},
		{module + "/supervisor", []string{module + "/slotworker", module + "/hcl"}, "the supervisor is given slots and starts workers; it contains neither"},
		{module + "/supervisor", []string{"github.com/hybridgroup/yzma", "github.com/ebitengine/purego", "github.com/jupiterrider/ffi"}, native},
		{module + "/hcl", []string{module + "/supervisor", module + "/slotworker"}, "configuration is read without starting anything"},
		{module + "/slotworker", []string{module + "/supervisor", module + "/hcl"}, "a worker knows its slot and nothing above it"},
		{module + "/slotworker/pages", []string{"github.com/hybridgroup/yzma", module + "/slotworker/llamacpp"}, "pages are bytes and keys; the engine is somebody else's"},
	}
	pkgs := load(t)
	for _, rule := range rules {
		found := false
		for name := range pkgs {
			if !within(name, rule.from) {
				continue
			}
			found = true
			for target, chain := range reach(pkgs, name) {
				for _, forbidden := range rule.never {
					if within(target, forbidden) {
						t.Errorf("%s must not import %s: %s\n\tit does by %s", rule.from, forbidden, rule.reason, strings.Join(chain, " > "))
					}
				}
			}
		}
		if !found {
			t.Errorf("there is no package %s: its rule checks nothing", rule.from)
		}
	}
}

func TestNothingImportsCommands(t *testing.T) {
	for name, sources := range load(t) {
		for _, src := range sources {
			for _, target := range src.imports {
				if within(target, module+"/cmd") && !within(name, module+"/cmd") {
					t.Errorf("%s imports %s: commands wire packages together and are not imported", src.name, target)
				}
			}
		}
	}
}

// cgo comes with CUDA or not at all, and the names of such files say so.
func TestCUDAStaysBehindItsTag(t *testing.T) {
	found := false
	for _, sources := range load(t) {
		for _, src := range sources {
			for _, target := range src.imports {
				if !within(target, "gorgonia.org/cu") && target != "C" {
					continue
				}
				found = true
				if !src.cuda || !strings.HasSuffix(src.name, "_cuda.go") {
					t.Errorf("%s imports %s: that needs `//go:build cuda` and a name that ends in _cuda.go, or it would not compile where CUDA is not installed", src.name, target)
				}
			}
		}
	}
	if !found {
		t.Error("nothing uses CUDA: the rule checks nothing")
	}
}

// What is shipped is built without cgo: no package that it takes needs that, and
// CUDA is not among them.
func TestDefaultBuildNeedsNoCgo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{len .GoFiles}} {{len .CgoFiles}}", "./cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 100 {
		t.Fatalf("only %d packages", len(lines))
	}
	for _, line := range lines {
		name, counts, _ := strings.Cut(line, " ")
		if within(name, "gorgonia.org/cu") || within(name, module+"/slotworker/cuda") {
			t.Errorf("the default build contains %s", name)
		}
		if name != "unsafe" && (strings.HasPrefix(counts, "0 ") || !strings.HasSuffix(counts, " 0")) {
			t.Errorf("%s has files that need cgo, or no others: %s", name, counts)
		}
	}
}

func TestEachPackageHasOneComment(t *testing.T) {
	for name, sources := range load(t) {
		written := 0
		var comments []string
		for _, src := range sources {
			if src.test && name != module {
				continue
			}
			if !src.made {
				written++
			}
			if src.comment {
				comments = append(comments, src.name)
			}
		}
		switch {
		case written > 0 && len(comments) == 0:
			t.Errorf("%s has no package comment", name)
		case len(comments) > 1:
			t.Errorf("%s has %d package comments, in %s", name, len(comments), strings.Join(comments, ", "))
		}
	}
}

// What nobody reads to the end is split; tables of test cases and generated
// code are read otherwise.
func TestFilesStayReadable(t *testing.T) {
	const most = 420
	for _, sources := range load(t) {
		for _, src := range sources {
			if src.test || src.made {
				continue
			}
			text, err := os.ReadFile(src.name)
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(text, []byte("\n")); lines > most {
				t.Errorf("%s has %d lines; split it by ideas", src.name, lines)
			}
		}
	}
}
