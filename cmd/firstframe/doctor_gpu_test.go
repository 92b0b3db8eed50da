package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDriverIsFoundAsTheLoaderFindsIt(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "ld.so.cache")
	if c := driverCheck([]string{dir}, cache); c.OK || !strings.Contains(c.Detail, "libcuda.so.1") {
		t.Errorf("without anything: %+v", c)
	}
	if err := os.WriteFile(cache, []byte("head\x00libcuda.so.1\x00/opt/driver/libcuda.so.1\x00/opt/libcuda.so.10\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := driverCheck([]string{dir}, cache); !c.OK || !strings.HasPrefix(c.Detail, "/opt/driver/libcuda.so.1") {
		t.Errorf("in the loader's cache: %+v", c)
	}
	if err := os.WriteFile(filepath.Join(dir, "libcuda.so.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := driverCheck([]string{dir}, cache); !c.OK || !strings.HasPrefix(c.Detail, dir) {
		t.Errorf("in a folder: %+v", c)
	}
}
