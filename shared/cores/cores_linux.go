package cores

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physical counts the cores of the processors that this process may run on; 0
// when the system does not tell.
func physical() int {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return 0
	}
	return count("/sys/devices/system/cpu", &allowed)
}

// count counts cores by which processors share one. A core that may be used in
// part is one.
func count(dir string, allowed *unix.CPUSet) int {
	seen := map[string]bool{}
	for left, cpu := allowed.Count(), 0; left > 0; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		left--
		siblings, err := os.ReadFile(filepath.Join(dir, "cpu"+strconv.Itoa(cpu), "topology", "thread_siblings_list"))
		if err != nil {
			return 0
		}
		seen[strings.TrimSpace(string(siblings))] = true
	}
	return len(seen)
}
