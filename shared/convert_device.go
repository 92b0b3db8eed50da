package shared

import (
	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

func toDeviceInfo(d DeviceInfo) *pb.DeviceInfo {
	return &pb.DeviceInfo{Name: d.Name, Model: d.Model, Capability: d.Capability, Uuid: d.UUID, Driver: d.Driver, Memory: d.Memory}
}

func fromDeviceInfo(m *pb.DeviceInfo) DeviceInfo {
	return DeviceInfo{
		Name: m.GetName(), Model: m.GetModel(), Capability: m.GetCapability(), UUID: m.GetUuid(), Driver: m.GetDriver(), Memory: m.GetMemory(),
	}
}

func toProbe(p TransferProbe) *pb.TransferProbe {
	return &pb.TransferProbe{
		Points:            convertEach(p.Points, toProbePoint),
		PinBytesPerSecond: p.PinBytesPerSecond,
		PinNote:           p.PinNote,
	}
}

func fromProbe(m *pb.TransferProbe) TransferProbe {
	return TransferProbe{
		Points:            convertEach(m.GetPoints(), fromProbePoint),
		PinBytesPerSecond: m.GetPinBytesPerSecond(),
		PinNote:           m.GetPinNote(),
	}
}

func toProbePoint(p ProbePoint) *pb.ProbePoint {
	return &pb.ProbePoint{Bytes: p.Bytes, Pageable: p.Pageable, Pinned: p.Pinned}
}

func fromProbePoint(m *pb.ProbePoint) ProbePoint {
	return ProbePoint{Bytes: m.GetBytes(), Pageable: m.GetPageable(), Pinned: m.GetPinned()}
}
