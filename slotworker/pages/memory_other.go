//go:build !linux

package pages

type mappedMemory struct{}

// NewMappedMemory is memory from the system.
func NewMappedMemory() Memory { return mappedMemory{} }

func (mappedMemory) Map(bytes int) ([]byte, error) { return make([]byte, bytes), nil }

func (mappedMemory) Unmap([]byte) error { return nil }
