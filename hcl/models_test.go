package hcl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

func TestCheckModels(t *testing.T) {
	cfg, out := parseText(`model "a" { path = "a" }
model "b" { path = "b" }
slot "a" {
  model = model.a
  context { tokens = 4096 }
}
slot "b" { model = model.b }
slot "c" {
  model = model.a
  adapter { path = "fits" }
  adapter { path = "other" }
}`, nil)
	if cfg == nil {
		t.Fatal(out)
	}
	diags := cfg.CheckModels(func(path string) (int, error) {
		if path == "base/b" {
			return 0, fmt.Errorf("no such file")
		}
		return 2048, nil
	}, func(model, adapter string) error {
		if model != "base/a" || adapter != "base/fits" {
			return fmt.Errorf("%s is for another model", adapter)
		}
		return nil
	})
	if len(diags) != 3 || diags[0].Subject.Start.Line != 5 || diags[1].Subject.Start.Line != 7 || diags[2].Subject.Start.Line != 11 {
		t.Errorf("got %v", diags)
	}
}

func TestAdapters(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	cfg, out := parseText(`model "a" { path = "a" }
slot "a" {
  model = model.a
  adapter { path = "one.gguf" }
  adapter {
    path   = "/two.gguf"
    scale  = -0.5
    sha256 = "sha256:`+strings.ToUpper(digest)+`"
  }
}`, nil)
	if cfg == nil {
		t.Fatal(out)
	}
	want := []shared.AdapterSpec{{Path: "base/one.gguf", Scale: 1}, {Path: "/two.gguf", Scale: -0.5, DeclaredSHA256: digest}}
	if diff := cmp.Diff(want, cfg.Slots[0].Adapters); diff != "" {
		t.Error(diff)
	}
}
