package slotworker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/firstframe/firstframe/shared"
)

// fakeDevice is a device whose memory is the test's. It counts what it has given.
type fakeDevice struct {
	opens, closes atomic.Int64
	told          chan error // that the worker has given up

	mu         sync.Mutex
	room       int64 // bytes that may be locked
	live       map[*byte]int64
	registered map[*byte]int64
	refuse     bool // memory that is there already is not locked
	lost       bool
	probe      shared.TransferProbe
	probes     int
}

func newFakeDevice() *fakeDevice {
	return &fakeDevice{room: 1 << 40, live: map[*byte]int64{}, registered: map[*byte]int64{}, told: make(chan error, 8)}
}

func (d *fakeDevice) Info() shared.DeviceInfo {
	return shared.DeviceInfo{Name: "cuda:0", Model: "Fake", Capability: "9.0", Driver: "12.4", Memory: 1 << 30}
}

// enter fails once the device is lost.
func (d *fakeDevice) enter() (func(), error) {
	d.mu.Lock()
	if d.lost {
		d.mu.Unlock()
		return func() {}, shared.Errorf(shared.KindUnavailable, "the driver said 719: %w", ErrDeviceLost)
	}
	return d.mu.Unlock, nil
}

func (d *fakeDevice) Memory() (free, total int64, err error) {
	leave, err := d.enter()
	defer leave()
	return 1 << 29, 1 << 30, err
}

func (d *fakeDevice) AllocHost(bytes int64) ([]byte, error) {
	leave, err := d.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	if bytes > d.room {
		return nil, shared.Errorf(shared.KindUnavailable, "no room for %d locked bytes", bytes)
	}
	d.room -= bytes
	b := make([]byte, bytes)
	d.live[&b[0]] = bytes
	return b, nil
}

func (d *fakeDevice) FreeHost(b []byte) error {
	leave, err := d.enter()
	defer leave()
	if err != nil {
		return err
	}
	bytes, ok := d.live[&b[0]]
	if !ok || bytes != int64(len(b)) {
		panic("memory is freed that was not given")
	}
	delete(d.live, &b[0])
	d.room += bytes
	return nil
}

func (d *fakeDevice) RegisterHost(b []byte) error {
	leave, err := d.enter()
	defer leave()
	if err == nil && d.refuse {
		err = shared.Errorf(shared.KindUnsupported, "memory that cannot be written is not locked")
	}
	if err == nil {
		d.registered[&b[0]] = int64(len(b))
	}
	return err
}

func (d *fakeDevice) UnregisterHost(b []byte) error {
	leave, err := d.enter()
	defer leave()
	if err == nil {
		delete(d.registered, &b[0])
	}
	return err
}

func (d *fakeDevice) Probe(context.Context) (shared.TransferProbe, error) {
	leave, err := d.enter()
	defer leave()
	d.probes++
	return d.probe, err
}

func (d *fakeDevice) Close() error { d.closes.Add(1); return nil }

// holds is how much is locked, by blocks and in place.
func (d *fakeDevice) holds() (blocks int, bytes int64, registered int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.live {
		bytes += n
	}
	return len(d.live), bytes, len(d.registered)
}

