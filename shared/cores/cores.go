// Package cores says how many threads an engine gets unless somebody says
// otherwise: one for each physical core. The threads of an engine spin while they
// wait for each other, so that a second one on a core takes from the first what it
// gives, and from the rest of the machine as well.
package cores

import "runtime"

// Usable is the number of physical cores that this process may use, at least
// one, and not more than its control group or GOMAXPROCS allows at a time.
func Usable() int {
	most := runtime.GOMAXPROCS(0)
	if n := physical(); n > 0 {
		return min(n, most)
	}
	return most
}
