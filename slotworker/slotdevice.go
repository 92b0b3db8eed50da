package slotworker

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/hostpool"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// slotDevice is the device of a slot, when that is not the CPU, with the
// page-locked memory that copies to it come from. The first prefetch opens it, and
// it stays open for the life of the worker.
type slotDevice struct {
	Device
	info shared.DeviceInfo
	pool *hostpool.Pool
}

// useDevice opens the device of a slot unless that was done before. It is nil for
// the CPU.
func (w *Worker) useDevice(req shared.PrefetchRequest) (*slotDevice, error) {
	spec := req.Spec
	switch {
	case spec.OnCPU() && w.device == nil:
		return nil, nil
	case w.device != nil && w.device.info.Name != spec.Device:
		return nil, shared.Errorf(shared.KindProtocol, "the worker has opened device %s and cannot serve a slot on %s", w.device.info.Name, cmp.Or(spec.Device, shared.CPUDevice))
	case w.device != nil:
	case w.cfg.Device == nil:
		return nil, noDevices(spec.Device)
	default:
		opened, err := w.cfg.Device(spec.Device)
		if err != nil {
			e := shared.Errorf(shared.KindOf(err), "cannot open device %s: %w", spec.Device, err)
			if !errors.Is(err, ErrDeviceLost) {
				e.Field = "device" // another worker would find the same
			}
			return nil, e
		}
		d := &slotDevice{Device: opened, info: opened.Info()}
		d.info.Name = spec.Device
		d.pool = hostpool.New(hostpool.Config{Budget: lockBudget(req), Alloc: opened.AllocHost, Free: opened.FreeHost})
		w.device = d
		w.kept.memory = &lockedMemory{pool: d.pool, other: pages.NewMappedMemory(), slabs: map[*byte]bool{}}
	}
	if kind := w.device.info.Kind(); spec.DeviceKind != "" && spec.DeviceKind != kind {
		return nil, shared.Errorf(shared.KindIdentity, "device %s (%s, driver %s) is not what it was when the slot was declared; restart the slot", spec.Device, w.device.info.Model, w.device.info.Driver)
	}
	return w.device, nil
}

// noDevices is what a worker says that can use the CPU only.
func noDevices(device string) *shared.Error {
	return &shared.Error{
		Kind: shared.KindUnsupported, Field: "device",
		Message: fmt.Sprintf("this worker was built without CUDA and cannot use %s; build firstframe-slotworker-cuda with `task cuda:build` (docs/gpu.md)", device),
	}
}

// lockBudget is the most memory that a slot locks: its host buffer and its pages.
// It is 0, for no limit, when the size of the model is not known.
func lockBudget(req shared.PrefetchRequest) int64 {
	bytes := req.Plan.ByteCount
	if bytes <= 0 {
		return 0
	}
	const slab = 2 << 20 // what a block may be rounded up by
	host := cmp.Or(req.Spec.PagesHost, int64(defaultHostPages))
	return hostpool.Size(bytes) + host + host/16 + slab
}

// close gives the device back. Nothing may use its memory any more.
func (d *slotDevice) close() error {
	if d == nil {
		return nil
	}
	return errors.Join(d.pool.Close(), d.Close())
}

// lost reports whether a device has to be given up, asking it unless the error
// says so already: an engine that fails does not tell why.
func (d *slotDevice) lost(err error) error {
	if d == nil || err == nil {
		return nil
	}
	if errors.Is(err, ErrDeviceLost) {
		return err
	}
	if _, _, asked := d.Memory(); errors.Is(asked, ErrDeviceLost) {
		return asked
	}
	return nil
}

// lockedMemory gives context pages page-locked memory for as long as there is
// some, and other memory after that.
type lockedMemory struct {
	pool  *hostpool.Pool
	other pages.Memory

	mu    sync.Mutex
	slabs map[*byte]bool // those of the pool
}

func (m *lockedMemory) Map(bytes int) ([]byte, error) {
	slab, err := m.pool.Get(int64(bytes))
	if errors.Is(err, ErrDeviceLost) {
		return nil, err
	}
	if err != nil {
		return m.other.Map(bytes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slabs[unsafe.SliceData(slab)] = true
	return slab, nil
}

func (m *lockedMemory) Unmap(slab []byte) error {
	at := unsafe.SliceData(slab)
	m.mu.Lock()
	locked := m.slabs[at]
	delete(m.slabs, at)
	m.mu.Unlock()
	if !locked {
		return m.other.Unmap(slab)
	}
	return m.pool.Put(slab)
}
