//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// near compares rates; the driver's clock counts single precision milliseconds.
func near(got, want float64) bool { return math.Abs(got-want) < want/1000 }

func TestProbe(t *testing.T) {
	d := opened(t)
	turn(t, "pageable_rate", 5e9)
	turn(t, "pinned_rate", 20e9)
	p, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Points) != 2 || p.Points[0].Bytes != 4<<10 || p.Points[1].Bytes != 64<<10 || p.PinBytesPerSecond <= 0 || p.PinNote != "" {
		t.Errorf("%+v", p)
	}
	for _, at := range p.Points {
		if !near(at.Pageable, 5e9) || !near(at.Pinned, 20e9) {
			t.Errorf("%+v", at)
		}
	}
	copies := driver.count("copies")
	again, err := d.Probe(t.Context())
	if err != nil || !cmp.Equal(p, again) || driver.count("copies") != copies {
		t.Errorf("measured again: %v, %v", again, err)
	}
	again.Points[0] = shared.ProbePoint{}
	if third, _ := d.Probe(t.Context()); !cmp.Equal(p, third) {
		t.Error("a caller changed what others get")
	}
}

// What auto makes of a device follows from its probe.
func TestStrategyFollowsTheProbe(t *testing.T) {
	for _, c := range []struct {
		name     string
		pageable int64
		refuse   int64
		want     shared.Transfer
		reason   string
	}{
		{name: "slow pageable copies", pageable: 1e6, want: shared.TransferPinned},
		{name: "pinning refused", pageable: 2e6, refuse: 1, want: shared.TransferPageable, reason: "pageable: page-locking was refused (cannot page-lock 65536 bytes of host memory: OutOfMemory); pageable memory copies at 2.0 MB/s"},
		{name: "pageable copies as fast", pageable: 24e9, want: shared.TransferPageable},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := opened(t)
			turn(t, "pageable_rate", c.pageable)
			turn(t, "refuse_pinning", c.refuse)
			p, err := d.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if refused := c.refuse == 1; refused != (p.PinNote != "") || refused != (p.PinBytesPerSecond == 0) || refused != (p.Points[0].Pinned == 0) {
				t.Errorf("%+v", p)
			}
			got, reason := slotworker.ChooseTransfer(p, 1<<30, 4)
			if got != c.want || c.reason != "" && reason != c.reason {
				t.Errorf("%s: %s", got, reason)
			}
		})
	}
}

// A device with little free memory is probed with the sizes that fit.
func TestProbeWithLittleMemory(t *testing.T) {
	d := opened(t)
	turn(t, "memory", 5000)
	p, err := d.Probe(t.Context())
	if err != nil || len(p.Points) != 1 || p.Points[0].Bytes != 4<<10 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestProbeAfterOneThatFailed(t *testing.T) {
	d := opened(t)
	turn(t, "memory", 50)
	if p, err := d.Probe(t.Context()); shared.KindOf(err) != shared.KindUnavailable {
		t.Errorf("%+v, %v", p, err)
	}
	turn(t, "memory", 1<<30)
	if p, err := d.Probe(t.Context()); err != nil || len(p.Points) != 2 {
		t.Errorf("a failed probe is kept: %+v, %v", p, err)
	}
}

// Whatever the probe was doing when something went wrong, nothing stays behind.
func TestFailedProbeLeavesNothing(t *testing.T) {
	for _, fault := range []string{"oom_device", "oom_host"} {
		for n := int64(1); n <= 3; n++ {
			t.Run(fmt.Sprintf("%s=%d", fault, n), func(t *testing.T) {
				d := opened(t)
				turn(t, fault, n)
				if p, err := d.Probe(t.Context()); err != nil || len(p.Points) == 0 {
					t.Errorf("%+v, %v", p, err)
				}
				counts(t, map[string]int64{"live_device": 0, "live_host": 0, "live_streams": 0, "live_events": 0})
			})
		}
	}
	t.Run("freeing fails", func(t *testing.T) {
		d := opened(t)
		turn(t, "fail_free_host", 1)
		if _, err := d.Probe(t.Context()); !errors.Is(err, slotworker.ErrDeviceLost) { // it is the driver's word for the worst
			t.Error(err)
		}
		if _, _, err := d.Memory(); !errors.Is(err, slotworker.ErrDeviceLost) {
			t.Errorf("that the device was lost is forgotten: %v", err)
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the slot is gone"))
		d := opened(t)
		if _, err := d.Probe(ctx); err == nil || err.Error() != "the slot is gone" {
			t.Error(err)
		}
	})
}

func TestDeviceLostInTheProbe(t *testing.T) {
	for _, n := range []int64{1, 20, 100} {
		d := opened(t)
		turn(t, "lost_copy", n)
		turn(t, "lost_code", 719)
		_, err := d.Probe(t.Context())
		if !errors.Is(err, slotworker.ErrDeviceLost) || shared.KindOf(err) != shared.KindUnavailable || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: %v", n, err)
		}
		if err := d.Close(); !errors.Is(err, slotworker.ErrDeviceLost) {
			t.Error(err)
		}
	}
}
