package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/sandbox"
	"github.com/firstframe/firstframe/supervisor/proxy"
)

// Keys come from the environment too, where other users cannot read them.
const (
	envAPIKey   = "FIRSTFRAME_API_KEY"
	envAdminKey = "FIRSTFRAME_ADMIN_KEY"
)

// envOTLPEndpoint is the standard's own variable.
const envOTLPEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// proxyOOMScore lets a proxy go after the workers when memory runs out: it holds
// little and is back at once.
const proxyOOMScore = 300

func (a *app) proxyCmd() *cobra.Command {
	var spec proxySpec
	var inherit bool
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Answer HTTP clients for the running supervisor: OpenAI's API, a live page, metrics",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec.OTLPEndpoint = cmp.Or(spec.OTLPEndpoint, os.Getenv(envOTLPEndpoint))
			if err := shared.ValidOTLPEndpoint(spec.OTLPEndpoint); err != nil {
				return err
			}
			var report sandbox.Report
			if a.frontend == nil {
				report = sandbox.Enter(proxyPolicy(spec, a.statePath(), inherit))
			}
			if inherit {
				ctx, spec, listener, err := inherited(cmd.Context())
				if err != nil {
					return err
				}
				return a.proxy(ctx, spec, listener, report)
			}
			spec.HTTP.APIKeys = withEnv(spec.HTTP.APIKeys, envAPIKey)
			spec.HTTP.AdminKeys = withEnv(spec.HTTP.AdminKeys, envAdminKey)
			return a.proxy(cmd.Context(), spec, nil, report)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.HTTP.Listen, "listen", shared.DefaultListen, "address to listen on; port 0 takes a free one")
	flags.StringArrayVar(&spec.HTTP.APIKeys, "api-key", nil, "key that admits requests; may be repeated (also $"+envAPIKey+")")
	flags.StringArrayVar(&spec.HTTP.AdminKeys, "admin-key", nil, "key that admits prepare, evict and restart (also $"+envAdminKey+")")
	flags.StringVar(&spec.HTTP.CertFile, "tls-cert", "", "certificate file, PEM")
	flags.StringVar(&spec.HTTP.KeyFile, "tls-key", "", "key file of the certificate, PEM")
	flags.BoolVar(&spec.HTTP.Insecure, "insecure", false, "allow an address other than loopback without keys and TLS")
	flags.StringArrayVar(&spec.HTTP.CORS, "cors", nil, "origin that browsers may call from; may be repeated")
	flags.StringVar(&spec.OTLPEndpoint, "otlp-endpoint", "", "collector that takes traces, OTLP over HTTP, such as http://127.0.0.1:4318 (also $"+envOTLPEndpoint+")")
	flags.StringVar(&spec.LogLevel, "log-level", "info", "trace, debug, info, warn, error or off")
	flags.BoolVar(&inherit, "inherit", false, "take everything from the serve that starts this")
	_ = flags.MarkHidden("inherit") // the flag is there
	return cmd
}

// proxyPolicy is what a proxy keeps. The child of serve has its socket already,
// and needs the network only to reach a collector, which it may have to find by
// name and to know by its certificate.
func proxyPolicy(spec proxySpec, state string, inherit bool) sandbox.Policy {
	p := sandbox.Policy{
		Read:    append([]string{state}, spec.HTTP.TLSFiles()...),
		Network: !inherit || spec.OTLPEndpoint != "", EndWithParent: inherit, OOMScore: proxyOOMScore,
	}
	if spec.OTLPEndpoint != "" {
		p.Read = append(p.Read, sandbox.Names()...)
	}
	return p
}

func withEnv(keys []string, name string) []string {
	if key := os.Getenv(name); key != "" {
		return append(keys, key)
	}
	return keys
}

// proxy serves until the context ends, on the listener or, without one, on an
// address of its own. The connection to the supervisor dials again by itself
// when that is restarted in the same state directory.
func (a *app) proxy(ctx context.Context, spec proxySpec, listener net.Listener, report sandbox.Report) error {
	cfg := proxy.Config{HTTPSpec: spec.HTTP, Version: shared.BuildVersion(), OTLPEndpoint: spec.OTLPEndpoint, Logger: hclog.New(&hclog.LoggerOptions{
		Name: "proxy", Output: a.errOut, Level: hclog.LevelFromString(spec.LogLevel), JSONFormat: spec.LogJSON,
		Color: hclog.AutoColor, ColorHeaderOnly: true,
	})}
	if err := cfg.Validate(); err != nil {
		return err
	}
	frontend, done, err := a.attach(ctx)
	if err != nil {
		return err
	}
	defer done()
	server, err := proxy.New(cfg, frontend)
	if err != nil {
		return err
	}
	if listener == nil {
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen); err != nil {
			return shared.Errorf(shared.KindConfig, "cannot listen on %s: %w", cfg.Listen, err)
		}
		if _, err := fmt.Fprintln(a.out, httpURL(cfg.HTTPSpec, listener.Addr())); err != nil {
			return err
		}
	}
	cfg.Logger.Info(report.String())
	return server.Serve(ctx, listener)
}
