package shared

import "strings"

// ThinkMarks are what a family of models writes around that by which it thinks.
type ThinkMarks struct{ Open, Close string }

// TemplateThinking finds the marks in a chat template. It is nil when the template
// has none that are known here.
func TemplateThinking(template string) *ThinkMarks {
	for _, m := range []ThinkMarks{{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}} {
		if strings.Contains(template, m.Close) {
			return &m
		}
	}
	return nil
}
