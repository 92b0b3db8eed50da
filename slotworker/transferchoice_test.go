package slotworker

import (
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestChooseTransfer(t *testing.T) {
	const gb = 1e9
	fast := shared.TransferProbe{PinBytesPerSecond: 5 * gb, Points: []shared.ProbePoint{
		{Bytes: 64 << 10, Pageable: 4 * gb, Pinned: 3 * gb},
		{Bytes: 1 << 20, Pageable: 6 * gb, Pinned: 18 * gb},
		{Bytes: 64 << 20, Pageable: 8 * gb, Pinned: 25 * gb},
	}}
	with := func(change func(*shared.TransferProbe)) shared.TransferProbe {
		p := fast
		change(&p)
		return p
	}
	for _, c := range []struct {
		name    string
		probe   shared.TransferProbe
		size    int64
		uploads int
		want    shared.Transfer
		reason  string
	}{
		{
			"evicted and back", fast, 2 * gb, 8, shared.TransferPinned,
			"pinned: page-locked memory copies at 25 GB/s and pageable memory copies at 8.0 GB/s; locking takes 400ms and saves 170ms a copy",
		},
		{
			"copied once", fast, 2 * gb, 1, shared.TransferPageable,
			"pageable: page-locked memory copies at 25 GB/s and pageable memory copies at 8.0 GB/s, which saves 170ms a copy while locking takes 400ms",
		},
		{"no uploads are one", fast, 2 * gb, 0, shared.TransferPageable, ""},
		{"locking is nearly free", with(func(p *shared.TransferProbe) { p.PinBytesPerSecond = 1000 * gb }), 2 * gb, 1, shared.TransferPinned, ""},
		{
			"pinned copies are slower at this size", fast, 64 << 10, 1000, shared.TransferPageable,
			"pageable: page-locked memory copies at 3.0 GB/s and pageable memory copies at 4.0 GB/s, which saves 0s a copy while locking takes 10µs",
		},
		{"the point below the size counts", fast, 2 << 20, 1000, shared.TransferPinned, "pinned: page-locked memory copies at 18 GB/s and pageable memory copies at 6.0 GB/s; locking takes 420µs and saves 230µs a copy"},
		{"below every point", fast, 10, 1000, shared.TransferPageable, ""},
		{
			"the same within what probes differ", shared.TransferProbe{PinBytesPerSecond: 1e6 * gb, Points: []shared.ProbePoint{{Bytes: 1, Pageable: 10 * gb, Pinned: 10.3 * gb}}},
			gb, 100, shared.TransferPageable, "",
		},
		{
			"refused", shared.TransferProbe{PinNote: "the memlock limit is 8 MB", Points: []shared.ProbePoint{{Bytes: 1 << 20, Pageable: 6 * gb}}}, gb, 8, shared.TransferPageable,
			"pageable: page-locking was refused (the memlock limit is 8 MB); pageable memory copies at 6.0 GB/s",
		},
		{"refused without a word", shared.TransferProbe{Points: []shared.ProbePoint{{Bytes: 1 << 20, Pageable: 6 * gb}}}, gb, 8, shared.TransferPageable, "pageable: page-locking was refused; pageable memory copies at 6.0 GB/s"},
		{"pageable copies fail", shared.TransferProbe{PinBytesPerSecond: gb, Points: []shared.ProbePoint{{Bytes: 1 << 20, Pinned: 6 * gb}}}, gb, 1, shared.TransferPinned, "pinned: page-locked memory copies at 6.0 GB/s and pageable memory copies at 0 B/s"},
		{"not probed", shared.TransferProbe{}, gb, 8, shared.TransferPageable, "pageable: the device was not probed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reason := ChooseTransfer(c.probe, c.size, c.uploads)
			if got != c.want || c.reason != "" && reason != c.reason {
				t.Errorf("%s: %s", got, reason)
			}
		})
	}
}
