package main

import "github.com/firstframe/firstframe/shared"

type tierJSON struct {
	Pages int   `json:"pages"`
	Bytes int64 `json:"bytes"`
}

// pagesJSON is a slot's account of its context pages since its
// host buffer was filled.
type pagesJSON struct {
	Off              string           `json:"off,omitempty"`
	Device           tierJSON         `json:"device"`
	Host             tierJSON         `json:"host"`
	Disk             tierJSON         `json:"disk"`
	IdleTokens       int64            `json:"idle_tokens"`
	HitDeviceTokens  int64            `json:"hit_device_tokens"`
	HitHostTokens    int64            `json:"hit_host_tokens"`
	HitDiskTokens    int64            `json:"hit_disk_tokens"`
	MissTokens       map[string]int64 `json:"miss_tokens"`
	RecomputedTokens int64            `json:"recomputed_tokens"`
	PrefilledTokens  int64            `json:"prefilled_tokens"`
}

func toPagesJSON(p shared.PageStats) pagesJSON {
	doc := pagesJSON{
		Off: p.Off, Device: tierJSON(p.Device), Host: tierJSON(p.Host), Disk: tierJSON(p.Disk),
		IdleTokens: p.IdleTokens, HitDeviceTokens: p.HitDeviceTokens,
		HitHostTokens: p.HitHostTokens, HitDiskTokens: p.HitDiskTokens, MissTokens: p.MissTokens,
		RecomputedTokens: p.RecomputedTokens, PrefilledTokens: p.PrefilledTokens,
	}
	if doc.MissTokens == nil {
		doc.MissTokens = map[string]int64{}
	}
	return doc
}
