package enginelib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// npmPatience is how long npm may take to end after it was told to.
const npmPatience = 5 * time.Second

// npmPack has the npm client fetch the pinned package into dir and gives the
// tarball's path. Registry, proxy and credentials are the client's business.
func npmPack(ctx context.Context, npm string, p pin, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, npm, "pack", p.spec(), "--ignore-scripts", "--loglevel=error", "--pack-destination", dir)
	cmd.Dir = dir // no package.json or .npmrc of the caller's directory takes part
	cmd.Env = append(os.Environ(), "NO_UPDATE_NOTIFIER=1")
	cmd.WaitDelay = npmPatience
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("npm pack %s: %w: %s", p.spec(), err, oneLine(out.String()))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", errors.New("npm pack left no tarball")
	}
	return found[0], nil
}

// oneLine keeps an error message readable: the first lines of npm's output say
// what went wrong.
func oneLine(out string) string {
	var kept []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "npm error"))
		if line != "" && len(kept) < 4 {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " | ")
}
