package main

import (
	"context"
	"reflect"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
)

// configSource reads the configuration that serve was started with.
type configSource struct {
	path string
	// started is the configuration at the start: what it says of the supervisor
	// itself stays in force until the next one.
	started *hcl.Config
}

func (c configSource) read(context.Context) (shared.Declaration, []shared.Diagnostic) {
	cfg, diags := hcl.Load(c.path)
	if diags.HasErrors() {
		return shared.Declaration{}, toDiagnostics(diags)
	}
	for _, own := range []struct {
		key      string
		was, now any
	}{
		{"supervisor.state_dir", c.started.StateDir, cfg.StateDir},
		{"supervisor.cuda_worker", c.started.CUDAWorker, cfg.CUDAWorker},
		{"another setting of the supervisor block", c.started.Life, cfg.Life},
		{"the frontend block", c.started.HTTP, cfg.HTTP},
		{"telemetry.otlp_endpoint", c.started.OTLPEndpoint, cfg.OTLPEndpoint},
	} {
		if !reflect.DeepEqual(own.was, own.now) {
			diags = append(diags, &hclv2.Diagnostic{
				Severity: hclv2.DiagWarning, Summary: "Needs a new start",
				Detail: own.key + " has changed; the running supervisor keeps the old one until it is started again.",
			})
		}
	}
	d, err := declarationOf(cfg)
	if err != nil {
		diags = append(diags, &hclv2.Diagnostic{Severity: hclv2.DiagError, Summary: "Unusable path", Detail: err.Error()})
	}
	return d, toDiagnostics(diags)
}

// toDiagnostics takes the remarks across to a process that has not read the file.
func toDiagnostics(diags diagnostics) []shared.Diagnostic {
	var out []shared.Diagnostic
	for _, d := range diags {
		var text strings.Builder
		_ = hcl.WriteDiagnostics(&text, diagnostics{d}, false) // a builder takes everything
		remark := shared.Diagnostic{Warning: d.Severity == hclv2.DiagWarning, Summary: d.Summary, Detail: d.Detail, Text: text.String()}
		if d.Subject != nil {
			remark.File, remark.Line, remark.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		}
		out = append(out, remark)
	}
	return out
}
