package proxy

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// Config says where the proxy listens and what it lets in.
type Config struct {
	// Listen is host:port.
	Listen string
	// APIKeys admit requests; empty means that no key is asked for.
	APIKeys []string
	// AdminKeys admit prepare, evict and restart; empty means that they are off
	// unless the proxy listens on loopback only and has no API keys either.
	AdminKeys []string
	// CertFile and KeyFile switch on TLS.
	CertFile, KeyFile string
	// Insecure allows an address other than loopback without keys and TLS.
	Insecure bool
	// CORS lists origins that browsers may call from.
	CORS []string
	// MaxBody bounds a request's body; 0 means 8 MiB.
	MaxBody int64
	// MaxStreams bounds requests that generate at the same time; 0 means 512.
	MaxStreams int
	// WriteTimeout is how long one write to a client may take before its stream
	// is given up; 0 means 10 s.
	WriteTimeout time.Duration
	// Version is shown on the page and in metrics.
	Version string
	// Logger may be nil.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = 8 << 20
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = 512
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Validate refuses what would expose models to a network by accident.
func (c Config) Validate() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return shared.Errorf(shared.KindConfig, "cannot use listen address %q: %w", c.Listen, err)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return shared.Errorf(shared.KindConfig, "tls needs both cert and key")
	}
	if slices.Contains(c.APIKeys, "") || slices.Contains(c.AdminKeys, "") {
		return shared.Errorf(shared.KindConfig, "a key must not be empty")
	}
	if isLoopback(host) || c.Insecure {
		return nil
	}
	if len(c.APIKeys) == 0 || c.CertFile == "" {
		return shared.Errorf(shared.KindConfig,
			"listen address %s is not loopback: give api_keys and tls, or set insecure = true", c.Listen)
	}
	return nil
}

// localOnly reports whether nothing but the loopback address keeps strangers
// out. Then requests under any other name are refused: a web page can make its
// own name point here.
func (c Config) localOnly() bool { return len(c.APIKeys) == 0 && !c.Insecure }

// adminOpen reports whether admin actions need no key: a loopback address
// without any keys is one person's own machine.
func (c Config) adminOpen() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && isLoopback(host) && len(c.APIKeys) == 0 && len(c.AdminKeys) == 0
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
