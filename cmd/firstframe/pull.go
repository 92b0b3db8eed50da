package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/internal/modelfetch"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/modelstore"
)

type pullFlags struct {
	sha256, out string
	allowHTTP   bool
	json        bool
}

type pullJSON struct {
	Path         string `json:"path"`
	SHA256       string `json:"sha256"`
	Bytes        int64  `json:"bytes"`
	ResumedBytes int64  `json:"resumed_bytes"`
	Reused       bool   `json:"reused"` // it was there already
}

func (a *app) pullCmd() *cobra.Command {
	var f pullFlags
	cmd := &cobra.Command{
		Use:   "pull [flags] URL|hf:ORG/REPO/FILE.gguf",
		Short: "Fetch a model file over https, and prove it",
		Long: "Fetch a model file and print where it is, for model.path, run and generate --file. A fetch that was cut\n" +
			"off goes on where it ended, and a file has its final name only when it is whole and its digest is right.\n" +
			"hf: stands for a file at Hugging Face, whose server names the digest; $HF_TOKEN and $HF_ENDPOINT are\n" +
			"what they are to its own tools.",
		Example: "  firstframe pull hf:ORG/REPO/model-Q4_K_M.gguf\n  firstframe pull --sha256 0123… https://example.com/model.gguf",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pull(cmd.Context(), f, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sha256, "sha256", "", "digest that the file has to have, in hex")
	flags.StringVar(&f.out, "out", "", "path of the file (default: in $XDG_DATA_HOME/firstframe/models)")
	flags.BoolVar(&f.allowHTTP, "allow-http", false, "allow plain http from other hosts than this one")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (a *app) pull(ctx context.Context, f pullFlags, from string) error {
	cfg := modelfetch.Config{SHA256: f.sha256, Out: f.out, AllowHTTP: f.allowHTTP, UserAgent: "firstframe/" + shared.BuildVersion()}
	place, err := source(from, &cfg)
	if err != nil {
		return err
	}
	if cfg.Out == "" {
		dir, err := modelsDir()
		if err != nil {
			return err
		}
		cfg.Out = filepath.Join(dir, place)
	}
	bar := a.fetchBar()
	defer bar.finish()
	cfg.Progress = bar.show
	cfg.Retry = func(cause error, wait time.Duration) {
		bar.clear()
		a.progressf("%v; next try in %v", cause, wait.Round(100*time.Millisecond))
	}
	res, err := modelfetch.Fetch(ctx, cfg)
	if err != nil {
		return err
	}
	bar.finish()
	switch {
	case res.Reused:
		a.progressf("it was there already")
	case res.Resumed > 0:
		a.progressf("went on after %d of %d bytes", res.Resumed, res.Bytes)
	}
	if f.json {
		return a.printJSON(pullJSON{res.Path, res.SHA256, res.Bytes, res.Resumed, res.Reused})
	}
	a.progressf("sha256 %s", res.SHA256)
	_, err = fmt.Fprintln(a.out, res.Path)
	return err
}

// source sets where a file comes from, and gives its place among the models.
func source(from string, cfg *modelfetch.Config) (place string, err error) {
	if strings.HasPrefix(from, modelstore.PrefixHuggingFace) {
		r, err := modelstore.ParseRemote(from)
		if err != nil {
			return "", err
		}
		endpoint := os.Getenv("HF_ENDPOINT")
		if endpoint == "" {
			endpoint = "https://huggingface.co"
		}
		cfg.URL = strings.TrimRight(endpoint, "/") + "/" + r.Repository + "/resolve/" + r.Revision + "/" + r.File
		cfg.HuggingFace, cfg.Token = true, os.Getenv("HF_TOKEN")
		return filepath.FromSlash(r.Repository + "/" + r.File), nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		return "", &usageError{errors.New("what to pull is an address such as https://HOST/FILE.gguf, or hf:ORG/REPO/FILE.gguf")}
	}
	cfg.URL = from
	name := path.Base(u.Path)
	if cfg.Out == "" && (name == "/" || name == "." || strings.HasPrefix(name, ".") || strings.ContainsFunc(name, unicode.IsControl)) {
		return "", &usageError{errors.New("the address ends in no usable name for the file; give one with --out")}
	}
	return name, nil
}

// modelsDir is where files are put that were given no other place.
func modelsDir() (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("cannot find a folder for models; name the file with --out: %w", err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "firstframe", "models"), nil
}

// fetchBar draws how far a fetch has come, on a terminal.
type fetchBar struct {
	bar   *progressbar.ProgressBar // nil without a terminal
	stage string
}

func (a *app) fetchBar() *fetchBar {
	if !isTerminal(a.errOut) {
		return &fetchBar{}
	}
	return &fetchBar{bar: progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.errOut),
		progressbar.OptionShowBytes(true), progressbar.OptionShowTotalBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))}
}

func (b *fetchBar) show(p modelfetch.Progress) {
	if b.bar == nil {
		return
	}
	if b.stage != p.Stage {
		b.stage = p.Stage
		b.bar.Reset()
		b.bar.Describe(p.Stage)
		b.bar.ChangeMax64(p.Total)
	}
	_ = b.bar.Set64(p.Done) // only a bar that has been finished refuses
}

// clear makes room for a line, below which the bar is drawn again.
func (b *fetchBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear() // as with Finish
	}
}

func (b *fetchBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish() // of a terminal that is gone nobody sees it
	}
}
