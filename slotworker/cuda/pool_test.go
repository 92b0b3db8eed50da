//go:build cuda

package cuda

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/hostpool"
)

// The pool's account, the device's and the driver's are one, whatever is asked
// for and whatever the driver refuses.
func TestPoolOverTheDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driver.reset()
		d, err := open("cuda:0")
		if err != nil {
			t.Fatal(err)
		}
		const kib = 1 << 10
		pool := hostpool.New(hostpool.Config{
			Budget: rapid.Int64Range(1, 300).Draw(t, "budget") * kib, Keep: rapid.Int64Range(0, 200).Draw(t, "keep") * kib,
			Alloc: d.AllocHost, Free: d.FreeHost,
		})
		var out [][]byte
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				b, err := pool.Get(rapid.Int64Range(1, 80*kib).Draw(t, "bytes"))
				if err == nil {
					b[len(b)-1] = 1
					out = append(out, b)
				} else if shared.KindOf(err) != shared.KindUnavailable {
					t.Fatal(err)
				}
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is out")
				}
				if err := pool.Put(out[0]); err != nil {
					t.Fatal(err)
				}
				out = out[1:]
			},
			"exhausted": func(t *rapid.T) { driver.set("oom_host", rapid.Int64Range(1, 3).Draw(t, "the n-th fails")) },
			"": func(t *rapid.T) {
				s := pool.Stats()
				if charged := s.Used + s.Idle + s.Stuck; charged != driver.count("bytes_host") || charged > s.Budget || s.Stuck != 0 {
					t.Fatalf("%d bytes are charged, the driver has %d: %+v", charged, driver.count("bytes_host"), s)
				}
			},
		})
		for _, b := range out {
			if err := pool.Put(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(pool.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		for name, n := range nothing {
			if got := driver.count(name); got != n {
				t.Fatalf("the driver counts %s as %d", name, got)
			}
		}
	})
}

// Blocks of a lost device stay charged: they are in the machine's memory until
// the process ends.
func TestPoolOfALostDevice(t *testing.T) {
	d := opened(t)
	pool := hostpool.New(hostpool.Config{Budget: 1 << 20, Alloc: d.AllocHost, Free: d.FreeHost})
	p, err := pool.Get(5000)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.allocate(5000)
	if err != nil {
		t.Fatal(err)
	}
	turn(t, "lost_copy", 1)
	if err := d.upload(b, p); !errors.Is(err, slotworker.ErrDeviceLost) {
		t.Error(err)
	}
	if err := pool.Put(p); !errors.Is(err, slotworker.ErrDeviceLost) {
		t.Error(err)
	}
	if s := pool.Stats(); s.Stuck != 8192 || s.Stuck != driver.count("bytes_host") || s.Used != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := pool.Get(5000); !errors.Is(err, slotworker.ErrDeviceLost) {
		t.Error(err)
	}
	if err := pool.Close(); shared.KindOf(err) != shared.KindBusy {
		t.Error(err)
	}
	counts(t, map[string]int64{"bad_frees": 0, "live_host": 1})
	if err := d.Close(); !errors.Is(err, slotworker.ErrDeviceLost) {
		t.Error(err)
	}
}