func (d *fakeDevice) change(f func(*fakeDevice)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

// gone wants that nothing is left of a slot on the device.
func (d *fakeDevice) gone(t *testing.T, s *slot) {
	t.Helper()
	s.end()
	if blocks, bytes, registered := d.holds(); blocks+registered > 0 || d.opens.Load() != 1 || d.closes.Load() != 1 {
		t.Errorf("left: %d blocks of %d bytes, %d registered; opened %d times, closed %d times", blocks, bytes, registered, d.opens.Load(), d.closes.Load())
	}
}

// Each transfer: where the host buffer lies, that the engine reads it there, and
// that an eviction keeps it, so that coming back reads and locks nothing.
func TestTransfersToADevice(t *testing.T) {
	for _, tt := range []struct {
		transfer           shared.Transfer
		pinned             bool
		blocks, registered int
		refuse             bool
		note               string
	}{
		{shared.TransferPinned, true, 1, 0, false, ""},
		{shared.TransferPageable, false, 0, 0, false, "pageable does not lock"},
		{shared.TransferMmap, true, 0, 1, false, ""},
		{shared.TransferMmap, false, 0, 0, true, "the driver does not page-lock the mapped file: memory that cannot be written"},
	} {
		t.Run(string(tt.transfer), func(t *testing.T) {
			d := newFakeDevice()
			d.refuse = tt.refuse
			s := newSlotOn(t, d)
			s.spec.Transfer, s.spec.GPULayers, s.spec.PagesHost = tt.transfer, 3, 1<<20
			_, s.expected = identityOf(t, s.spec)
			var from []*byte
			s.engine.loadHook = func(req LoadRequest) error {
				if req.Path != "" || req.Device != "cuda:0" || req.GPULayers != 3 {
					t.Errorf("the engine is told %q on %s, %d layers", req.Path, req.Device, req.GPULayers)
				}
				from = append(from, unsafe.SliceData(req.Bytes))
				return nil
			}
			res, err := s.prefetch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if res.Pinned != tt.pinned || res.Transfer != tt.transfer || !strings.Contains(res.PinNote, tt.note) || (res.PinNote == "") != tt.pinned {
				t.Errorf("prefetch gave %+v", res)
			}
			if _, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected}); err != nil {
				t.Fatal(err)
			}
			pages := tt.blocks
			for range 2 {
				if got := s.generate(t.Context(), "hello", 5, nil); !slices.Equal(got.tokens, s.says("hello", 5)) {
					t.Errorf("got %+v", got)
				}
				// What context pages lie in comes on top.
				if blocks, _, registered := d.holds(); blocks <= tt.blocks || pages > tt.blocks && blocks != pages || registered != tt.registered {
					t.Errorf("resident: %d blocks, %d registered", blocks, registered)
				} else {
					pages = blocks
				}
				if _, err := s.Evict(t.Context(), false); err != nil {
					t.Fatal(err)
				}
				if blocks, _, registered := d.holds(); blocks != pages || registered != tt.registered || s.engine.model.open.Load() != 0 {
					t.Errorf("evicted: %d blocks, %d registered, %d open in the engine", blocks, registered, s.engine.model.open.Load())
				}
				s.prepare()
			}
			if len(from) != 3 || from[0] != from[2] {
				t.Errorf("the engine read %v", from)
			}
			if _, err := s.Evict(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if blocks, _, registered := d.holds(); blocks+registered != 0 {
				t.Errorf("dropped: %d blocks, %d registered", blocks, registered)
			}
			d.gone(t, s)
		})
	}
}

// auto takes what the measured copies and the cost of locking speak for, and says
// by which figures.
func TestAutoMeasures(t *testing.T) {
	points := []shared.ProbePoint{{Bytes: 1 << 20, Pageable: 6e9, Pinned: 24e9}}
	for _, tt := range []struct {
		name  string
		probe shared.TransferProbe
		want  shared.Transfer
		says  string
	}{
		{"locking pays", shared.TransferProbe{Points: points, PinBytesPerSecond: 1e12}, shared.TransferPinned, "24 GB/s"},
		{"locking is dear", shared.TransferProbe{Points: points, PinBytesPerSecond: 1e8}, shared.TransferPageable, "6.0 GB/s"},
		{"locking is refused", shared.TransferProbe{Points: []shared.ProbePoint{{Bytes: 1, Pageable: 6e9}}, PinNote: "no"}, shared.TransferPageable, "refused (no)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newFakeDevice()
			d.probe = tt.probe
			s := newSlotOn(t, d)
			s.spec.Transfer = shared.TransferAuto
			res, err := s.prefetch(t.Context())
			if err != nil || res.Transfer != tt.want || !strings.Contains(res.Reason, tt.says) || len(res.Probe.Points) != 1 {
				t.Errorf("got %+v, %v", res, err)
			}
			// The buffer is what auto came to, and is not made again.
			if _, err := s.prefetch(t.Context()); err != nil || d.probes != 1 {
				t.Errorf("measured %d times, %v", d.probes, err)
			}
			d.gone(t, s)
		})
	}
}

