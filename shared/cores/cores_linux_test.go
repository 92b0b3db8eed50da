package cores

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCount(t *testing.T) {
	// Two cores of two threads each, as most desktops number them.
	dir := t.TempDir()
	for cpu, siblings := range []string{"0,2\n", "1,3\n", "0,2\n", "1,3\n"} {
		topology := filepath.Join(dir, "cpu"+strconv.Itoa(cpu), "topology")
		if err := os.MkdirAll(topology, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(topology, "thread_siblings_list"), []byte(siblings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		allowed []int
		want    int
	}{
		{[]int{0, 1, 2, 3}, 2},
		{[]int{0, 2}, 1},
		{[]int{2, 3}, 2},
		{[]int{3}, 1},
		{[]int{0, 7}, 0}, // one that is not described
		{nil, 0},
	} {
		var set unix.CPUSet
		for _, cpu := range c.allowed {
			set.Set(cpu)
		}
		if got := count(dir, &set); got != c.want {
			t.Errorf("processors %v: %d cores, want %d", c.allowed, got, c.want)
		}
	}
	if got := Usable(); got < 1 || got > runtime.GOMAXPROCS(0) {
		t.Errorf("%d usable cores of %d", got, runtime.GOMAXPROCS(0))
	}
}
