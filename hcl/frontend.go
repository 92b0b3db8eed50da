package hcl

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
)

// Bounds of an HTTP frontend's limits.
const (
	minBody         = 1 << 10
	maxBody         = 1 << 30
	maxStreams      = 1 << 16
	maxWriteTimeout = 10 * time.Minute
)

// frontend reads the HTTP frontend. It is nil without one.
func (d *decoder) frontend(root *node, bases map[string]string) *shared.HTTPSpec {
	var first *node
	for _, n := range root.blocks["frontend"] {
		switch {
		case n.label != "http":
			d.errorf(n.rng, "Unknown frontend", "The one kind of frontend is \"http\".")
		case first != nil:
			d.errorf(n.rng, "Repeated frontend", "There is already an http frontend at %s.", at(first.rng))
		default:
			first = n
		}
	}
	if first == nil {
		return nil
	}
	n := first
	s := shared.HTTPSpec{
		Listen:       d.text(n, "listen", shared.DefaultListen),
		APIKeys:      d.list(n, "api_keys"),
		AdminKeys:    d.list(n, "admin_keys"),
		Insecure:     d.flag(n, "insecure", false),
		CORS:         d.list(n, "cors"),
		MaxBody:      d.size(n, "max_body", shared.DefaultMaxBody, minBody, maxBody),
		MaxStreams:   d.number(n, "max_streams", shared.DefaultMaxStreams, 1, maxStreams),
		WriteTimeout: d.duration(n, "write_timeout", shared.DefaultWriteTimeout, time.Millisecond, maxWriteTimeout),
	}
	if tls := n.first("tls"); tls != nil {
		s.CertFile, s.KeyFile = d.text(tls, "cert", ""), d.text(tls, "key", "")
		for _, file := range []*string{&s.CertFile, &s.KeyFile} {
			if *file != "" && !filepath.IsAbs(*file) {
				*file = filepath.Join(bases[n.rng.Filename], *file)
			}
		}
		if s.CertFile == "" || s.KeyFile == "" {
			return nil // the missing key is an error already
		}
	}
	var wrong *shared.Error
	if errors.As(s.Validate(), &wrong) {
		d.errorf(rangeOf(n, wrong.Field), "Unusable frontend", "%s.", wrong.Text())
	}
	return &s
}

// rangeOf is where a key's value stands, or the block when the key is not set.
func rangeOf(n *node, key string) hcl.Range {
	if v, ok := n.values[key]; ok {
		return v.rng
	}
	return n.rng
}

func (d *decoder) telemetry(root *node, cfg *Config) {
	n := root.first("telemetry")
	if _, ok := d.get(n, "log_level"); ok {
		cfg.LogLevel = d.choice(n, "log_level", "info", "trace", "debug", "warn", "error", "off")
	}
	cfg.LogJSON = d.flag(n, "log_json", false)
	cfg.OTLPEndpoint = d.text(n, "otlp_endpoint", "")
	var wrong *shared.Error
	switch {
	case errors.As(shared.ValidOTLPEndpoint(cfg.OTLPEndpoint), &wrong):
		d.errorf(rangeOf(n, wrong.Field), "Unusable endpoint", "%s.", wrong.Text())
	case cfg.OTLPEndpoint != "" && len(root.blocks["frontend"]) == 0:
		d.errorf(rangeOf(n, "otlp_endpoint"), "No frontend", "Traces are those of the http frontend's requests, and none is declared.")
	}
}

// list takes a list of texts.
func (d *decoder) list(n *node, key string) []string {
	v, ok := d.get(n, key)
	if !ok {
		return nil
	}
	var items []string
	for _, item := range v.AsValueSlice() {
		if item.IsNull() || !usable(item.AsString()) {
			d.errorf(v.rng, "Unusable text", "Each item of %s needs text that is not empty and has no control characters.", key)
			return nil
		}
		items = append(items, item.AsString())
	}
	return items
}
