//go:build cuda

package cuda

// #include <cuda.h>
import "C"

import (
	"errors"

	"gorgonia.org/cu"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// result is a result of the driver as cu's functions give them, whose type cu
// keeps to itself.
func result(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return coded(cu.Success, code)
}

func coded[T interface {
	~int
	error
}](_ T, code C.CUresult) error {
	return T(code)
}

// fatal reports whether the context cannot be used any more after an error. The
// driver answers every later call with the same one.
func fatal(err error) bool {
	for _, code := range []C.CUresult{
		C.CUDA_ERROR_DEINITIALIZED,
		C.CUDA_ERROR_DEVICE_UNAVAILABLE,
		C.CUDA_ERROR_ECC_UNCORRECTABLE,
		C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		C.CUDA_ERROR_ILLEGAL_ADDRESS,
		C.CUDA_ERROR_LAUNCH_TIMEOUT,
		C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
		C.CUDA_ERROR_ASSERT,
		C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION,
		C.CUDA_ERROR_MISALIGNED_ADDRESS,
		C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC,
		C.CUDA_ERROR_LAUNCH_FAILED,
		C.CUDA_ERROR_EXTERNAL_DEVICE,
		C.CUDA_ERROR_UNKNOWN,
	} {
		if errors.Is(err, result(code)) {
			return true
		}
	}
	return false
}

// failure is the error of something that the driver did not do. It runs on the
// owner, which remembers a device that was lost.
func (d *device) failure(op string, err error) error {
	var typed *shared.Error
	switch {
	case errors.As(err, &typed):
		return err
	case fatal(err):
		if d.lost == nil {
			d.lost = err
		}
		return d.lostError(op)
	case errors.Is(err, cu.OutOfMemory):
		return shared.Errorf(shared.KindUnavailable, "%s: %w", op, err)
	case errors.Is(err, cu.NotSupported), errors.Is(err, cu.NotPermitted):
		return shared.Errorf(shared.KindUnsupported, "%s: %w", op, err)
	default:
		return shared.Errorf(shared.KindEngine, "%s: %w", op, err)
	}
}

func (d *device) lostError(op string) error {
	return shared.Errorf(shared.KindUnavailable, "%s: %s said %v: %w", op, d.info.Name, d.lost, slotworker.ErrDeviceLost)
}
