package hostpool

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

// memory stands for what locks host memory, and counts what is locked.
type memory struct {
	mu        sync.Mutex
	live      map[*byte]int64
	bytes     int64
	limit     int64 // 0: none
	failFree  bool
	freed     int
	badFree   bool
	wrongSize bool
}

var errFree = errors.New("the driver is gone")

func (m *memory) alloc(n int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit > 0 && m.bytes+n > m.limit {
		return nil, shared.Errorf(shared.KindUnavailable, "no memory")
	}
	if m.wrongSize {
		n /= 2
	}
	b := make([]byte, n)
	m.live[unsafe.SliceData(b)] = n
	m.bytes += n
	return b, nil
}

func (m *memory) free(b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live[unsafe.SliceData(b)] != int64(len(b)) {
		m.badFree = true
	}
	if m.failFree {
		return shared.Errorf(shared.KindUnavailable, "cannot unlock: %w", errFree)
	}
	delete(m.live, unsafe.SliceData(b))
	m.bytes -= int64(len(b))
	m.freed++
	return nil
}

func newMemory() *memory { return &memory{live: map[*byte]int64{}} }

func (m *memory) pool(budget, keep int64) *Pool {
	return New(Config{Budget: budget, Keep: keep, Alloc: m.alloc, Free: m.free})
}

// balanced wants the pool's account to be what is really locked.
func (m *memory) balanced(p *Pool) error {
	s := p.Stats()
	switch charged := s.Used + s.Idle + s.Stuck; {
	case charged != m.bytes:
		return fmt.Errorf("%d bytes are charged and %d locked: %+v", charged, m.bytes, s)
	case s.Budget > 0 && charged > s.Budget:
		return fmt.Errorf("over the budget: %+v", s)
	case m.badFree:
		return errors.New("a block was freed that is not locked, or in part")
	default:
		return nil
	}
}

func TestSizes(t *testing.T) {
	last := int64(0)
	for n := int64(1); n < 1<<34; n += 1 + n/7 {
		size := Size(n)
		if size < n || size < last || Size(size) != size {
			t.Fatalf("%d bytes take %d, after %d", n, size, last)
		}
		if waste := size - n; waste > max(4<<10, n/8) || waste > 2<<20 {
			t.Errorf("%d bytes take %d", n, size)
		}
		last = size
	}
}

// Whatever is asked for, given back, refused and not freed: the account is what
// is locked, the budget holds, and at the end nothing is left.
func TestAccountIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory()
		const kib = 1 << 10
		budget := rapid.Int64Range(0, 400).Draw(t, "budget") * kib
		p := m.pool(budget, rapid.Int64Range(0, 300).Draw(t, "keep")*kib)
		m.limit = rapid.Int64Range(0, 600).Draw(t, "machine") * kib
		var out [][]byte
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				n := rapid.Int64Range(1, 100*kib).Draw(t, "bytes")
				before := p.Stats()
				b, err := p.Get(n)
				switch {
				case err == nil:
					if int64(len(b)) != n || cap(b) != len(b) {
						t.Fatalf("%d bytes of %d", len(b), n)
					}
					b[0], b[n-1] = 1, 1
					out = append(out, b)
				case shared.KindOf(err) != shared.KindUnavailable:
					t.Fatal(err)
				case !m.failFree && (budget == 0 || before.Used+Size(n) <= budget) && (m.limit == 0 || before.Used+Size(n) <= m.limit):
					t.Fatalf("there is room for %d: %v, %+v", n, err, before)
				}
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				b := out[i]
				out = slices.Delete(out, i, i+1)
				if err := p.Put(b); (err != nil) && (!m.failFree || !errors.Is(err, errFree)) {
					t.Fatal(err)
				}
				if err := p.Put(b); shared.KindOf(err) != shared.KindInvalid {
					t.Fatalf("given back twice: %v", err)
				}
			},
			"driver": func(t *rapid.T) { m.failFree = rapid.Bool().Draw(t, "fails to free") },
			"": func(t *rapid.T) {
				if err := m.balanced(p); err != nil {
					t.Fatal(err)
				}
				if s := p.Stats(); s.Blocks != len(out) {
					t.Fatalf("%d are out: %+v", len(out), s)
				}
			},
		})
		m.failFree = false
		if err := p.Close(); (err != nil) != (len(out) > 0) {
			t.Fatalf("closed with %d blocks out: %v", len(out), err)
		}
		for _, b := range out {
			if err := p.Put(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil || m.bytes != 0 || m.badFree || p.Stats().Used != 0 {
			t.Fatalf("%v, %d bytes are left, %+v", err, m.bytes, p.Stats())
		}
	})
}

