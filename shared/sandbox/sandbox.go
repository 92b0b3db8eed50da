// Package sandbox takes from a process what it does not need: files, the
// network, new privileges, core dumps. What the kernel does not offer is left
// out and said, since a machine without it has to serve as well.
package sandbox

import (
	"os"
	"slices"
	"strings"
)

// Policy is what a process keeps.
type Policy struct {
	// Read are files and folders that it reads, beside the system's libraries.
	// What does not exist is left out.
	Read []string
	// Write are folders in which it makes, changes and removes files and sockets.
	Write []string
	// Devices are files below /dev that it drives.
	Devices []string
	// Network leaves sockets of the network to it. Those that it has inherited
	// always go on.
	Network bool
	// EndWithParent has the kernel kill the process when its parent ends, also
	// while it is stopped. Whoever started it with a parent-death signal has to say
	// so here as well: that is one thread's, and another one starts the program again.
	EndWithParent bool
	// OpenFiles bounds its file descriptors; 0 leaves the limit as it is.
	OpenFiles uint64
	// OOMScore is how much sooner than others it is ended when memory runs out,
	// up to 1000.
	OOMScore int
}

// What a process may still do, whatever its policy says, where the measure against
// it is missing.
const (
	OpenFiles       = "files of others"
	OpenPrograms    = "programs"
	OpenTracing     = "tracing of other processes"
	OpenSignals     = "signals to other processes"
	OpenTCP         = "TCP"
	OpenUDP         = "UDP and MPTCP" // Landlock does not restrict either
	OpenAbstract    = "abstract Unix sockets"
	OpenPathSockets = "Unix sockets in files"
)

// Names are the files by which a process finds others on the network by their
// names, and knows their certificates.
func Names() []string {
	return []string{
		"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf",
		"/etc/ssl", "/etc/pki", "/etc/ca-certificates",
	}
}

// Report says what holds for this process.
type Report struct {
	// Applied are the measures that hold.
	Applied []string
	// Missing are those that the kernel or the user's rights do not allow, with the reason.
	Missing []string
	// Open is what is not denied to the process although the policy does not leave
	// it to it.
	Open []string
}

// String is the report in one line.
func (r Report) String() string {
	text := "confined by " + strings.Join(r.Applied, ", ")
	if len(r.Applied) == 0 {
		text = "not confined"
	}
	if len(r.Missing) > 0 {
		text += "; not by " + strings.Join(r.Missing, ", ")
	}
	if len(r.Open) > 0 {
		text += "; not denied: " + strings.Join(r.Open, ", ")
	}
	return text
}

// open lists what neither Landlock of this version (0: none) nor an empty network
// namespace denies. No version in use restricts connecting to a socket in a file:
// there the file's owner and mode decide alone.
func (p Policy) open(abi int, emptyNetwork bool) []string {
	var open []string
	add := func(what string, denied bool) {
		if !denied {
			open = append(open, what)
		}
	}
	add(OpenFiles, abi >= 1)
	add(OpenPrograms, abi >= 1)
	add(OpenTracing, abi >= 1)
	add(OpenSignals, abi >= 6)
	add(OpenTCP, p.Network || emptyNetwork || abi >= 4)
	add(OpenUDP, p.Network || emptyNetwork)
	add(OpenAbstract, emptyNetwork || abi >= 6)
	return append(open, OpenPathSockets)
}

// everything is what is open to a process that is not confined at all.
func everything() []string { return Policy{}.open(0, false) }

// Denies reports whether one of the things above is denied.
func (r Report) Denies(what string) bool { return !slices.Contains(r.Open, what) }

// envReport carries the report over the start of the confined program. A process
// that finds it is confined already.
const envReport = "FIRSTFRAME_SANDBOX"

// second reads the report of a process that is confined already.
func second() (Report, bool) {
	text, ok := os.LookupEnv(envReport)
	if !ok {
		return Report{}, false
	}
	_ = os.Unsetenv(envReport) // only a wrong name could fail
	applied, rest, _ := strings.Cut(text, "|")
	missing, open, _ := strings.Cut(rest, "|")
	return Report{Applied: split(applied), Missing: split(missing), Open: split(open)}, true
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ";")
}

func (r Report) encode() string {
	return envReport + "=" + strings.Join(r.Applied, ";") + "|" + strings.Join(r.Missing, ";") + "|" + strings.Join(r.Open, ";")
}

func (r *Report) note(measure string, err error) {
	if err == nil {
		r.Applied = append(r.Applied, measure)
		return
	}
	reason := strings.NewReplacer(";", ",", "|", "/").Replace(err.Error())
	r.Missing = append(r.Missing, measure+" ("+reason+")")
}
