package leak

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestWhatIsLeftIsFound(t *testing.T) {
	end := make(chan struct{})
	go waitsFor(end)
	if err := find(0); err == nil || !strings.Contains(err.Error(), "waitsFor") {
		t.Errorf("with a goroutine left: %v", err)
	}
	close(end)
	None(t)
}

func waitsFor(end <-chan struct{}) { <-end }
