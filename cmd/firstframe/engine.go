package main

import (
	"context"
	"fmt"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/slotworker/enginelib"
)

// ensureEngine finds the engine library, installing it when it is missing.
func (a *app) ensureEngine(ctx context.Context) (string, error) {
	dir, err := enginelib.Locate(ctx)
	if err == nil {
		return dir, nil
	}
	a.progressf("the engine library is not installed yet: installing it")
	res, err := a.installEngine(ctx, "")
	if err != nil {
		return "", err
	}
	a.progressf("engine installed in %s (%s)", res.Dir, res.Source)
	return res.Dir, nil
}

// installEngine installs with a progress bar on a terminal.
func (a *app) installEngine(ctx context.Context, from string) (enginelib.Result, error) {
	var bar *progressbar.ProgressBar
	if isTerminal(a.errOut) {
		bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.errOut),
			progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		defer func() { _ = bar.Finish() }()
	}
	return enginelib.Install(ctx, enginelib.Options{
		From: from,
		Log:  func(line string) { a.progressf("%s", line) },
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

func (a *app) engineCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Install or check the engine library (llama.cpp)",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var from string
	install := &cobra.Command{
		Use:   "install",
		Short: "Install the engine library into the user's cache",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := a.installEngine(cmd.Context(), from)
			if err != nil {
				return err
			}
			if res.Reused {
				a.progressf("it was installed already")
			} else {
				a.progressf("installed from %s", res.Source)
			}
			_, err = fmt.Fprintln(a.out, res.Dir)
			return err
		},
	}
	install.Flags().StringVar(&from, "from", "", "a tarball of the pinned package or a folder with the libraries")
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Check every file of the installed engine",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := enginelib.Locate(cmd.Context())
			if err != nil {
				return err
			}
			if err := enginelib.Verify(dir); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, dir, "is complete and unchanged")
			return err
		},
	}
	path := &cobra.Command{
		Use:   "path",
		Short: "Print the folder of the installed engine",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := enginelib.Locate(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, dir)
			return err
		},
	}
	cmd.AddCommand(install, verify, path)
	return cmd
}
