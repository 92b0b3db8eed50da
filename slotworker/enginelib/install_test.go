package enginelib

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func sha256Of(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestInstallTakesOnlyTheLibraries(t *testing.T) {
	in := newInstaller(t, tarball(t, fakeEntries()))
	result, err := in.install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.Reused || result.Source != "fake@1" || result.Dir != in.dir {
		t.Errorf("result %+v", result)
	}
	ext := extension()
	want := []string{
		"libggml-base" + ext, "libggml-cpu-x64.so", "libggml" + ext, "libggml.v0.5.0" + ext,
		"libllama" + ext, "libllama.v0.5.0" + ext, manifestName,
	}
	slices.Sort(want)
	if got := names(t, in.dir); !slices.Equal(got, want) {
		t.Errorf("installed %v, want %v", got, want)
	}
	if target, err := os.Readlink(filepath.Join(in.dir, "libllama"+ext)); err != nil || target != "libllama.v0.5.0"+ext {
		t.Errorf("libllama leads to %q, %v", target, err)
	}
	if got := names(t, filepath.Dir(in.dir)); len(got) != 2 {
		t.Errorf("left beside the engine: %v", got)
	}
}

func TestInstallRefusesBadPackages(t *testing.T) {
	good := tarball(t, fakeEntries())
	with := func(e entry) []byte { return tarball(t, append(fakeEntries(), e)) }
	without := func(name string) []byte {
		return tarball(t, slices.DeleteFunc(fakeEntries(), func(e entry) bool { return strings.Contains(e.name, name) }))
	}
	old := fakeEntries()
	for i := range old {
		old[i].data = strings.ReplaceAll(old[i].data, "0.5.0-dev", "0.5.01")
	}
	tests := []struct {
		name    string
		data    []byte
		trusted []byte // what the pin was made from, nil for data itself
		want    string
	}{
		{"other package", with(entry{name: "package/x"}), good, "integrity"},
		{"truncated download", good[:len(good)/2], good, "integrity"},
		{"truncated package", good[:len(good)/2], nil, "unexpected EOF"},
		{"no package", []byte("<html>"), nil, "cannot unpack"},
		{"climbing entry", with(entry{name: fakeFolder + "/../../../libllama.so"}), nil, "leaves its folder"},
		{"absolute entry", with(entry{name: "/tmp/libllama.so"}), nil, "leaves its folder"},
		{"link as library", with(entry{name: fakeFolder + "/libggml-cpu-evil.so", kind: tar.TypeSymlink, link: "/etc/passwd"}), nil, "not a plain file"},
		{"same name twice", with(fakeEntries()[3]), nil, "exists"},
		{"two versions", with(entry{name: fakeFolder + "/libllama.v0.6.0" + extension(), data: "x"}), nil, "2 files could be"},
		{"no CPU library", without("libggml-cpu"), nil, "no libggml-cpu"},
		{"no base", without("libggml-base"), nil, "libggml-base"},
		{"another version", tarball(t, old), nil, "not version 0.5.0"},
		{"other contents", with(entry{name: fakeFolder + "/libggml-cpu-new.so", data: "x"}), nil, "does not describe the pinned package"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := newInstaller(t, tt.data)
			if tt.trusted != nil {
				in.pin = fakePin(tt.trusted)
			}
			_, err := in.install(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || shared.KindOf(err) != shared.KindEngineMissing {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(in.dir); err == nil && Verify(in.dir) == nil {
				t.Error("a bad package passes as an engine")
			}
			left := slices.DeleteFunc(names(t, filepath.Dir(in.dir)), func(n string) bool {
				return strings.HasSuffix(n, ".lock")
			})
			if len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestInstallFromDirectory(t *testing.T) {
	in := newInstaller(t, nil)
	in.from = fakeDir(t)
	if _, err := in.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Verify(in.dir); err != nil {
		t.Fatal(err)
	}
	got, err := filepath.EvalSymlinks(filepath.Join(in.dir, "libllama"+extension()+".0"))
	if err != nil || filepath.Base(got) != "libllama"+extension()+".0.5.0" {
		t.Errorf("the versioned name leads to %q, %v", got, err)
	}
	if slices.Contains(names(t, in.dir), "libllama-common"+extension()) {
		t.Error("a library that is not needed was copied")
	}
}

func TestInstallKeepsWhatIsNotOurs(t *testing.T) {
	in := newInstaller(t, tarball(t, fakeEntries()))
	if err := os.MkdirAll(in.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in.dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.install(t.Context()); err == nil || !strings.Contains(err.Error(), "has other files") {
		t.Errorf("error %v", err)
	}
	if got := names(t, in.dir); !slices.Equal(got, []string{"thesis.txt"}) {
		t.Errorf("the directory now holds %v", got)
	}
}

func TestInstallSaysWhatWasTried(t *testing.T) {
	npm := filepath.Join(t.TempDir(), "npm")
	if err := os.WriteFile(npm, []byte("#!/bin/sh\necho 'npm error code E404' >&2\necho 'npm error not found' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	in := newInstaller(t, nil)
	in.from = ""
	in.system = []string{"/nowhere"}
	for want, npm := range map[string]string{"npm is not on PATH": "", "code E404 | not found": npm} {
		in.npm = npm
		_, err := in.install(t.Context())
		if shared.KindOf(err) != shared.KindEngineMissing {
			t.Fatalf("error %v has kind %v", err, shared.KindOf(err))
		}
		for _, part := range []string{want, "/nowhere", "--from", EnvDir, "npm pack fake@1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %q", err, part)
			}
		}
	}
}

func TestInstallEndsWithItsContext(t *testing.T) {
	npm := filepath.Join(t.TempDir(), "npm")
	if err := os.WriteFile(npm, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	in := newInstaller(t, nil)
	in.from, in.npm = "", npm
	ctx, cancel := context.WithCancel(t.Context())
	in.progress = func(p Progress) {
		if p.Stage == "fetching" {
			cancel()
		}
	}
	if _, err := in.install(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Several processes at once: one fetches, the others find its work.
func TestInstallsTakeTurns(t *testing.T) {
	data := tarball(t, fakeEntries())
	base := t.TempDir()
	file, count, npm := filepath.Join(base, "p.tgz"), filepath.Join(base, "count"), filepath.Join(base, "npm")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho fetched >> %s\nfor dir; do :; done\ncp %s \"$dir\"\n", count, file)
	if err := os.WriteFile(npm, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "cache", "engine")
	// What a killed installation leaves has to go.
	stale := filepath.Join(base, "cache", ".engine.new-1")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	p := fakePin(data)
	outs := make(chan string)
	const processes = 6
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{dir, npm, p.Integrity, p.Files}, " "))
		go func() {
			out, err := cmd.CombinedOutput()
			outs <- fmt.Sprint(string(out), err)
		}()
	}
	got := map[string]int{}
	for range processes {
		got[<-outs]++
	}
	if got["reused=false<nil>"] != 1 || got["reused=true<nil>"] != processes-1 {
		t.Errorf("outcomes %v", got)
	}
	fetched, err := os.ReadFile(count)
	if err != nil || strings.Count(string(fetched), "\n") != 1 {
		t.Errorf("fetched %q, %v", fetched, err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the killed installation's directory is still there")
	}
}

// The product's own path: npm, the pinned package, and repair of what is damaged.
func TestInstallFetchesThePinnedPackage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "engine")
	opts := Options{Dir: dir, Log: func(line string) { t.Log(line) }}
	first, err := Install(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if first.Reused || first.Bytes == 0 {
		t.Errorf("first installation %+v", first)
	}
	if again, err := Install(t.Context(), opts); err != nil || !again.Reused {
		t.Errorf("second installation %+v, %v", again, err)
	}
	lib := filepath.Join(dir, "libggml-base"+extension())
	flip(t, lib)
	if err := Verify(dir); err == nil || !strings.Contains(err.Error(), filepath.Base(lib)) {
		t.Errorf("after a flipped byte: %v", err)
	}
	if again, err := Install(t.Context(), opts); err != nil || again.Reused {
		t.Errorf("repair %+v, %v", again, err)
	}
	if err := Verify(dir); err != nil {
		t.Error(err)
	}
}

// flip changes one byte in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
