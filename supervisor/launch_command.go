package supervisor

import (
	"os/exec"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/firstframe/firstframe/shared"
)

// clientConfig is what go-plugin has to know to start this process.
func (l *WorkerLauncher) clientConfig(p *workerProcess) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  shared.Handshake(),
		Plugins:          shared.WorkerPlugins(),
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
	cfg := p.launcher.cfg
	cmd := exec.Command(cfg.Executable, slices.Clone(cfg.Args)...)
	cmd.Args = append(cmd.Args, "--slot="+p.slotID, "--state-dir="+p.launcher.cfg.State.SlotDir(p.slotID))
	if cfg.EngineDir != "" {
		cmd.Args = append(cmd.Args, "--engine-dir="+cfg.EngineDir)
	}
	readable := []string{"/"}
	if cfg.Readable != nil {
		readable = cfg.Readable(p.slotID)
	}
	for _, path := range readable {
		cmd.Args = append(cmd.Args, "--read="+path)
	}
	cmd.Env = append(slices.Clone(pluginEnv),
		// Its socket lies in its own directory, not one deeper: paths are short.
		plugin.EnvUnixSocketDir+"="+p.dir,
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"TMPDIR="+p.dir,
		// Without it an aborting engine forks a debugger that writes to fd 1.
		"GGML_NO_BACKTRACE=1",
	)
	cmd.Env = append(cmd.Env, cfg.Env...)
	return cmd
}
