package proxy

import (
	"net"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// Config says where the proxy listens, what it lets in and what it says of itself.
type Config struct {
	shared.HTTPSpec
	// Version is shown on the page and in metrics.
	Version string
	// OTLPEndpoint is the collector that takes traces over HTTP; empty means none.
	OTLPEndpoint string
	// Logger may be nil.
	Logger hclog.Logger
}

// Validate refuses what cannot work or would expose models by accident.
func (c Config) Validate() error {
	if err := c.HTTPSpec.Validate(); err != nil {
		return err
	}
	return shared.ValidOTLPEndpoint(c.OTLPEndpoint)
}

func (c Config) withDefaults() Config {
	c.HTTPSpec = c.WithDefaults()
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// localOnly reports whether nothing but the loopback address keeps strangers
// out. Then requests under any other name are refused: a web page can make its
// own name point here.
func (c Config) localOnly() bool { return len(c.APIKeys) == 0 && !c.Insecure }

// adminOpen reports whether admin actions need no key: a loopback address
// without any keys is one person's own machine.
func (c Config) adminOpen() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && shared.LoopbackHost(host) && len(c.APIKeys) == 0 && len(c.AdminKeys) == 0
}
