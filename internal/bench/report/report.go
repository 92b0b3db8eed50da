// Package report writes a benchmark's document for people: as JSON, as CSV, and
// as one HTML page with charts that needs nothing but itself.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/firstframe/firstframe/internal/bench"
)

// The files of a report.
const (
	JSONFile = "bench.json"
	CSVFile  = "bench.csv"
	PageFile = "bench.html"
)

// Write writes all files of a report into a folder, which it makes. Each chart
// is a file of its own as well, for documents that show one.
func Write(dir string, doc bench.Document) error {
	page, pictures, err := render(doc)
	if err != nil {
		return fmt.Errorf("cannot draw the report: %w", err)
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	table, err := csvOf(doc)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the folder of the report: %w", err)
	}
	files := map[string][]byte{JSONFile: append(data, '\n'), CSVFile: table, PageFile: page}
	for _, p := range pictures {
		files[p.Name+".svg"] = []byte(p.SVG)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("cannot write the report: %w", err)
		}
	}
	return nil
}
