//go:build !linux

package bench

// machine knows nothing here: there is no /proc.
func machine() (cpu string, memoryMB int64, load string) { return "", 0, "" }

// CPUVariant cannot be seen here.
func CPUVariant(int) string { return "" }

// Inspect sees nothing here.
func (i *PeerInfo) Inspect() {}

// CPUTime cannot be seen here.
func CPUTime(int) float64 { return 0 }
