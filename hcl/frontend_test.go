package hcl

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

const oneSlot = `
	model "m" { path = "m.gguf" }
	slot "s" { model = model.m }
`

func TestFrontend(t *testing.T) {
	cfg, diags := parseText(oneSlot+`
		frontend "http" {
			listen        = "0.0.0.0:443"
			api_keys      = [env("KEY"), "second"]
			admin_keys    = ["boss"]
			cors          = ["https://app.example"]
			max_body      = "1MiB"
			max_streams   = 9
			write_timeout = "3s"
			tls {
				cert = "cert.pem"
				key  = "/etc/key.pem"
			}
		}
		telemetry {
			log_level = "debug"
			log_json  = true
		}
	`, map[string]string{"KEY": "from the environment"})
	if cfg == nil {
		t.Fatal(diags)
	}
	want := &shared.HTTPSpec{
		Listen: "0.0.0.0:443", APIKeys: []string{"from the environment", "second"}, AdminKeys: []string{"boss"},
		CORS: []string{"https://app.example"}, MaxBody: 1 << 20, MaxStreams: 9, WriteTimeout: 3 * time.Second,
		CertFile: "base/cert.pem", KeyFile: "/etc/key.pem",
	}
	if diff := cmp.Diff(want, cfg.HTTP); diff != "" || cfg.LogLevel != "debug" || !cfg.LogJSON {
		t.Errorf("%s %+v", diff, cfg)
	}
}

func TestFrontendDefaults(t *testing.T) {
	if cfg, diags := parseText(oneSlot, nil); cfg == nil || cfg.HTTP != nil {
		t.Errorf("without the block: %+v %s", cfg, diags)
	}
	cfg, diags := parseText(oneSlot+`frontend "http" {}`, nil)
	if cfg == nil {
		t.Fatal(diags)
	}
	want := shared.HTTPSpec{Listen: shared.DefaultListen}.WithDefaults()
	if diff := cmp.Diff(&want, cfg.HTTP); diff != "" {
		t.Error(diff)
	}
}

func TestFrontendKeysAreNotShown(t *testing.T) {
	for _, keys := range []string{
		`api_keys = [env("SECRET"), ""]`, `admin_keys = { a = env("SECRET") }`, `listen = env("SECRET")`, `api_keys = env("SECRET")`,
		`listen = "0.0.0.0:1"
		 api_keys = [env("SECRET")]`,
	} {
		cfg, diags := parseText(oneSlot+"frontend \"http\" {\n"+keys+"\n}", map[string]string{"SECRET": "correct-horse"})
		if cfg != nil || diags == "" || strings.Contains(diags, "correct-horse") {
			t.Errorf("%s: %v\n%s", keys, cfg, diags)
		}
	}
}

func TestTraces(t *testing.T) {
	cfg, diags := parseText(oneSlot+`
		frontend "http" {}
		telemetry { otlp_endpoint = "https://collector.example:4318" }
	`, nil)
	if cfg == nil || cfg.OTLPEndpoint != "https://collector.example:4318" {
		t.Errorf("%+v %s", cfg, diags)
	}
	for _, bad := range []string{
		`telemetry { otlp_endpoint = "http://127.0.0.1:4318" }`, // nothing to trace
		`frontend "http" {}
		 telemetry { otlp_endpoint = "127.0.0.1:4318" }`,
		`frontend "http" {}
		 telemetry { otlp_endpoint = "http://me:secret@collector" }`,
	} {
		if cfg, diags := parseText(oneSlot+bad, nil); cfg != nil || !strings.Contains(diags, "otlp_endpoint") {
			t.Errorf("%s: %v\n%s", bad, cfg, diags)
		}
	}
}
