package bench

import (
	"runtime"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Here describes this machine and this program. The engine's build for the
// processor is known once a worker has loaded it: see CPUVariant.
func Here(now time.Time) Environment {
	e := Environment{
		Time: now.UTC().Format(time.RFC3339), Version: shared.BuildVersion(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Cores: runtime.NumCPU(), Engine: "llama.cpp " + shared.EngineVersion, Go: runtime.Version(),
	}
	e.CPU, e.MemoryMB, e.LoadAverage = machine()
	return e
}

// NotComparable says what of two sides differs, or could not be found out, and
// may explain what is then read as a difference of the servers.
func NotComparable(ours, theirs PeerInfo) []string {
	list := []string{}
	check := func(what, o, t string) {
		switch {
		case t == "":
			list = append(list, what+": ours is "+orNone(o)+", theirs is not known")
		case o != t:
			list = append(list, what+": ours is "+orNone(o)+", theirs is "+t)
		}
	}
	check("engine version", ours.Engine, theirs.Engine)
	check("CPU variant of the engine", ours.CPUVariant, theirs.CPUVariant)
	check("thread count", ours.Threads, theirs.Threads)
	return list
}