// Where no more memory can be locked the rest is pageable and says so.
func TestLockedMemoryIsUsedUp(t *testing.T) {
	d := newFakeDevice()
	d.room = 1 << 20 // less than the model
	s := newSlotOn(t, d)
	s.spec.Transfer = shared.TransferPinned
	res, err := s.prefetch(t.Context())
	if err != nil || res.Pinned || res.Transfer != shared.TransferPageable || !strings.Contains(res.PinNote, "no room for") {
		t.Errorf("got %+v, %v", res, err)
	}
	s.prepare()
	if got := s.generate(t.Context(), "hello", 5, nil); !slices.Equal(got.tokens, s.says("hello", 5)) {
		t.Errorf("got %+v", got)
	}
	if blocks, bytes, _ := d.holds(); blocks != 0 || s.device.pool.Stats().Used != 0 {
		t.Errorf("%d blocks of %d bytes; the account is %+v", blocks, bytes, s.device.pool.Stats())
	}
	d.gone(t, s)
}

// On the CPU pinned is a copy in locked memory.
func TestPinnedOnTheCPU(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	s.spec.Transfer = shared.TransferPinned
	res, err := s.prefetch(t.Context())
	if err != nil || res.Pinned != (res.Transfer == shared.TransferPinned) || res.Pinned == (res.PinNote != "") {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestLostDevice(t *testing.T) {
	lose := func(d *fakeDevice) { d.lost = true }
	t.Run("while the host buffer is filled", func(t *testing.T) {
		for _, transfer := range []shared.Transfer{shared.TransferPinned, shared.TransferMmap, shared.TransferAuto} {
			d := newFakeDevice()
			s := newSlotOn(t, d)
			s.spec.Transfer = transfer
			d.change(lose)
			_, err := s.prefetch(t.Context())
			if shared.KindOf(err) != shared.KindUnavailable || !strings.Contains(err.Error(), ErrDeviceLost.Error()) || shared.AsError(err, "", "").Field != "" {
				t.Errorf("%s: got %v", transfer, err)
			}
			s.end()
			if blocks, _, registered := d.holds(); blocks+registered > 0 {
				t.Errorf("%s: %d blocks, %d registered are left", transfer, blocks, registered)
			}
		}
	})
	t.Run("under a request", func(t *testing.T) {
		d := newFakeDevice()
		s := newSlotOn(t, d)
		s.spec.Transfer = shared.TransferPageable
		s.prepare()
		fail := errors.New("the engine gave no reason")
		s.engine.model.decodeHook = func([]Row) error { return fail }
		if got := s.generate(t.Context(), "hello", 5, nil); shared.KindOf(got.err) != shared.KindEngine || len(d.told) != 0 {
			t.Errorf("an engine that fails by itself: %v, %d losses told", got.err, len(d.told))
		}
		d.change(lose)
		got := s.generate(t.Context(), "hello", 5, nil)
		if shared.KindOf(got.err) != shared.KindEngine {
			t.Errorf("got %v", got.err)
		}
		if err := wait(t, d.told); !errors.Is(err, ErrDeviceLost) {
			t.Errorf("told %v", err)
		}
		s.engine.model.decodeHook = nil
		d.change(func(d *fakeDevice) { d.lost = false })
		d.gone(t, s)
	})
}

// A device that is another one than the slot was declared for proves another
// identity, and a worker stays with the device that it has opened.
func TestAnotherDevice(t *testing.T) {
	d := newFakeDevice()
	s := newSlotOn(t, d)
	right := s.spec
	s.spec.DeviceKind = "sha256:other"
	if _, err := s.prefetch(t.Context()); shared.KindOf(err) != shared.KindIdentity || !strings.Contains(err.Error(), "restart the slot") {
		t.Errorf("another kind: %v", err)
	}
	s.spec = right
	s.spec.Device = "cpu"
	if _, err := s.prefetch(t.Context()); shared.KindOf(err) != shared.KindProtocol {
		t.Errorf("another device: %v", err)
	}
	s.spec = right
	s.prepare()
	d.gone(t, s)
}
