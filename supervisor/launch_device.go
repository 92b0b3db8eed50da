package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/firstframe/firstframe/shared"
)

// CUDAWorkerName is the program that runs the slots on cuda:N. It needs libraries
// that not every machine has, and so is not part of the other one.
const CUDAWorkerName = "firstframe-slotworker-cuda"

// DescribeFlag has a worker program say what a device is, as JSON, and end.
const DescribeFlag = "--describe="

// program is what runs the slots of one class of devices.
type program struct {
	path      string
	args      []string
	engineDir string
	env       []string
	cuda      bool
}

// program finds what runs the slots of a device.
func (l *WorkerLauncher) program(device string) (program, error) {
	cfg := l.cfg
	if shared.IsCPU(device) {
		return program{path: cfg.Executable, args: cfg.Args, engineDir: cfg.EngineDir, env: cfg.Env}, nil
	}
	path, err := FindCUDAWorker(cfg.CUDAWorker)
	if err != nil {
		return program{}, deviceError("it is to run on %s, and %w", device, err)
	}
	p := program{path: path, cuda: true, engineDir: cmp.Or(cfg.CUDAEngineDir, cfg.EngineDir)}
	// People say by these which cards there are for a program, in which order, and
	// where CUDA's libraries lie.
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			p.env = append(p.env, name+"="+value)
		}
	}
	p.env = append(p.env, cfg.Env...)
	return p, nil
}

// FindCUDAWorker gives the worker program of slots on cuda:N: the configured one
// and no other, else the one beside the running program, else the one in PATH.
func FindCUDAWorker(configured string) (string, error) {
	if configured != "" {
		if _, err := exec.LookPath(configured); err != nil {
			return "", fmt.Errorf("the worker for CUDA that supervisor.cuda_worker names cannot be used: %w", err)
		}
		return configured, nil
	}
	if own, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		beside := filepath.Join(filepath.Dir(own), CUDAWorkerName)
		if _, err := exec.LookPath(beside); err == nil {
			return beside, nil
		}
	}
	if path, err := exec.LookPath(CUDAWorkerName); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("this firstframe has no worker for CUDA: %s is neither beside it nor in PATH; build it with `task cuda:build` (docs/gpu.md)", CUDAWorkerName)
}

// deviceError says why slots cannot run on a device. It holds until somebody
// changes something.
func deviceError(format string, args ...any) *shared.Error {
	e := shared.Errorf(shared.KindUnavailable, format, args...)
	e.Field = deviceField
	return e
}

const deviceField = "device"

// maxDescription bounds what a program may say of a device.
const maxDescription = 64 << 10

// Device asks the worker program what a device is. The process for it ends with
// this one, and when the launcher is closed.
func (l *WorkerLauncher) Device(ctx context.Context, name string) (shared.DeviceInfo, error) {
	var info shared.DeviceInfo
	program, err := l.program(name)
	if err != nil {
		return info, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.StartTimeout, deviceError("%s was not described within %v", name, l.cfg.StartTimeout))
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	var out, said clippedBuffer
	cmd := exec.Command(program.path, DescribeFlag+name)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, program.env...)
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = outputPatience
	cmd.SysProcAttr = workerAttributes()
	if err := l.thread.do(cmd.Start); err != nil {
		return info, deviceError("cannot start %s: %w", program.path, err)
	}
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with what it may have started
		<-ended
		return info, context.Cause(ctx)
	}
	if err != nil {
		// CUDA's own words come by either way.
		return info, deviceError("%s cannot be used: %s", name, whyNoDevice(err, append(out.Bytes(), said.Bytes()...)))
	}
	if err := json.Unmarshal(out.Bytes(), &info); err != nil {
		return info, deviceError("%s does not say what %s is: %w", program.path, name, err)
	}
	if info.Name != name || info.Model == "" || info.Memory <= 0 {
		return shared.DeviceInfo{}, deviceError("%s does not say what %s is, but that there is %q, model %q, with %d bytes", program.path, name, info.Name, info.Model, info.Memory)
	}
	return info, nil
}

// whyNoDevice puts the end of a worker program into words. One that is linked with
// the driver's library does not even start without it.
func whyNoDevice(err error, said []byte) string {
	lines, _ := logTail(bytes.NewReader(said))
	tell := err.Error()
	if len(lines) > 0 {
		tell = lines[0]
	}
	lower := strings.ToLower(string(said))
	switch {
	case strings.Contains(lower, "libcuda.so") && strings.Contains(lower, "cannot open shared object"):
		return "there is no NVIDIA driver on this machine (" + tell + ")"
	case strings.Contains(lower, "nodevice"), strings.Contains(lower, "no_device"), strings.Contains(lower, "no cuda-capable device"):
		return "the driver sees no GPU (" + tell + ")"
	}
	return tell
}

// explainLaunch tells more of a worker that ended at once: a device that has gone
// since it was described is no reason to start the next one.
func (l *WorkerLauncher) explainLaunch(p *workerProcess, device string, cause error) error {
	err := l.launchError(p, cause)
	if kind := shared.KindOf(cause); shared.IsCPU(device) || kind == shared.KindCancelled || kind == shared.KindShuttingDown {
		return err
	}
	if _, gone := l.Device(l.ctx, device); gone != nil && shared.AsError(gone, "", "").Field == deviceField {
		return shared.AsError(gone, "launch", p.slotID)
	}
	return err
}

// clippedBuffer keeps the beginning of what is written to it.
type clippedBuffer struct{ bytes.Buffer }

func (b *clippedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, maxDescription-b.Len()))])
	return len(p), nil
}
