package main

import (
	"context"
	"fmt"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/enginelib"
)

// ensureEngine finds the engine library, installing it when it is missing.
func (a *app) ensureEngine(ctx context.Context) (string, error) {
	dir, err := enginelib.Locate(ctx)
	if err == nil {
		return dir, nil
	}
	a.progressf("the engine library is not installed yet: installing it")
	res, err := a.installEngine(ctx, enginelib.CPU, "")
	if err != nil {
		return "", err
	}
	a.progressf("engine installed in %s (%s)", res.Dir, res.Source)
	return res.Dir, nil
}

// installEngine installs with a progress bar on a terminal.
func (a *app) installEngine(ctx context.Context, device enginelib.Device, from string) (enginelib.Result, error) {
	var bar *progressbar.ProgressBar
	if isTerminal(a.errOut) {
		bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.errOut),
			progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		defer func() { _ = bar.Finish() }()
	}
	return enginelib.Install(ctx, enginelib.Options{
		Device: device, From: from,
		Log: func(line string) { a.progressf("%s", line) },
		Progress: func(p enginelib.Progress) {
			if bar != nil {
				bar.Describe(p.Stage)
				_ = bar.Set64(p.Bytes)
			}
		},
	})
}

func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(f.Fd())
}

type engineJSON struct {
	Version string `json:"version"`
	Dir     string `json:"dir"`
	Source  string `json:"source,omitempty"`
	Reused  *bool  `json:"reused,omitempty"` // it was installed already
}

func (a *app) engineCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Install or check the engine library (llama.cpp)",
		Args:  noCommand,
		RunE:  helpOnly,
	}
	var from, device string
	install := a.engineSub("install", "Install the engine library into the user's cache", func(ctx context.Context) (engineJSON, error) {
		kind, err := engineDevice(device)
		if err != nil {
			return engineJSON{}, err
		}
		res, err := a.installEngine(ctx, kind, from)
		if err != nil {
			return engineJSON{}, err
		}
		if res.Reused {
			a.progressf("it was installed already")
		} else {
			a.progressf("installed from %s", res.Source)
		}
		return engineJSON{Dir: res.Dir, Source: res.Source, Reused: &res.Reused}, nil
	})
	install.Flags().StringVar(&from, "from", "", "a tarball of the pinned package or a folder with the libraries")
	verify := a.engineSub("verify", "Read every file of the installed engine and compare it with what was installed", func(ctx context.Context) (engineJSON, error) {
		dir, err := locateEngine(ctx, device)
		if err != nil {
			return engineJSON{}, err
		}
		if err := enginelib.Verify(dir); err != nil {
			return engineJSON{}, err
		}
		a.progressf("it is complete and unchanged")
		return engineJSON{Dir: dir}, nil
	})
	path := a.engineSub("path", "Print the folder of the installed engine", func(ctx context.Context) (engineJSON, error) {
		dir, err := locateEngine(ctx, device)
		return engineJSON{Dir: dir}, err
	})
	for _, sub := range []*cobra.Command{install, verify, path} {
		sub.Flags().StringVar(&device, "device", "cpu", "cpu, or cuda for the engine that computes on GPUs as well")
	}
	cmd.AddCommand(install, verify, path, a.probeCmd())
	return cmd
}

// engineDevice reads a device's class.
func engineDevice(name string) (enginelib.Device, error) {
	switch name {
	case "cpu":
		return enginelib.CPU, nil
	case "cuda":
		return enginelib.CUDA, nil
	}
	return "", &usageError{fmt.Errorf("--device is cpu or cuda, not %q", name)}
}

func locateEngine(ctx context.Context, device string) (string, error) {
	kind, err := engineDevice(device)
	if err != nil {
		return "", err
	}
	if kind == enginelib.CUDA {
		return enginelib.LocateCUDA(ctx)
	}
	return enginelib.Locate(ctx)
}

// engineSub is a command whose output is the engine's folder.
func (a *app) engineSub(use, short string, run func(context.Context) (engineJSON, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := run(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				doc.Version = shared.EngineVersion
				return a.printJSON(doc)
			}
			_, err = fmt.Fprintln(a.out, doc.Dir)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
