package slotworker

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/firstframe/firstframe/shared"
)

// leastSaving is the part of the pageable time that locking has to save before it
// is worth taking memory away from everybody else: less is within what two probes
// of one device differ.
const leastSaving = 0.05

// ChooseTransfer is what transfer = "auto" means for a host buffer of size bytes
// that goes to the device uploads times in its life: once when it stays there,
// more often when it is evicted and comes back. The reason names both bandwidths.
func ChooseTransfer(probe shared.TransferProbe, size int64, uploads int) (shared.Transfer, string) {
	if len(probe.Points) == 0 {
		return shared.TransferPageable, "pageable: the device was not probed"
	}
	at := probe.Points[0]
	for _, p := range probe.Points {
		if p.Bytes <= size {
			at = p
		}
	}
	pageable := fmt.Sprintf("pageable memory copies at %s", rate(at.Pageable))
	if probe.PinBytesPerSecond <= 0 || at.Pinned <= 0 {
		reason := "pageable: page-locking was refused"
		if probe.PinNote != "" {
			reason += " (" + probe.PinNote + ")"
		}
		return shared.TransferPageable, reason + "; " + pageable
	}
	both := fmt.Sprintf("page-locked memory copies at %s and %s", rate(at.Pinned), pageable)
	if at.Pageable <= 0 {
		return shared.TransferPinned, "pinned: " + both
	}
	times := float64(max(uploads, 1))
	locking := float64(size) / probe.PinBytesPerSecond
	slow := float64(size) / at.Pageable
	saved := slow - float64(size)/at.Pinned
	if times*saved-locking < leastSaving*times*slow {
		return shared.TransferPageable, fmt.Sprintf("pageable: %s, which saves %s a copy while locking takes %s", both, seconds(max(saved, 0)), seconds(locking))
	}
	return shared.TransferPinned, fmt.Sprintf("pinned: %s; locking takes %s and saves %s a copy", both, seconds(locking), seconds(saved))
}

func rate(bytesPerSecond float64) string {
	return humanize.Bytes(uint64(max(bytesPerSecond, 0))) + "/s"
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}
