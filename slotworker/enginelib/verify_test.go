package enginelib

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// installed is an engine that an operator's directory was copied to.
func installed(t *testing.T) string {
	t.Helper()
	in := newInstaller(t, nil)
	in.from = fakeDir(t)
	if _, err := in.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return in.dir
}

func TestVerifyFindsDamage(t *testing.T) {
	lib := func(dir string) string { return filepath.Join(dir, "libggml-base"+extension()) }
	manifest := func(t *testing.T, dir string, change func(*Manifest)) {
		m, err := readManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		change(m)
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, manifestName), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
		quick  bool // also found without reading the files
	}{
		{"flipped byte", func(t *testing.T, dir string) { flip(t, lib(dir)) }, "sha256", false},
		{"longer", func(t *testing.T, dir string) { write(t, lib(dir), "base and more") }, "bytes instead", true},
		{"missing", func(t *testing.T, dir string) { remove(t, lib(dir)) }, "is missing", true},
		{"missing link", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "libllama"+extension())) }, "link", true},
		{"wrong link", func(t *testing.T, dir string) {
			link := filepath.Join(dir, "libllama"+extension())
			remove(t, link)
			if err := os.Symlink("libggml"+extension(), link); err != nil {
				t.Fatal(err)
			}
		}, "leads to", true},
		{"link instead of file", func(t *testing.T, dir string) {
			remove(t, lib(dir))
			if err := os.Symlink("/etc/hostname", lib(dir)); err != nil {
				t.Fatal(err)
			}
		}, "not a plain file", true},
		{"one library more", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "libggml-evil.so"), "x") }, "was not installed", true},
		{"no manifest in it", func(t *testing.T, dir string) { write(t, filepath.Join(dir, manifestName), "{") }, "cannot read manifest.json", true},
		{"other version", func(t *testing.T, dir string) { manifest(t, dir, func(m *Manifest) { m.Version = "0.6.0" }) }, `version "0.6.0"`, true},
		{"climbing name", func(t *testing.T, dir string) {
			manifest(t, dir, func(m *Manifest) { m.Files[0].Name = "../libllama.so" })
		}, "names file", true},
		{"claims to be the package", func(t *testing.T, dir string) {
			p, ok := pinFor("linux", "amd64", CPU)
			if !ok {
				t.Fatal("no pin")
			}
			manifest(t, dir, func(m *Manifest) { m.Integrity = p.Integrity })
		}, "does not describe the pinned package", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := installed(t)
			if err := Verify(dir); err != nil {
				t.Fatal(err)
			}
			tt.damage(t, dir)
			err := Verify(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) || shared.KindOf(err) != shared.KindEngineMissing {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			t.Setenv(EnvDir, dir)
			if _, err := Locate(t.Context()); (err != nil) != tt.quick {
				t.Errorf("Locate says %v", err)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	byHand := fakeDir(t)
	t.Setenv(EnvDir, byHand)
	if dir, err := Locate(t.Context()); err != nil || dir != byHand {
		t.Errorf("a directory filled by hand: %q, %v", dir, err)
	}
	write(t, filepath.Join(byHand, "libllama"+extension()+".0.5.0"), "code\x000.5.1\x00")
	if _, err := Locate(t.Context()); err == nil || !strings.Contains(err.Error(), "not version") || !strings.Contains(err.Error(), EnvDir) {
		t.Errorf("another version: %v", err)
	}
	t.Setenv(EnvDir, filepath.Join(byHand, "missing"))
	if _, err := Locate(t.Context()); shared.KindOf(err) != shared.KindEngineMissing {
		t.Errorf("no directory: %v", err)
	}
	t.Setenv(EnvDir, "")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("LD_LIBRARY_PATH", "")
	if _, err := Locate(t.Context()); err == nil || !strings.Contains(err.Error(), "engine install") {
		t.Errorf("nothing installed: %v", err)
	}
	system := fakeDir(t)
	t.Setenv("LD_LIBRARY_PATH", "relative:"+system)
	if dir, err := Locate(t.Context()); err != nil || dir != system {
		t.Errorf("a system library: %q, %v", dir, err)
	}
	// A later build of the same series has no version in its file name.
	for _, link := range []string{"libllama" + extension(), "libllama" + extension() + ".0"} {
		remove(t, filepath.Join(system, link))
	}
	write(t, filepath.Join(system, "libllama"+extension()), "code\x000.5.0-dev\x00")
	if _, err := Locate(t.Context()); err == nil {
		t.Error("a library without the version in its name passes")
	}
}

func TestHasVersion(t *testing.T) {
	for data, want := range map[string]bool{
		"\x000.5.0\x00": true, "\x000.5.0-dev\x00": true, "\x000.5.0": false, "0.5.0\x00": false,
		"\x0010.5.0\x00": false, "\x000.5.01\x00": false, "\x000.5.0.1\x00": false,
		"\x000.5.0.1\x00..\x000.5.0-dev\x00": true, "": false,
	} {
		if got := hasVersion([]byte(data)); got != want {
			t.Errorf("%q: %v", data, got)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"version":"0.5.0","os":"linux","arch":"amd64","files":[{"name":"libllama.so"}]}`))
	f.Add([]byte(`{"files":[{"name":"../x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, manifestName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readManifest(dir)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if filepath.Base(file.Name) != file.Name {
				t.Errorf("%q leaves the directory", file.Name)
			}
		}
		if m.verify(dir, pin{}) == nil && len(m.Files) > 0 {
			t.Error("files that are not there were found")
		}
	})
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
