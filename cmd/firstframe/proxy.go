package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor/proxy"
)

// Keys come from the environment too, where other users cannot read them.
const (
	envAPIKey   = "FIRSTFRAME_API_KEY"
	envAdminKey = "FIRSTFRAME_ADMIN_KEY"
)

func (a *app) proxyCmd() *cobra.Command {
	var cfg proxy.Config
	var level string
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Answer HTTP clients for the running supervisor: OpenAI's API, a live page, metrics",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.APIKeys = withEnv(cfg.APIKeys, envAPIKey)
			cfg.AdminKeys = withEnv(cfg.AdminKeys, envAdminKey)
			cfg.Version = shared.BuildVersion()
			cfg.Logger = hclog.New(&hclog.LoggerOptions{
				Name: "proxy", Output: a.errOut, Level: hclog.LevelFromString(level), Color: hclog.AutoColor, ColorHeaderOnly: true,
			})
			return a.proxy(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Listen, "listen", "127.0.0.1:8080", "address to listen on; port 0 takes a free one")
	flags.StringArrayVar(&cfg.APIKeys, "api-key", nil, "key that admits requests; may be repeated (also $"+envAPIKey+")")
	flags.StringArrayVar(&cfg.AdminKeys, "admin-key", nil, "key that admits prepare, evict and restart (also $"+envAdminKey+")")
	flags.StringVar(&cfg.CertFile, "tls-cert", "", "certificate file, PEM")
	flags.StringVar(&cfg.KeyFile, "tls-key", "", "key file of the certificate, PEM")
	flags.BoolVar(&cfg.Insecure, "insecure", false, "allow an address other than loopback without keys and TLS")
	flags.StringArrayVar(&cfg.CORS, "cors", nil, "origin that browsers may call from; may be repeated")
	flags.StringVar(&level, "log-level", "info", "trace, debug, info, warn, error or off")
	return cmd
}

func withEnv(keys []string, name string) []string {
	if key := os.Getenv(name); key != "" {
		return append(keys, key)
	}
	return keys
}

// proxy serves until the context ends. The connection to the supervisor dials
// again by itself when that is restarted in the same state directory.
func (a *app) proxy(ctx context.Context, cfg proxy.Config) error {
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
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return shared.Errorf(shared.KindConfig, "cannot listen on %s: %w", cfg.Listen, err)
	}
	scheme := "http"
	if cfg.CertFile != "" {
		scheme = "https"
	}
	if _, err := fmt.Fprintf(a.out, "%s://%s\n", scheme, listener.Addr()); err != nil {
		return err
	}
	return server.Serve(ctx, listener)
}