func TestKeptBlocksServeAgain(t *testing.T) {
	m := newMemory()
	p := m.pool(100<<10, 64<<10)
	b, err := p.Get(40_000)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(b); err != nil || m.freed != 0 {
		t.Fatalf("%v, %d freed", err, m.freed)
	}
	again, err := p.Get(39_000)
	if err != nil || unsafe.SliceData(again) != unsafe.SliceData(b) || p.Stats().Reused != 1 {
		t.Fatalf("%v, %+v", err, p.Stats())
	}
	if err := p.Put(again); err != nil {
		t.Fatal(err)
	}
	// The budget is needed for another size.
	large, err := p.Get(90_000)
	if err != nil || m.freed != 1 {
		t.Fatalf("%v, %d freed", err, m.freed)
	}
	if err := p.Put(large); err != nil || m.freed != 2 {
		t.Fatalf("%v: more than may be kept is kept", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(1); shared.KindOf(err) != shared.KindShuttingDown {
		t.Error(err)
	}
}

func TestExhaustedPool(t *testing.T) {
	m := newMemory()
	p := m.pool(64<<10, 0)
	b, err := p.Get(60_000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Get(5000)
	if want := "page-locked host memory is short by 4096 bytes: 8192 are asked for, and of the budget of 65536 there are 61440 in use and 0 that cannot be freed"; err == nil || err.Error() != want || shared.KindOf(err) != shared.KindUnavailable {
		t.Errorf("%v", err)
	}
	if err := m.balanced(p); err != nil {
		t.Error(err)
	}
	m.failFree = true
	if err := p.Put(b); !errors.Is(err, errFree) || shared.KindOf(err) != shared.KindUnavailable {
		t.Error(err)
	}
	if s := p.Stats(); s.Stuck != 61440 || s.Used != 0 {
		t.Errorf("%+v", s)
	}
	if err := p.Close(); shared.KindOf(err) != shared.KindBusy {
		t.Error(err)
	}
	m.failFree = false
	if err := p.Close(); err != nil || m.bytes != 0 {
		t.Errorf("%v, %d", err, m.bytes)
	}
}

func TestWrongArguments(t *testing.T) {
	m := newMemory()
	p := m.pool(0, 0)
	for _, n := range []int64{0, -1, 1 << 62} {
		if _, err := p.Get(n); shared.KindOf(err) != shared.KindInvalid {
			t.Errorf("%d: %v", n, err)
		}
	}
	for _, b := range [][]byte{nil, {}, make([]byte, 10)} {
		if err := p.Put(b); shared.KindOf(err) != shared.KindInvalid {
			t.Error(err)
		}
	}
	m.wrongSize = true
	if b, err := p.Get(10_000); err == nil || b != nil || m.bytes != 0 || p.Stats() != (Stats{}) {
		t.Errorf("%v, %+v", err, p.Stats())
	}
	for _, c := range []Config{{}, {Budget: -1, Alloc: m.alloc, Free: m.free}, {Keep: -1, Alloc: m.alloc, Free: m.free}, {Alloc: m.alloc}} {
		if c.Validate() == nil {
			t.Errorf("%+v", c)
		}
	}
}

// Many callers never hold more than the budget together.
func TestConcurrentCallers(t *testing.T) {
	m := newMemory()
	const budget = 256 << 10
	p := m.pool(budget, 100<<10)
	var refused, served atomic.Int64
	var wg sync.WaitGroup
	for i := range int64(8) {
		wg.Go(func() {
			for j := range int64(200) {
				b, err := p.Get(1 + (i*7919+j*104729)%60_000)
				if err != nil {
					if shared.KindOf(err) != shared.KindUnavailable {
						t.Error(err)
					}
					refused.Add(1)
					continue
				}
				served.Add(1)
				b[len(b)-1] = byte(i)
				if s := p.Stats(); s.Used+s.Idle+s.Stuck > budget {
					t.Errorf("%+v", s)
				}
				if b[len(b)-1] != byte(i) {
					t.Error("two callers have one block")
				}
				if err := p.Put(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if served.Load() == 0 {
		t.Errorf("%d were refused", refused.Load())
	}
	if err := p.Close(); err != nil || m.bytes != 0 || m.badFree {
		t.Errorf("%v, %d bytes are left", err, m.bytes)
	}
}

// A pool that is closed while memory is being locked hands it out no more.
func TestCloseDuringGet(t *testing.T) {
	m := newMemory()
	entered, leave := make(chan struct{}), make(chan struct{})
	p := New(Config{Alloc: func(n int64) ([]byte, error) {
		close(entered)
		<-leave
		return m.alloc(n)
	}, Free: m.free})
	got := make(chan error, 1)
	go func() {
		_, err := p.Get(5000)
		got <- err
	}()
	<-entered
	if err := p.Close(); shared.KindOf(err) != shared.KindBusy {
		t.Error(err)
	}
	close(leave)
	if err := <-got; shared.KindOf(err) != shared.KindShuttingDown || m.bytes != 0 {
		t.Errorf("%v, %d bytes are left", err, m.bytes)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
