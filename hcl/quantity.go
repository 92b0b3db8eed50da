package hcl

import (
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// size takes a number of bytes with its unit, such as "512MiB", within bounds.
func (d *decoder) size(n *node, key string, def, low, high int64) int64 {
	v, ok := d.get(n, key)
	if !ok {
		return def
	}
	text := v.AsString()
	bytes, err := humanize.ParseBytes(text)
	switch {
	case err != nil || !strings.HasSuffix(strings.ToLower(text), "b"):
		d.errorf(v.rng, "Wrong size", "%s is a size with its unit, such as \"512MiB\" or \"4GB\".", key)
		return def
	case bytes < uint64(low) || bytes > uint64(high):
		d.errorf(v.rng, "Out of range", "%s is a size from %s to %s.", key, humanize.IBytes(uint64(low)), humanize.IBytes(uint64(high)))
		return def
	}
	return int64(bytes)
}

// duration takes a length of time with its unit, such as "30s", within bounds.
func (d *decoder) duration(n *node, key string, def, low, high time.Duration) time.Duration {
	v, ok := d.get(n, key)
	if !ok {
		return def
	}
	length, err := time.ParseDuration(v.AsString())
	switch {
	case err != nil:
		d.errorf(v.rng, "Wrong duration", "%s is a duration with its unit, such as \"30s\" or \"5m\".", key)
		return def
	case length < low || length > high:
		d.errorf(v.rng, "Out of range", "%s is a duration from %s to %s.", key, low, high)
		return def
	}
	return length
}
