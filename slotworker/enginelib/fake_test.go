package enginelib

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
)

const fakeFolder = "package/bins/fake"

type entry struct {
	name string
	data string
	kind byte
	link string
}

// fakeEntries is a package as it is published: the libraries and things around
// them that are not wanted.
func fakeEntries() []entry {
	return []entry{
		{name: "package/package.json", data: "{}"},
		{name: fakeFolder + "/llama-addon.node", data: "addon"},
		{name: fakeFolder + "/libllama-common.so", data: "common"},
		{name: fakeFolder + "/libllama.v0.5.0" + extension(), data: "code\x000.5.0-dev\x00more"},
		{name: fakeFolder + "/libggml.v0.5.0" + extension(), data: "ggml"},
		{name: fakeFolder + "/libggml-base" + extension(), data: "base"},
		{name: fakeFolder + "/libggml-cpu-x64.so", data: "cpu"},
		{name: "package/bins/other/libggml-cpu-zen4.so", data: "of another platform"},
	}
}

func tarball(t testing.TB, entries []entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	w := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		if e.kind != 0 {
			h.Typeflag, h.Linkname, h.Size = e.kind, e.link, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// fakePin trusts exactly these bytes and the good package's files.
func fakePin(data []byte) pin {
	sum := sha512.Sum512(data)
	return pin{
		Package: "fake", Version: "1", Dir: fakeFolder,
		Integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		Files:     fakeFiles(),
	}
}

func fakeFiles() string {
	m := &Manifest{}
	for _, e := range fakeEntries() {
		if name := filepath.Base(e.name); filepath.Dir(e.name) == fakeFolder && part(name) != "" {
			m.Files = append(m.Files, File{Name: name, Size: int64(len(e.data)), SHA256: sha256Of(e.data)})
		}
	}
	return m.fingerprint()
}

// newInstaller would install data, given as the operator's tarball.
func newInstaller(t testing.TB, data []byte) *installer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "package.tgz")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return &installer{
		dir: filepath.Join(t.TempDir(), "engine"), from: file, pin: fakePin(data), pinned: true,
		progress: func(Progress) {}, log: func(line string) { t.Log(line) },
	}
}

// fakeDir is a directory that an operator filled by hand.
func fakeDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"libllama" + extension() + ".0.5.0": "code\x000.5.0\x00",
		"libggml" + extension():             "ggml",
		"libggml-base" + extension():        "base",
		"libggml-cpu.so":                    "cpu",
		"libllama-common" + extension():     "common",
		"README":                            "text",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"libllama" + extension():        "libllama" + extension() + ".0",
		"libllama" + extension() + ".0": "libllama" + extension() + ".0.5.0",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
