package hcl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of what is worth parsing: a configuration is written by hand.
const (
	maxFileBytes = 1 << 20
	maxNesting   = 64
)

// Load reads a file, or every *.hcl file of a folder, as one configuration.
// With errors among the diagnostics the configuration is nil.
func Load(path string) (*Config, hcl.Diagnostics) {
	sources, diags := read(path)
	if diags.HasErrors() {
		return nil, diags
	}
	return parse(sources, newEvaluator())
}

// Source is the text of one file. Base is the folder for relative paths.
type Source struct {
	Name string
	Base string
	Text []byte
}

// Parse decodes sources that were already read.
func Parse(sources ...Source) (*Config, hcl.Diagnostics) {
	return parse(sources, newEvaluator())
}

func read(path string) ([]Source, hcl.Diagnostics) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(escapeGlob(path), "*.hcl")); err != nil {
			return nil, fileError(path, err)
		}
		if entries, err := os.ReadDir(path); err != nil {
			return nil, fileError(path, err)
		} else if len(files) == 0 {
			return nil, fileError(path, fmt.Errorf("none of its %d entries is a .hcl file", len(entries)))
		}
		slices.Sort(files)
	}
	var sources []Source
	var diags hcl.Diagnostics
	for _, file := range files {
		text, err := readFile(file)
		if err != nil {
			diags = append(diags, fileError(file, err)...)
			continue
		}
		sources = append(sources, Source{Name: file, Base: filepath.Dir(file), Text: text})
	}
	return sources, diags
}

// escapeGlob makes a folder's name stand for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readFile reads regular files of a sane size only: a pipe would block, a
// device would never end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("it is larger than %d bytes", maxFileBytes)
	}
	return text, err
}

func fileError(path string, err error) hcl.Diagnostics {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err // without the path, which the diagnostic names itself
	}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Cannot read configuration", Detail: fmt.Sprintf("%s: %v.", path, err),
	}}
}

func parse(sources []Source, eval *evaluator) (*Config, hcl.Diagnostics) {
	d := &decoder{eval: eval}
	root := &node{values: map[string]value{}, blocks: map[string][]*node{}}
	var bodies []*hclsyntax.Body
	bases := map[string]string{}
	for _, src := range sources {
		if body := d.syntax(src); body != nil {
			bodies = append(bodies, body)
			bases[src.Name] = src.Base
		}
	}
	locals := map[string]*hclsyntax.Attribute{}
	for _, body := range bodies {
		d.collect(body, locals)
	}
	d.evaluateLocals(locals)
	for _, body := range bodies {
		for _, attr := range body.Attributes {
			d.errorf(attr.NameRange, "Unknown key", "There is no key %q at the top level.%s", attr.Name, d.nearest(attr.Name, Schema()))
		}
		for _, b := range body.Blocks {
			d.block(b, Schema(), root)
		}
	}
	cfg := d.build(root, bases)
	if d.diags.HasErrors() {
		return nil, d.diags
	}
	return cfg, d.diags
}

// syntax parses one file after the checks that keep the parser out of trouble.
func (d *decoder) syntax(src Source) *hclsyntax.Body {
	start := hcl.Range{Filename: src.Name, Start: hcl.InitialPos, End: hcl.InitialPos}
	text := bytes.TrimPrefix(src.Text, []byte("\xef\xbb\xbf"))
	switch {
	case len(text) > maxFileBytes:
		d.errorf(start, "File too large", "A configuration file may have %d bytes.", maxFileBytes)
		return nil
	case !utf8.Valid(text) || bytes.ContainsFunc(text, isControl):
		// Without a subject: such bytes are not for a terminal.
		d.diags = append(d.diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Not a text file",
			Detail: fmt.Sprintf("%s is not UTF-8 text without control characters.", src.Name),
		})
		return nil
	case nesting(text) > maxNesting:
		d.errorf(start, "Nested too deep", "Brackets may be nested %d deep.", maxNesting)
		return nil
	}
	file, diags := hclsyntax.ParseConfig(text, src.Name, hcl.InitialPos)
	d.diags = append(d.diags, withoutValues(diags)...)
	if diags.HasErrors() {
		return nil
	}
	return file.Body.(*hclsyntax.Body)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }

// nesting bounds the depth of brackets from above; brackets inside strings count too.
func nesting(text []byte) int {
	depth, most := 0, 0
	for _, c := range text {
		switch c {
		case '{', '[', '(':
			depth++
			most = max(most, depth)
		case '}', ']', ')':
			depth = max(depth-1, 0)
		}
	}
	return most
}

// collect finds locals and the names that references may use.
func (d *decoder) collect(body *hclsyntax.Body, locals map[string]*hclsyntax.Attribute) {
	for _, b := range body.Blocks {
		switch {
		case b.Type == "locals":
			for name, attr := range b.Body.Attributes {
				if earlier, ok := locals[name]; ok {
					d.errorf(attr.NameRange, "Repeated local", "local.%s is already set at %s.", name, at(earlier.NameRange))
					continue
				}
				locals[name] = attr
			}
			for _, inner := range b.Body.Blocks {
				d.errorf(inner.TypeRange, "Unexpected block", "A locals block holds values only.")
			}
		case (b.Type == "model" || b.Type == "slot") && len(b.Labels) == 1:
			d.eval.names[b.Type] = append(d.eval.names[b.Type], b.Labels[0])
		}
	}
}
