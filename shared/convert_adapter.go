package shared

import pb "github.com/firstframe/firstframe/shared/firstframepb"

func toAdapterSpec(a AdapterSpec) *pb.AdapterSpec {
	return &pb.AdapterSpec{Path: a.Path, DeclaredSha256: a.DeclaredSHA256, Scale: a.Scale}
}

func fromAdapterSpec(m *pb.AdapterSpec) AdapterSpec {
	return AdapterSpec{Path: m.GetPath(), DeclaredSHA256: m.GetDeclaredSha256(), Scale: m.GetScale()}
}

func toAdapterInfo(a AdapterInfo) *pb.AdapterInfo {
	return &pb.AdapterInfo{Path: a.Path, Revision: a.Revision, Scale: a.Scale}
}

func fromAdapterInfo(m *pb.AdapterInfo) AdapterInfo {
	return AdapterInfo{Path: m.GetPath(), Revision: m.GetRevision(), Scale: m.GetScale()}
}

// convertEach converts a list; an empty one stays nil.
func convertEach[A, B any](list []A, convert func(A) B) []B {
	var out []B
	for _, item := range list {
		out = append(out, convert(item))
	}
	return out
}
