package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"github.com/firstframe/firstframe/shared"
)

// chosen are those of some flags that were given.
func chosen(flags *pflag.FlagSet, names ...string) []string {
	var out []string
	for _, name := range names {
		if flags.Changed(name) {
			out = append(out, "--"+name)
		}
	}
	return out
}

// runServer answers HTTP clients from one model file until ctx ends.
func (a *app) runServer(ctx context.Context, f runFlags, unused []string) error {
	if len(unused) > 0 {
		return &usageError{fmt.Errorf("with --serve, requests say what they want: leave out %s", strings.Join(unused, ", "))}
	}
	http := shared.HTTPSpec{Listen: f.listen}
	if err := http.Validate(); err != nil {
		return &usageError{err}
	}
	slot, _, err := f.file.slot("run")
	if err != nil {
		return err
	}
	const level = "warn"
	logger := hclog.New(&hclog.LoggerOptions{Name: "firstframe", Output: a.errOut, Level: hclog.LevelFromString(level)})
	return withTempDir(func(dir string) error {
		dir = filepath.Join(dir, "s")
		return a.withStack(ctx, dir, []shared.SlotSpec{slot}, func(fe shared.Frontend) error {
			web, err := listenHTTP(ctx, proxySpec{HTTP: http, LogLevel: level})
			if err != nil {
				return err
			}
			if err = web.start(dir, a.errOut, logger); err == nil {
				err = a.announce(ctx, fe, map[string]bool{slot.SlotID: true}, web, "ready; Ctrl-C ends it")
			}
			return errors.Join(err, web.close())
		})
	})
}
