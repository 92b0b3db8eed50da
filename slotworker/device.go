package slotworker

import (
	"context"
	"errors"

	"github.com/firstframe/firstframe/shared"
)

// Device is what a slot computes on when that is not the CPU. Its methods may be
// called from any goroutine; they fail with a shared.Error.
type Device interface {
	Info() shared.DeviceInfo
	// Memory asks the driver; others may use the device too.
	Memory() (free, total int64, err error)
	// AllocHost gives page-locked memory that any context of the process may copy from.
	AllocHost(bytes int64) ([]byte, error)
	FreeHost(b []byte) error
	// RegisterHost page-locks memory that is there already, such as a mapped file.
	RegisterHost(b []byte) error
	UnregisterHost(b []byte) error
	// Probe measures copies from pageable and from page-locked memory. The first
	// call measures, later ones give the same.
	Probe(ctx context.Context) (shared.TransferProbe, error)
	Close() error
}

// ErrDeviceLost is the cause of every error that a device gives once its context
// cannot be used any more: only a new process can use the device again.
var ErrDeviceLost = errors.New("the device is lost")
