package shared

import (
	"time"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

// Conversions come in pairs, toX and fromX. A test sets every field of every
// type and sends it both ways, so that a field added to one side only is found.

func toIdentity(id Identity) *pb.Identity {
	return &pb.Identity{
		ModelRevision:     id.ModelRevision,
		Precision:         id.Precision,
		TokenizerRevision: id.TokenizerRevision,
		LayoutRevision:    id.LayoutRevision,
		SlotRevision:      id.SlotRevision,
	}
}

func fromIdentity(m *pb.Identity) Identity {
	return Identity{
		ModelRevision:     m.GetModelRevision(),
		Precision:         m.GetPrecision(),
		TokenizerRevision: m.GetTokenizerRevision(),
		LayoutRevision:    m.GetLayoutRevision(),
		SlotRevision:      m.GetSlotRevision(),
	}
}

func toSpec(s SlotSpec) *pb.SlotSpec {
	return &pb.SlotSpec{
		SlotId:            s.SlotID,
		Model:             s.Model,
		ModelPath:         s.ModelPath,
		DeclaredSha256:    s.DeclaredSHA256,
		DeclaredPrecision: s.DeclaredPrecision,
		Device:            s.Device,
		Transfer:          string(s.Transfer),
		ContextTokens:     int32(s.ContextTokens),
		Parallel:          int32(s.Parallel),
		PageTokens:        int32(s.PageTokens),
		KvType:            s.KVType,
		PrefillChunk:      int32(s.PrefillChunk),
		Threads:           int32(s.Threads),
		Preload:           s.Preload,
		OnMiss:            string(s.OnMiss),
		PagesHost:         s.PagesHost,
		PagesDisk:         s.PagesDisk,
		Reuse:             string(s.Reuse),
		PagesSalt:         s.PagesSalt,
		Queue:             int32(s.Queue),
		DeadlineNs:        int64(s.Deadline),
		Pin:               s.Pin,
		IdleTtlNs:         int64(s.IdleTTL),
		Restart:           toRestart(s.Restart),
		ReplicaOf:         s.ReplicaOf,
		Adapters:          convertEach(s.Adapters, toAdapterSpec),
		GpuLayers:         int32(s.GPULayers),
		DeviceKind:        s.DeviceKind,
	}
}

func fromSpec(m *pb.SlotSpec) SlotSpec {
	return SlotSpec{
		SlotID:            m.GetSlotId(),
		Model:             m.GetModel(),
		ModelPath:         m.GetModelPath(),
		DeclaredSHA256:    m.GetDeclaredSha256(),
		DeclaredPrecision: m.GetDeclaredPrecision(),
		Device:            m.GetDevice(),
		Transfer:          Transfer(m.GetTransfer()),
		ContextTokens:     int(m.GetContextTokens()),
		Parallel:          int(m.GetParallel()),
		PageTokens:        int(m.GetPageTokens()),
		KVType:            m.GetKvType(),
		PrefillChunk:      int(m.GetPrefillChunk()),
		Threads:           int(m.GetThreads()),
		Preload:           m.GetPreload(),
		OnMiss:            OnMiss(m.GetOnMiss()),
		PagesHost:         m.GetPagesHost(),
		PagesDisk:         m.GetPagesDisk(),
		Reuse:             Reuse(m.GetReuse()),
		PagesSalt:         m.GetPagesSalt(),
		Queue:             int(m.GetQueue()),
		Deadline:          time.Duration(m.GetDeadlineNs()),
		Pin:               m.GetPin(),
		IdleTTL:           time.Duration(m.GetIdleTtlNs()),
		Restart:           fromRestart(m.GetRestart()),
		ReplicaOf:         m.GetReplicaOf(),
		Adapters:          convertEach(m.GetAdapters(), fromAdapterSpec),
		GPULayers:         int(m.GetGpuLayers()),
		DeviceKind:        m.GetDeviceKind(),
	}
}

func toRestart(p RestartPolicy) *pb.RestartPolicy {
	return &pb.RestartPolicy{
		Attempts:   int32(p.Attempts),
		IntervalNs: int64(p.Interval),
		DelayNs:    int64(p.Delay),
		MaxDelayNs: int64(p.MaxDelay),
		Mode:       string(p.Mode),
	}
}

func fromRestart(m *pb.RestartPolicy) RestartPolicy {
	return RestartPolicy{
		Attempts: int(m.GetAttempts()),
		Interval: time.Duration(m.GetIntervalNs()),
		Delay:    time.Duration(m.GetDelayNs()),
		MaxDelay: time.Duration(m.GetMaxDelayNs()),
		Mode:     RestartMode(m.GetMode()),
	}
}

func toPlan(p PrefetchPlan) *pb.PrefetchPlan {
	return &pb.PrefetchPlan{
		ModelRevision: p.ModelRevision,
		SlotId:        p.SlotID,
		HostBufferId:  p.HostBufferID,
		TargetDevice:  p.TargetDevice,
		ByteCount:     p.ByteCount,
	}
}

func fromPlan(m *pb.PrefetchPlan) PrefetchPlan {
	return PrefetchPlan{
		ModelRevision: m.GetModelRevision(),
		SlotID:        m.GetSlotId(),
		HostBufferID:  m.GetHostBufferId(),
		TargetDevice:  m.GetTargetDevice(),
		ByteCount:     m.GetByteCount(),
	}
}

func toProgress(p Progress) *pb.Progress {
	return &pb.Progress{Stage: p.Stage, DoneBytes: p.DoneBytes, TotalBytes: p.TotalBytes}
}

func fromProgress(m *pb.Progress) Progress {
	return Progress{Stage: m.GetStage(), DoneBytes: m.GetDoneBytes(), TotalBytes: m.GetTotalBytes()}
}

func toSlotInfo(s SlotInfo) *pb.SlotInfo {
	return &pb.SlotInfo{
		SlotId:         s.SlotID,
		Model:          s.Model,
		ModelPath:      s.ModelPath,
		Identity:       toIdentity(s.Identity),
		Status:         string(s.Status),
		Process:        string(s.Process),
		Pid:            int64(s.PID),
		Restarts:       int32(s.Restarts),
		HostBufferId:   s.HostBufferID,
		DeviceBufferId: s.DeviceBufferID,
		LastError:      s.LastError,
		Device:         s.Device,
		Transfer:       string(s.Transfer),
		Pinned:         s.Pinned,
		PinNote:        s.PinNote,
		HostBytes:      s.HostBytes,
		DeviceBytes:    s.DeviceBytes,
		ContextTokens:  int32(s.ContextTokens),
		Parallel:       int32(s.Parallel),
		InFlight:       int32(s.InFlight),
		Progress:       toProgress(s.Progress),
		OnMiss:         string(s.OnMiss),
		LogTail:        s.LogTail,
		Load:           toLoad(s.Load),
		Exit:           s.Exit,
		RetryAfterNs:   int64(s.RetryAfter),
		Pin:            s.Pin,
		ReplicaOf:      s.ReplicaOf,
		HostHeld:       s.HostHeld,
		DeviceHeld:     s.DeviceHeld,
		ResidentBytes:  s.ResidentBytes,
		File:           toModelFile(s.File),
		Adapters:       convertEach(s.Adapters, toAdapterInfo),
		DeviceInfo:     toDeviceInfo(s.DeviceInfo),
		Probe:          toProbe(s.Probe),
		TransferReason: s.TransferReason,
	}
}

func fromSlotInfo(m *pb.SlotInfo) SlotInfo {
	return SlotInfo{
		SlotID:         m.GetSlotId(),
		Model:          m.GetModel(),
		ModelPath:      m.GetModelPath(),
		Identity:       fromIdentity(m.GetIdentity()),
		Status:         SlotStatus(m.GetStatus()),
		Process:        ProcessState(m.GetProcess()),
		PID:            int(m.GetPid()),
		Restarts:       int(m.GetRestarts()),
		HostBufferID:   m.GetHostBufferId(),
		DeviceBufferID: m.GetDeviceBufferId(),
		LastError:      m.GetLastError(),
		Device:         m.GetDevice(),
		Transfer:       Transfer(m.GetTransfer()),
		Pinned:         m.GetPinned(),
		PinNote:        m.GetPinNote(),
		HostBytes:      m.GetHostBytes(),
		DeviceBytes:    m.GetDeviceBytes(),
		ContextTokens:  int(m.GetContextTokens()),
		Parallel:       int(m.GetParallel()),
		InFlight:       int(m.GetInFlight()),
		Progress:       fromProgress(m.GetProgress()),
		OnMiss:         OnMiss(m.GetOnMiss()),
		LogTail:        m.GetLogTail(),
		Load:           fromLoad(m.GetLoad()),
		Exit:           m.GetExit(),
		RetryAfter:     time.Duration(m.GetRetryAfterNs()),
		Pin:            m.GetPin(),
		ReplicaOf:      m.GetReplicaOf(),
		HostHeld:       m.GetHostHeld(),
		DeviceHeld:     m.GetDeviceHeld(),
		ResidentBytes:  m.GetResidentBytes(),
		File:           fromModelFile(m.GetFile()),
		Adapters:       convertEach(m.GetAdapters(), fromAdapterInfo),
		DeviceInfo:     fromDeviceInfo(m.GetDeviceInfo()),
		Probe:          fromProbe(m.GetProbe()),
		TransferReason: m.GetTransferReason(),
	}
}

func toSlotList(l SlotList) *pb.SlotList {
	m := &pb.SlotList{Aliases: l.Aliases}
	for _, s := range l.Slots {
		m.Slots = append(m.Slots, toSlotInfo(s))
	}
	for _, b := range l.Budgets {
		m.Budgets = append(m.Budgets, &pb.BudgetUse{Device: b.Device, Limit: b.Limit, Held: b.Held})
	}
	return m
}

func fromSlotList(m *pb.SlotList) SlotList {
	l := SlotList{Aliases: m.GetAliases()}
	for _, s := range m.GetSlots() {
		l.Slots = append(l.Slots, fromSlotInfo(s))
	}
	for _, b := range m.GetBudgets() {
		l.Budgets = append(l.Budgets, BudgetUse{Device: b.GetDevice(), Limit: b.GetLimit(), Held: b.GetHeld()})
	}
	return l
}

func toRequirement(r Requirement) *pb.Requirement {
	return &pb.Requirement{
		SlotId:            r.SlotID,
		Model:             r.Model,
		ModelRevision:     r.ModelRevision,
		Precision:         r.Precision,
		TokenizerRevision: r.TokenizerRevision,
		LayoutRevision:    r.LayoutRevision,
		SlotRevision:      r.SlotRevision,
	}
}

func fromRequirement(m *pb.Requirement) Requirement {
	return Requirement{
		SlotID:            m.GetSlotId(),
		Model:             m.GetModel(),
		ModelRevision:     m.GetModelRevision(),
		Precision:         m.GetPrecision(),
		TokenizerRevision: m.GetTokenizerRevision(),
		LayoutRevision:    m.GetLayoutRevision(),
		SlotRevision:      m.GetSlotRevision(),
	}
}

func toResolution(r Resolution) *pb.Resolution {
	return &pb.Resolution{Identity: toIdentity(r.Identity), SlotIds: r.SlotIDs, Model: r.Model}
}

func fromResolution(m *pb.Resolution) Resolution {
	return Resolution{Identity: fromIdentity(m.GetIdentity()), SlotIDs: m.GetSlotIds(), Model: m.GetModel()}
}

func toPhases(p Phases) *pb.Phases {
	return &pb.Phases{
		RouteNs:            int64(p.Route),
		QueueNs:            int64(p.Queue),
		SlotActivationNs:   int64(p.SlotActivation),
		ContextLookupNs:    int64(p.ContextLookup),
		PrefillNs:          int64(p.Prefill),
		DecodeFirstTokenNs: int64(p.DecodeFirstToken),
		FirstChunkFlushNs:  int64(p.FirstChunkFlush),
		OtherNs:            int64(p.Other),
	}
}

func fromPhases(m *pb.Phases) Phases {
	return Phases{
		Route:            time.Duration(m.GetRouteNs()),
		Queue:            time.Duration(m.GetQueueNs()),
		SlotActivation:   time.Duration(m.GetSlotActivationNs()),
		ContextLookup:    time.Duration(m.GetContextLookupNs()),
		Prefill:          time.Duration(m.GetPrefillNs()),
		DecodeFirstToken: time.Duration(m.GetDecodeFirstTokenNs()),
		FirstChunkFlush:  time.Duration(m.GetFirstChunkFlushNs()),
		Other:            time.Duration(m.GetOtherNs()),
	}
}

func toActivation(d ActivationDetail) *pb.ActivationDetail {
	return &pb.ActivationDetail{
		SpawnNs:    int64(d.Spawn),
		PrefetchNs: int64(d.Prefetch),
		TransferNs: int64(d.Transfer),
		WarmupNs:   int64(d.Warmup),
		CanaryNs:   int64(d.Canary),
	}
}

func fromActivation(m *pb.ActivationDetail) ActivationDetail {
	return ActivationDetail{
		Spawn:    time.Duration(m.GetSpawnNs()),
		Prefetch: time.Duration(m.GetPrefetchNs()),
		Transfer: time.Duration(m.GetTransferNs()),
		Warmup:   time.Duration(m.GetWarmupNs()),
		Canary:   time.Duration(m.GetCanaryNs()),
	}
}
