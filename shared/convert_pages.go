package shared

import pb "github.com/firstframe/firstframe/shared/firstframepb"

func toTier(t PageTier) *pb.PageTier {
	return &pb.PageTier{Pages: int64(t.Pages), Bytes: t.Bytes}
}

func fromTier(m *pb.PageTier) PageTier {
	return PageTier{Pages: int(m.GetPages()), Bytes: m.GetBytes()}
}

func toPageStats(s PageStats) *pb.PageStats {
	return &pb.PageStats{
		Off:              s.Off,
		Device:           toTier(s.Device),
		Host:             toTier(s.Host),
		Disk:             toTier(s.Disk),
		IdleTokens:       s.IdleTokens,
		HitDeviceTokens:  s.HitDeviceTokens,
		HitHostTokens:    s.HitHostTokens,
		HitDiskTokens:    s.HitDiskTokens,
		MissTokens:       s.MissTokens,
		RecomputedTokens: s.RecomputedTokens,
		PrefilledTokens:  s.PrefilledTokens,
	}
}

func fromPageStats(m *pb.PageStats) PageStats {
	return PageStats{
		Off:              m.GetOff(),
		Device:           fromTier(m.GetDevice()),
		Host:             fromTier(m.GetHost()),
		Disk:             fromTier(m.GetDisk()),
		IdleTokens:       m.GetIdleTokens(),
		HitDeviceTokens:  m.GetHitDeviceTokens(),
		HitHostTokens:    m.GetHitHostTokens(),
		HitDiskTokens:    m.GetHitDiskTokens(),
		MissTokens:       m.GetMissTokens(),
		RecomputedTokens: m.GetRecomputedTokens(),
		PrefilledTokens:  m.GetPrefilledTokens(),
	}
}

func toLoad(l SlotLoad) *pb.SlotLoad {
	return &pb.SlotLoad{
		SequencesRunning: int32(l.SequencesRunning),
		SequencesWaiting: int32(l.SequencesWaiting),
		KvTokensUsed:     l.KVTokensUsed,
		KvTokensTotal:    l.KVTokensTotal,
		Pages:            toPageStats(l.Pages),
	}
}

func fromLoad(m *pb.SlotLoad) SlotLoad {
	return SlotLoad{
		SequencesRunning: int(m.GetSequencesRunning()),
		SequencesWaiting: int(m.GetSequencesWaiting()),
		KVTokensUsed:     m.GetKvTokensUsed(),
		KVTokensTotal:    m.GetKvTokensTotal(),
		Pages:            fromPageStats(m.GetPages()),
	}
}
