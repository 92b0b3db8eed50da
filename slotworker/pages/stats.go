package pages

import "maps"

// Tier is how much a tier holds.
type Tier struct {
	Pages int
	Bytes int64
}

// Stats is a store's account of itself.
type Stats struct {
	// Off says why nothing is kept; empty for a store that works.
	Off string
	// Host counts payload bytes. HostUsed is what they take up in blocks, and
	// HostMapped the memory that was mapped, never more than HostBudget.
	Host       Tier
	HostUsed   int64
	HostMapped int64
	HostBudget int64
	HostPinned int
	// Disk counts this slot's pages, DiskAll the pages of everybody who uses the
	// directory, as of this store's last change to it.
	Disk      Tier
	DiskAll   Tier
	DiskLimit int64
	// Queued pages are in host memory only: they would be lost with the process.
	Queued Tier
	// Written, Dropped and WriteErrors count pages that reached the disk, were
	// given up under pressure, and could not be written.
	Written     int64
	Dropped     int64
	WriteErrors int64
	// Evicted counts pages that left the host tier for others.
	Evicted int64
	// Rejected counts pages that were set aside, by reason.
	Rejected map[Reason]int64
	// Tokens of prompts: held by a sequence of the engine, restored from pages that
	// were in host memory or came from disk, missed by reason, and computed
	// although a page covered them.
	HitDeviceTokens  int64
	HitHostTokens    int64
	HitDiskTokens    int64
	MissTokens       map[Reason]int64
	RecomputedTokens int64
}

// counters is the part of Stats that is counted as it happens.
type counters struct {
	disk        Tier
	queued      int
	queuedBytes int64
	written     int64
	dropped     int64
	writeErrors int64
	evicted     int64
	hitDevice   int64
	hitHost     int64
	hitDisk     int64
	recomputed  int64
	missed      map[Reason]int64
	rejected    map[Reason]int64
}

func newCounters() counters {
	return counters{missed: make(map[Reason]int64), rejected: make(map[Reason]int64)}
}

// Stats is the account at this moment.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Off:              s.off,
		Disk:             s.count.disk,
		Queued:           Tier{Pages: s.count.queued, Bytes: s.count.queuedBytes},
		Written:          s.count.written,
		Dropped:          s.count.dropped,
		WriteErrors:      s.count.writeErrors,
		Evicted:          s.count.evicted,
		Rejected:         maps.Clone(s.count.rejected),
		HitDeviceTokens:  s.count.hitDevice,
		HitHostTokens:    s.count.hitHost,
		HitDiskTokens:    s.count.hitDisk,
		MissTokens:       maps.Clone(s.count.missed),
		RecomputedTokens: s.count.recomputed,
	}
	if a := s.host.arena; a != nil {
		st.Host = Tier{Pages: s.host.pages, Bytes: s.host.payload}
		st.HostUsed = a.usedBytes
		st.HostMapped = int64(a.frames * a.frameBytes())
		st.HostBudget = s.cfg.HostBytes
		st.HostPinned = s.host.pinned
	}
	if s.disk != nil {
		st.DiskAll = s.disk.total()
		st.DiskLimit = s.cfg.DiskBytes
	}
	return st
}
