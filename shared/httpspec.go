package shared

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// HTTPSpec is the declaration of an HTTP frontend. It crosses from the
// supervisor to the proxy that it starts, over a pipe, since it holds keys.
type HTTPSpec struct {
	// Listen is host:port.
	Listen string
	// APIKeys admit requests; empty means that no key is asked for.
	APIKeys []string
	// AdminKeys admit prepare, evict and restart; empty means that they are off
	// unless the address is loopback and there are no API keys either.
	AdminKeys []string
	// CertFile and KeyFile switch on TLS.
	CertFile, KeyFile string
	// Insecure allows an address other than loopback without keys and TLS.
	Insecure bool
	// CORS lists origins that browsers may call from.
	CORS []string
	// MaxBody bounds a request's body; 0 means DefaultMaxBody.
	MaxBody int64
	// MaxStreams bounds requests that generate at the same time; 0 means
	// DefaultMaxStreams.
	MaxStreams int
	// WriteTimeout is how long one write to a client may take before its stream
	// is given up; 0 means DefaultWriteTimeout.
	WriteTimeout time.Duration
}

// What an HTTP frontend has unless it is told otherwise.
const (
	DefaultListen       = "127.0.0.1:8080"
	DefaultMaxBody      = 8 << 20
	DefaultMaxStreams   = 512
	DefaultWriteTimeout = 10 * time.Second
)

// WithDefaults fills in what is left open.
func (s HTTPSpec) WithDefaults() HTTPSpec {
	if s.MaxBody == 0 {
		s.MaxBody = DefaultMaxBody
	}
	if s.MaxStreams == 0 {
		s.MaxStreams = DefaultMaxStreams
	}
	if s.WriteTimeout == 0 {
		s.WriteTimeout = DefaultWriteTimeout
	}
	return s
}

// TLSFiles are the files that TLS is made of, if it is on.
func (s HTTPSpec) TLSFiles() []string {
	if s.CertFile == "" {
		return nil
	}
	return []string{s.CertFile, s.KeyFile}
}

// Validate refuses what would expose models to a network by accident. The error
// names the field as the configuration calls it.
func (s HTTPSpec) Validate() error {
	host, port, err := net.SplitHostPort(s.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return httpSpecError("listen", "a listen address is host:port with a number as port")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return httpSpecError("tls", "tls needs both cert and key")
	case slices.Contains(s.APIKeys, ""):
		return httpSpecError("api_keys", "a key must not be empty")
	case slices.Contains(s.AdminKeys, ""):
		return httpSpecError("admin_keys", "a key must not be empty")
	case LoopbackHost(host) || s.Insecure:
		return nil
	case len(s.APIKeys) == 0 || s.CertFile == "":
		return httpSpecError("listen", "the listen address is not loopback: give api_keys and tls, or set insecure = true")
	}
	return nil
}

func httpSpecError(field, format string, args ...any) error {
	e := Errorf(KindConfig, format, args...)
	e.Field = field
	return e
}

// LoopbackHost reports whether a host name stands for this machine alone.
func LoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
