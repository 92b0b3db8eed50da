package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/firstframe/firstframe/shared"
)

// clientConfig is what go-plugin has to know to start this process.
func (l *WorkerLauncher) clientConfig(p *workerProcess) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  shared.Handshake(),
		Plugins:          shared.WorkerPlugins(p.streams),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		GRPCDialOptions:  shared.DialOptions(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.dir},
		RunnerFunc:       p.runner,
		// Later than our own limit, which kills the process and tells more.
		StartTimeout: l.cfg.StartTimeout + endPatience,
		SyncStdout:   p.log,
		SyncStderr:   p.log,
		// What it has to say we say ourselves.
		Logger: hclog.NewNullLogger(),
	}
}

// command is the worker's command line and its whole environment.
func (p *workerProcess) command(pluginEnv []string) *exec.Cmd {
	cmd := exec.Command(p.program.path, slices.Clone(p.program.args)...)
	cmd.Args = append(cmd.Args, "--slot="+p.slotID, "--state-dir="+p.launcher.cfg.State.SlotDir(p.slotID))
	if dir := p.program.engineDir; dir != "" {
		cmd.Args = append(cmd.Args, "--engine-dir="+dir)
	}
	for _, path := range p.readable {
		cmd.Args = append(cmd.Args, "--read="+path)
	}
	cmd.Env = append(slices.Clone(pluginEnv),
		// Its socket lies in its own directory, not one deeper: paths are short.
		plugin.EnvUnixSocketDir+"="+p.dir,
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"TMPDIR="+p.dir,
		// Without it an aborting engine forks a debugger that writes to fd 1.
		"GGML_NO_BACKTRACE=1",
		// The C library otherwise learns from the first free of a large buffer to
		// keep the next ones, and evicted memory stays with the process.
		"MALLOC_MMAP_THRESHOLD_=1048576",
		// And to ask for huge pages: KV memory is touched as a whole when a slot
		// comes back, and each page of 4 KiB is a fault.
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
	)
	cmd.Env = append(cmd.Env, raceEnvironment()...)
	if p.program.cuda {
		// What the driver compiles for a card is kept for the slot's next worker.
		cmd.Env = append(cmd.Env, "CUDA_CACHE_PATH="+filepath.Join(p.launcher.cfg.State.SlotDir(p.slotID), "cuda"))
	}
	cmd.Env = append(cmd.Env, p.program.env...)
	return cmd
}

// readable is what the worker of a model may read beside its own files: the
// files of the model and its adapters, or the folder of one that is not there
// yet. An empty path is everything.
func readable(files []string) []string {
	var paths []string
	for _, file := range files {
		path := "/"
		if file != "" {
			path = file
			if abs, err := filepath.Abs(file); err == nil {
				path = abs
			}
			if _, err := os.Stat(path); err != nil {
				path = filepath.Dir(path)
			}
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}
