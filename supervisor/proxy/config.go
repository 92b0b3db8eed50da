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
	// Logger may be nil.
	Logger hclog.Logger
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
