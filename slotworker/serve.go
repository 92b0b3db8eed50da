package slotworker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/sandbox"
)

// MainConfig is what the program around a worker gives it.
type MainConfig struct {
	// Args are the arguments after the program's or the subcommand's name:
	// --slot ID --state-dir DIR --engine-dir DIR [--read PATH …].
	Args []string
	// OpenEngine opens the library in a folder.
	OpenEngine func(dir string) (Engine, error)
	// OpenDevice opens a device apart from the CPU, such as cuda:0. Nil in programs
	// that can use none.
	OpenDevice func(name string) (Device, error)
	// Version is the program's version.
	Version string
	// Confine takes from the process what the policy does not leave it, and says
	// what holds. It may start the program again. Nil confines nothing.
	Confine func(sandbox.Policy) sandbox.Report
}

// exitUsage is the exit code for wrong arguments and for people who start a
// worker by hand.
const exitUsage = 2

// mainFlags are a worker's arguments.
type mainFlags struct {
	slot, stateDir, engineDir string
	describe                  string
	read                      []string
}

func parseFlags(args []string) (mainFlags, error) {
	var f mainFlags
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&f.slot, "slot", "", "the slot's name, for logs and for people who look at processes")
	flags.StringVar(&f.stateDir, "state-dir", "", "the worker's own folder")
	flags.StringVar(&f.engineDir, "engine-dir", "", "the folder of the engine library")
	flags.Func("read", "a file or folder that it may read; may be repeated", func(path string) error {
		f.read = append(f.read, path)
		return nil
	})
	flags.StringVar(&f.describe, "describe", "", "say what a device is, and nothing else")
	if err := flags.Parse(args); err != nil {
		return f, err
	}
	if f.describe != "" && flags.NArg() == 0 {
		return f, nil
	}
	if f.slot == "" || f.stateDir == "" || f.engineDir == "" || flags.NArg() > 0 {
		return f, errors.New("a worker takes --slot ID --state-dir DIR --engine-dir DIR")
	}
	return f, nil
}

// Main is a worker process from start to end; it gives the exit code. A process
// whose host has gone ends inside, without coming back.
func Main(ctx context.Context, cfg MainConfig) int {
	flags, err := parseFlags(cfg.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	if flags.describe != "" {
		if err := describe(cfg, flags.describe); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	handshake := shared.Handshake()
	if os.Getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		fmt.Fprintln(os.Stderr, "this is the worker of a firstframe slot: the supervisor starts it, see `firstframe serve --help`")
		return exitUsage
	}
	var report sandbox.Report
	if cfg.Confine != nil {
		if report, err = confine(cfg, flags); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitUsage
		}
	}
	// Whatever opens files comes after this: without a lifeline fd 3 would be the next one.
	lifeline, err := openLifeline()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	if err := serve(ctx, cfg, flags, lifeline, report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// describe says on standard output what a device is.
func describe(cfg MainConfig, name string) error {
	if cfg.OpenDevice == nil {
		return noDevices(name)
	}
	device, err := cfg.OpenDevice(name)
	if err != nil {
		return err
	}
	info := device.Info()
	return errors.Join(json.NewEncoder(os.Stdout).Encode(info), device.Close())
}

// What a worker is left: a few files more than the scheduler's pages and the
// model ever take, and the place of the first to go when memory runs out.
const (
	workerOpenFiles = 4096
	workerOOMScore  = 500
)

// driverFiles are what NVIDIA's driver reads in the process that uses it, beside
// the system's libraries.
func driverFiles() []string {
	return append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")),
		"/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/etc/nvidia")
}

// confine leaves a worker its model, the engine, its own folders and the
// devices of graphics cards.
func confine(cfg MainConfig, flags mainFlags) (sandbox.Report, error) {
	stateDir := filepath.Clean(flags.stateDir)
	if err := os.MkdirAll(stateDir, 0o700); err != nil { // what does not exist cannot be left to it
		return sandbox.Report{}, fmt.Errorf("cannot make the worker's folder: %w", err)
	}
	write := []string{stateDir}
	for _, name := range []string{plugin.EnvUnixSocketDir, "TMPDIR"} {
		if dir := os.Getenv(name); dir != "" && !slices.Contains(write, dir) {
			write = append(write, dir)
		}
	}
	read := append(slices.Clone(flags.read), flags.engineDir)
	if cfg.OpenDevice != nil {
		read = append(read, driverFiles()...)
	}
	return cfg.Confine(sandbox.Policy{
		Read: read, Write: write,
		Devices:       []string{"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd"},
		EndWithParent: true, OpenFiles: workerOpenFiles, OOMScore: workerOOMScore,
	}), nil
}

// serve puts the process in order and answers the host until the host ends it.
// Nothing of the native library is loaded before fd 1 is the log as well.
func serve(ctx context.Context, cfg MainConfig, flags mainFlags, lifeline *lifeline, report sandbox.Report) error {
	socket, err := redirect()
	if err != nil {
		return err
	}
	go lifeline.watch(socket)
	context.AfterFunc(ctx, socket.exit)
	go watchLog(os.Stderr, logLimit, time.Tick(logLook))
	if err := forbidCoreDumps(); err != nil {
		return err
	}
	logger := hclog.New(&hclog.LoggerOptions{
		Name:       "worker",
		Level:      hclog.Info,
		Output:     os.Stderr,
		JSONFormat: true,
	}).With("slot", flags.slot)
	if cfg.Confine != nil {
		logger.Info(report.String())
	}
	w, err := New(Config{
		Engine:   func() (Engine, error) { return cfg.OpenEngine(flags.engineDir) },
		Device:   cfg.OpenDevice,
		Lost:     func(err error) { socket.endBecause(err) },
		StateDir: filepath.Clean(flags.stateDir),
		Version:  cfg.Version,
		Logger:   logger,
	})
	if err != nil {
		return err
	}
	return shared.ServeWorker(w, logger)
}
