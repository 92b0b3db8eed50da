package shared

import (
	"time"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

func toWorkerInfo(i WorkerInfo) *pb.WorkerInfo {
	return &pb.WorkerInfo{Pid: int64(i.PID), Version: i.Version, Engine: i.Engine, CpuVariant: i.CPUVariant}
}

func fromWorkerInfo(m *pb.WorkerInfo) WorkerInfo {
	return WorkerInfo{PID: int(m.GetPid()), Version: m.GetVersion(), Engine: m.GetEngine(), CPUVariant: m.GetCpuVariant()}
}

func toPrefetch(r PrefetchRequest) *pb.PrefetchRequest {
	return &pb.PrefetchRequest{Spec: toSpec(r.Spec), Plan: toPlan(r.Plan), Expected: toIdentity(r.Expected)}
}

func fromPrefetch(m *pb.PrefetchRequest) PrefetchRequest {
	return PrefetchRequest{Spec: fromSpec(m.GetSpec()), Plan: fromPlan(m.GetPlan()), Expected: fromIdentity(m.GetExpected())}
}

func toPrefetchResult(r PrefetchResult) *pb.PrefetchResult {
	return &pb.PrefetchResult{
		HostBufferId:      r.HostBufferID,
		HostBytes:         r.HostBytes,
		Pinned:            r.Pinned,
		PinNote:           r.PinNote,
		Transfer:          string(r.Transfer),
		ModelRevision:     r.ModelRevision,
		Precision:         r.Precision,
		TokenizerRevision: r.TokenizerRevision,
		ReadNs:            int64(r.Read),
		Probe:             toProbe(r.Probe),
		Reason:            r.Reason,
	}
}

func fromPrefetchResult(m *pb.PrefetchResult) PrefetchResult {
	return PrefetchResult{
		HostBufferID:      m.GetHostBufferId(),
		HostBytes:         m.GetHostBytes(),
		Pinned:            m.GetPinned(),
		PinNote:           m.GetPinNote(),
		Transfer:          Transfer(m.GetTransfer()),
		ModelRevision:     m.GetModelRevision(),
		Precision:         m.GetPrecision(),
		TokenizerRevision: m.GetTokenizerRevision(),
		Read:              time.Duration(m.GetReadNs()),
		Probe:             fromProbe(m.GetProbe()),
		Reason:            m.GetReason(),
	}
}

func toActivate(r ActivateRequest) *pb.ActivateRequest {
	return &pb.ActivateRequest{Expected: toIdentity(r.Expected)}
}

func fromActivate(m *pb.ActivateRequest) ActivateRequest {
	return ActivateRequest{Expected: fromIdentity(m.GetExpected())}
}

func toActivateResult(r ActivateResult) *pb.ActivateResult {
	return &pb.ActivateResult{
		Identity:       toIdentity(r.Identity),
		DeviceBufferId: r.DeviceBufferID,
		DeviceBytes:    r.DeviceBytes,
		HostBytes:      r.HostBytes,
		ContextTokens:  int32(r.ContextTokens),
		TransferNs:     int64(r.Transfer),
		WarmupNs:       int64(r.Warmup),
		CanaryNs:       int64(r.Canary),
		CanaryTokens:   r.CanaryTokens,
	}
}

func fromActivateResult(m *pb.ActivateResult) ActivateResult {
	return ActivateResult{
		Identity:       fromIdentity(m.GetIdentity()),
		DeviceBufferID: m.GetDeviceBufferId(),
		DeviceBytes:    m.GetDeviceBytes(),
		HostBytes:      m.GetHostBytes(),
		ContextTokens:  int(m.GetContextTokens()),
		Transfer:       time.Duration(m.GetTransferNs()),
		Warmup:         time.Duration(m.GetWarmupNs()),
		Canary:         time.Duration(m.GetCanaryNs()),
		CanaryTokens:   m.GetCanaryTokens(),
	}
}

func toEvictResult(r EvictWorkerResult) *pb.EvictWorkerResult {
	return &pb.EvictWorkerResult{DeviceBytesFreed: r.DeviceBytesFreed, HostBytesFreed: r.HostBytesFreed}
}

func fromEvictResult(m *pb.EvictWorkerResult) EvictWorkerResult {
	return EvictWorkerResult{DeviceBytesFreed: m.GetDeviceBytesFreed(), HostBytesFreed: m.GetHostBytesFreed()}
}

func toHeartbeat(r HeartbeatResult) *pb.HeartbeatResult {
	return &pb.HeartbeatResult{Progress: r.Progress, Running: int32(r.Running), Waiting: int32(r.Waiting)}
}

func fromHeartbeat(m *pb.HeartbeatResult) HeartbeatResult {
	return HeartbeatResult{Progress: m.GetProgress(), Running: int(m.GetRunning()), Waiting: int(m.GetWaiting())}
}

func toWorkerStatus(s WorkerStatus) *pb.WorkerStatus {
	return &pb.WorkerStatus{
		SlotId:           s.SlotID,
		Status:           string(s.Status),
		Identity:         toIdentity(s.Identity),
		HostBytes:        s.HostBytes,
		DeviceBytes:      s.DeviceBytes,
		Pinned:           s.Pinned,
		SequencesRunning: int32(s.SequencesRunning),
		SequencesWaiting: int32(s.SequencesWaiting),
		KvTokensUsed:     s.KVTokensUsed,
		KvTokensTotal:    s.KVTokensTotal,
		Pages:            toPageStats(s.Pages),
	}
}

func fromWorkerStatus(m *pb.WorkerStatus) WorkerStatus {
	return WorkerStatus{
		SlotID:           m.GetSlotId(),
		Status:           SlotStatus(m.GetStatus()),
		Identity:         fromIdentity(m.GetIdentity()),
		HostBytes:        m.GetHostBytes(),
		DeviceBytes:      m.GetDeviceBytes(),
		Pinned:           m.GetPinned(),
		SequencesRunning: int(m.GetSequencesRunning()),
		SequencesWaiting: int(m.GetSequencesWaiting()),
		KVTokensUsed:     m.GetKvTokensUsed(),
		KVTokensTotal:    m.GetKvTokensTotal(),
		Pages:            fromPageStats(m.GetPages()),
	}
}
