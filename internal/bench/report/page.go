package report

import (
	"bytes"
	_ "embed"
	"html/template"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
)

//go:embed page.html
var pageText string

// page is what the template shows.
type page struct {
	bench.Document
	Phases   []shared.PhaseDuration
	Pictures []drawn
}

// drawn is a picture that the template takes as it is: it comes from the charts.
type drawn struct {
	Title, Note string
	SVG         template.HTML
}

// render makes the page. Every text of the document is escaped by the template.
func render(doc bench.Document) ([]byte, []picture, error) {
	all, err := pictures(doc)
	if err != nil {
		return nil, nil, err
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"short": short,
		"phase": func(c bench.Case, p shared.Phase) float64 { return c.PhaseMS[string(p)].Median },
	}).Parse(pageText)
	if err != nil {
		return nil, nil, err
	}
	p := page{Document: doc, Phases: shared.Phases{}.List()}
	for _, pic := range all {
		p.Pictures = append(p.Pictures, drawn{pic.Title, pic.Note, template.HTML(pic.SVG)})
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), all, nil
}
