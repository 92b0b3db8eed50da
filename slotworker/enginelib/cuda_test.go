package enginelib

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// cudaPackages are the two packages of an engine with CUDA.
func cudaPackages(t *testing.T) (first, second []byte) {
	t.Helper()
	return tarball(t, append(fakeEntries(), entry{name: fakeFolder + "/libggml-cuda.so", data: "cuda 13"})),
		tarball(t, []entry{{name: "package/package.json", data: "{}"}, {name: fakeFolder + "/fallback/libggml-cuda.so", data: "cuda 12"}})
}

// cudaInstaller gets the packages from a client that fetches what is given.
func cudaInstaller(t *testing.T, first, second []byte) *installer {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"fake.tgz": first, "more.tgz": second} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	npm := filepath.Join(dir, "npm")
	script := fmt.Sprintf("#!/bin/sh\nname=${2%%@*}\nfor last; do :; done\ncp %s/$name.tgz \"$last/package.tgz\"\n", dir)
	if err := os.WriteFile(npm, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	good, more := cudaPackages(t)
	pinned, also := fakePin(good), fakePin(more)
	also.Package, also.Dir, also.As = "more", fakeFolder+"/fallback", secondCUDA
	pinned.Also = &also
	m := &Manifest{}
	for _, e := range append(fakeEntries(), entry{name: fakeFolder + "/libggml-cuda.so", data: "cuda 13"}, entry{name: fakeFolder + "/" + secondCUDA, data: "cuda 12"}) {
		if name := filepath.Base(e.name); filepath.Dir(e.name) == fakeFolder && part(name) != "" {
			m.Files = append(m.Files, File{Name: name, Size: int64(len(e.data)), SHA256: sha256Of(e.data)})
		}
	}
	pinned.Files = m.fingerprint()
	return &installer{
		dir: filepath.Join(t.TempDir(), "engine"), device: CUDA, npm: npm, pin: pinned, pinned: true,
		progress: func(Progress) {}, log: func(line string) { t.Log(line) },
	}
}

func TestInstallCUDA(t *testing.T) {
	in := cudaInstaller(t, first(cudaPackages(t)), second(cudaPackages(t)))
	result, err := in.install(t.Context())
	if err != nil || result.Source != "fake@1 and more@1" {
		t.Fatalf("%+v, %v", result, err)
	}
	for name, want := range map[string]string{"libggml-cuda.so": "cuda 13", secondCUDA: "cuda 12"} {
		if b, err := os.ReadFile(filepath.Join(in.dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if again, err := in.install(t.Context()); err != nil || !again.Reused {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	t.Setenv(EnvCUDADir, in.dir)
	if dir, err := LocateCUDA(t.Context()); err != nil || dir != in.dir {
		t.Errorf("found in %q, %v", dir, err)
	}
	if err := os.WriteFile(filepath.Join(in.dir, secondCUDA), []byte("cuda 11"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Verify(in.dir); err == nil || !strings.Contains(err.Error(), CUDA.command()) {
		t.Errorf("a changed library: %v", err)
	}
}

func first(a, _ []byte) []byte  { return a }
func second(_, b []byte) []byte { return b }

func TestInstallCUDARefusesBadPackages(t *testing.T) {
	good, more := cudaPackages(t)
	for name, packages := range map[string][2][]byte{
		"another second package": {good, tarball(t, []entry{{name: fakeFolder + "/fallback/libggml-cuda.so", data: "evil"}})},
		"another first package":  {more, more},
	} {
		in := cudaInstaller(t, packages[0], packages[1])
		if _, err := in.install(t.Context()); shared.KindOf(err) != shared.KindEngineMissing || !strings.Contains(err.Error(), "integrity") {
			t.Errorf("%s: %v", name, err)
		}
		if left := names(t, filepath.Dir(in.dir)); len(left) != 1 {
			t.Errorf("%s: left behind %v", name, left)
		}
	}
	in := cudaInstaller(t, good, more)
	in.from = filepath.Join(filepath.Dir(in.npm), "fake.tgz")
	if _, err := in.install(t.Context()); err == nil || !strings.Contains(err.Error(), "two packages") {
		t.Errorf("one tarball of two: %v", err)
	}
}

// A folder with both packages unpacked gives both backends, and one without any no
// engine for CUDA. The engine without CUDA takes neither.
func TestInstallCUDAFromDirectory(t *testing.T) {
	dir := fakeDir(t)
	in := cudaInstaller(t, nil, nil)
	in.from = dir
	if _, err := in.install(t.Context()); err == nil || !strings.Contains(err.Error(), "no libggml-cuda") {
		t.Errorf("without a backend: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "fallback"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libggml-cuda.so", "fallback/libggml-cuda.so"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, in.dir); !slices.Contains(got, "libggml-cuda.so") || !slices.Contains(got, secondCUDA) || Verify(in.dir) != nil {
		t.Errorf("installed %v, %v", got, Verify(in.dir))
	}
	plain := newInstaller(t, nil)
	plain.from = dir
	if _, err := plain.install(t.Context()); err != nil || HasCUDA(plain.dir) {
		t.Errorf("for the CPU: %v, %v", names(t, plain.dir), err)
	}
	// An engine of somebody else's making that has a backend will do.
	for _, home := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(home, t.TempDir()) // what this machine has installed has no say
	}
	t.Setenv(EnvCUDADir, "")
	t.Setenv(EnvDir, dir)
	if found, err := LocateCUDA(t.Context()); err != nil || found != dir {
		t.Errorf("found %q, %v", found, err)
	}
	t.Setenv(EnvDir, plain.dir)
	if found, err := LocateCUDA(t.Context()); shared.KindOf(err) != shared.KindEngineMissing || !strings.Contains(err.Error(), CUDA.command()) {
		t.Errorf("found %q, %v", found, err)
	}
}
