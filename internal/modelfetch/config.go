package modelfetch

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Progress is how far a fetch has come. Total is 0 while it is not known.
type Progress struct {
	Stage       string // fetching or checking
	Done, Total int64
}

// Config is one file to fetch.
type Config struct {
	URL string
	// Out is the file's final path; its folder is made.
	Out string
	// SHA256 is the digest that the file has to have, in hex; empty means any.
	SHA256 string
	// AllowHTTP permits plain HTTP with hosts other than this one.
	AllowHTTP bool
	// HuggingFace says that the server is one of Hugging Face's: it names the digest
	// of a file, which then has to be right.
	HuggingFace bool
	// Token is sent as a bearer token to the URL's own host.
	Token string
	// UserAgent is sent with every request.
	UserAgent string
	// Progress may be nil. It is called from the goroutine that called Fetch.
	Progress func(Progress)
	// Retry may be nil. It is told why what failed is tried again, and after what
	// wait, before the wait. It is called from the goroutine that called Fetch.
	Retry func(cause error, wait time.Duration)
	// Wait is the pause before the first repetition of what failed; 0 means a second.
	Wait time.Duration
	// Idle is how long the server may send nothing; 0 means a minute.
	Idle time.Duration
	// Tries is how often in a row it may end without a byte more; 0 means 5.
	Tries int
}

// Result is a file that was fetched.
type Result struct {
	Path    string
	SHA256  string
	Bytes   int64
	Resumed int64 // of them, bytes that an earlier fetch had left
	Reused  bool  // the file was there already, with the digest that was asked for
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c Config) withDefaults() Config {
	c.SHA256 = strings.ToLower(strings.TrimPrefix(c.SHA256, "sha256:"))
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Retry == nil {
		c.Retry = func(error, time.Duration) {}
	}
	if c.Wait == 0 {
		c.Wait = time.Second
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.Tries == 0 {
		c.Tries = 5
	}
	return c
}

// Validate refuses what cannot or must not be fetched.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil {
		return shared.Errorf(shared.KindInvalid, "the address is none: %w", err)
	}
	if c.SHA256 != "" && !hexDigest.MatchString(c.SHA256) {
		return shared.Errorf(shared.KindInvalid, "a sha256 has 64 hexadecimal digits")
	}
	if c.Out == "" {
		return shared.Errorf(shared.KindInvalid, "there is no name for the file")
	}
	return c.allowed(u)
}

// allowed lets through what nobody on the way can change: HTTPS, and this machine.
func (c Config) allowed(u *url.URL) error {
	switch {
	case u.Host == "":
		return shared.Errorf(shared.KindInvalid, "the address has no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return shared.Errorf(shared.KindInvalid, "files are fetched over https, and not over %q", u.Scheme)
	case c.AllowHTTP || shared.LoopbackHost(u.Hostname()):
		return nil
	default:
		return shared.Errorf(shared.KindInvalid, "plain http lets anybody on the way change the file; use https, or allow it with --allow-http")
	}
}
