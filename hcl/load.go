package hcl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/firstframe/firstframe/shared/regular"
)

// Bounds of what is worth parsing: a configuration is written by hand.
const (
	maxFileBytes = 1 << 20
	maxFiles     = 1000
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
	files, err := filesAt(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	var sources []Source
	var diags hcl.Diagnostics
	for _, file := range files {
		text, err := regular.Read(file, maxFileBytes)
		if err != nil {
			diags = append(diags, fileError(file, err)...)
			continue
		}
		sources = append(sources, Source{Name: file, Base: filepath.Dir(file), Text: text})
	}
	return sources, diags
}

// filesAt names what a path stands for: a folder for its *.hcl files in the
// order of their names, anything else for itself. Files that start with a dot
// belong to editors.
func filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if name := e.Name(); filepath.Ext(name) == ".hcl" && !strings.HasPrefix(name, ".") {
			files = append(files, filepath.Join(path, name))
		}
	}
	switch {
	case len(files) == 0:
		return nil, fmt.Errorf("none of its %d entries is a .hcl file", len(entries))
	case len(files) > maxFiles:
		return nil, fmt.Errorf("it has %d .hcl files, and more than %d are not read", len(files), maxFiles)
	}
	return files, nil
}

func fileError(path string, err error) hcl.Diagnostics {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err // without the path, which the diagnostic names itself
	}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Cannot read configuration", Detail: fmt.Sprintf("%s: %v.", shown(path), err),
	}}
}

func parse(sources []Source, eval *evaluator) (*Config, hcl.Diagnostics) {
	d := &decoder{eval: eval, texts: map[string][]byte{}}
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
	schema := Schema()
	for _, body := range bodies {
		d.attributes(body, schema, root)
		for _, b := range body.Blocks {
			d.block(b, schema, root)
		}
	}
	cfg := d.build(root, bases)
	diags := d.finish()
	if diags.HasErrors() {
		return nil, diags
	}
	return cfg, diags
}

// collect finds locals and the names that references may use.
func (d *decoder) collect(body *hclsyntax.Body, locals map[string]*hclsyntax.Attribute) {
	for _, b := range body.Blocks {
		switch {
		case b.Type == "locals":
			for _, attr := range inOrder(b.Body.Attributes) {
				name := attr.Name
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
			d.eval.names[b.Type][b.Labels[0]] = true
		}
	}
}
