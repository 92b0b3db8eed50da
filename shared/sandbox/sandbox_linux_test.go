package sandbox

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asConfined makes the test program confine itself and try what it was told to.
const asConfined = "SANDBOX_TEST"

// attempts is what a confined process tries, and what came of it.
type attempts struct {
	Policy  Policy
	Read    []string
	Write   []string
	Connect string
	// Errors are by path or address; empty for what went well.
	Errors     map[string]string
	Report     Report
	Files      uint64
	Core       uint64
	OOMScore   string
	Privileges bool
	Env        []string
}

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(asConfined); ok {
		try(text)
		return
	}
	os.Exit(m.Run())
}

func try(text string) {
	var a attempts
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		panic(err)
	}
	a.Report = Enter(a.Policy)
	a.Errors = map[string]string{}
	note := func(what string, err error) {
		a.Errors[what] = ""
		if err != nil {
			a.Errors[what] = err.Error()
		}
	}
	for _, path := range a.Read {
		text, err := os.ReadFile(path)
		if err == nil && len(text) == 0 {
			err = errors.New("it is empty")
		}
		note(path, err)
	}
	for _, path := range a.Write {
		note("write "+path, os.WriteFile(path, []byte("x"), 0o600))
	}
	if a.Connect != "" {
		conn, err := net.DialTimeout("tcp", a.Connect, 10*time.Second)
		if err == nil {
			_ = conn.Close()
		}
		note(a.Connect, err)
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	a.Files = limit.Max
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	a.Core = limit.Max
	score, _ := os.ReadFile("/proc/self/oom_score_adj")
	a.OOMScore = strings.TrimSpace(string(score))
	private, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	a.Privileges = private == 0
	a.Env = os.Environ()
	_ = json.NewEncoder(os.Stdout).Encode(a)
}

func confined(t *testing.T, a attempts) attempts {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{asConfined + "=" + string(text), "KEPT=yes"}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

func TestConfinement(t *testing.T) {
	dir := t.TempDir()
	own, model, secret := filepath.Join(dir, "own"), filepath.Join(dir, "model.gguf"), filepath.Join(dir, "secret")
	for _, path := range []string{model, secret} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours := filepath.Join("/proc", strconv.Itoa(os.Getpid()), "environ")
	ask := attempts{
		Policy: Policy{Read: []string{model, filepath.Join(dir, "missing")}, Write: []string{own}, EndWithParent: true, OpenFiles: 64, OOMScore: 321},
		Read:   []string{model, secret, "/proc/self/maps", ours},
		Write:  []string{filepath.Join(own, "page"), model, filepath.Join(dir, "new"), "/dev/null"}, Connect: listener.Addr().String(),
	}
	got := confined(t, ask)
	t.Log(got.Report)
	if got.Files != 64 || got.Core != 0 || got.OOMScore != "321" || got.Privileges {
		t.Errorf("files %d, core %d, OOM score %s, privileges %v", got.Files, got.Core, got.OOMScore, got.Privileges)
	}
	if !slices.Contains(got.Env, "KEPT=yes") || slices.ContainsFunc(got.Env, func(v string) bool { return strings.HasPrefix(v, envReport) }) {
		t.Errorf("environment %q", got.Env)
	}
	allowed := []string{model, "/proc/self/maps", "write " + filepath.Join(own, "page"), "write /dev/null"}
	for _, what := range allowed {
		if got.Errors[what] != "" {
			t.Errorf("%s was refused: %s", what, got.Errors[what])
		}
	}
	// What the kernel does not offer has to be said, and nothing else may be missing.
	abi, err := Landlock()
	text := got.Report.String()
	if (err != nil) != strings.Contains(text, "not by") && !strings.Contains(text, "network namespace (") {
		t.Errorf("Landlock: %v, report %q", err, text)
	}
	if err != nil {
		return
	}
	for _, what := range []string{secret, ours, "write " + model, "write " + filepath.Join(dir, "new")} {
		if got.Errors[what] == "" {
			t.Errorf("%s was allowed", what)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file outside was made: %v", err)
	}
	if abi >= 4 && got.Errors[listener.Addr().String()] == "" {
		t.Error("a TCP connection was allowed")
	}
	ask.Policy.Network = true
	if got := confined(t, ask); got.Errors[ask.Connect] != "" || got.Errors[secret] == "" {
		t.Errorf("with the network: %v", got.Errors)
	}
}

func TestReportSurvivesTheStart(t *testing.T) {
	var r Report
	r.note("one", nil)
	r.note("two", errors.New("a; b | c"))
	r.Open = []string{OpenTCP, OpenUDP}
	name, value, _ := strings.Cut(r.encode(), "=")
	t.Setenv(name, value)
	if got, ok := second(); !ok || got.String() != "confined by one; not by two (a, b / c); not denied: TCP, UDP and MPTCP" || got.Denies(OpenUDP) || !got.Denies(OpenFiles) {
		t.Errorf("%v %q", ok, got)
	}
	if _, ok := second(); ok {
		t.Error("the variable is still there")
	}
}

func TestWhatIsOpen(t *testing.T) {
	all := []string{OpenFiles, OpenPrograms, OpenTracing, OpenSignals, OpenTCP, OpenUDP, OpenAbstract, OpenPathSockets}
	for _, tt := range []struct {
		policy  Policy
		abi     int
		network bool
		open    []string
	}{
		{Policy{}, 0, false, all},
		{Policy{}, 0, true, []string{OpenFiles, OpenPrograms, OpenTracing, OpenSignals, OpenPathSockets}},
		{Policy{}, 3, false, []string{OpenSignals, OpenTCP, OpenUDP, OpenAbstract, OpenPathSockets}},
		{Policy{}, 6, false, []string{OpenUDP, OpenPathSockets}},
		{Policy{}, 6, true, []string{OpenPathSockets}},
		{Policy{Network: true}, 4, false, []string{OpenSignals, OpenAbstract, OpenPathSockets}},
	} {
		if got := tt.policy.open(tt.abi, tt.network); !slices.Equal(got, tt.open) {
			t.Errorf("ABI %d, empty network %v: %q, want %q", tt.abi, tt.network, got, tt.open)
		}
	}
}
