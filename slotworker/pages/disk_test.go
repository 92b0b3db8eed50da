package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkDirectory compares the books with what is there.
func checkDirectory(t *testing.T, r *rig) {
	t.Helper()
	list, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	var all Tier
	owners := 0
	for _, e := range list {
		switch {
		case strings.HasSuffix(e.Name(), pageSuffix):
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			all.Pages++
			all.Bytes += info.Size()
		case strings.HasPrefix(e.Name(), ownerPrefix):
			owners++
		case e.Name() != lockName && e.Name() != usageName && e.Name() != quarantineDir:
			t.Errorf("%s was left", filepath.Join(r.dir, e.Name()))
		}
	}
	if owners != 1 {
		t.Errorf("%d stores say that they live", owners)
	}
	if got := r.Stats().DiskAll; got != all {
		t.Errorf("the books say %+v, the directory has %+v", got, all)
	}
}
