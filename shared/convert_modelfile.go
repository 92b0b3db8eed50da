package shared

import pb "github.com/firstframe/firstframe/shared/firstframepb"

func toModelFile(f ModelFile) *pb.ModelFile {
	return &pb.ModelFile{
		Architecture: f.Architecture, Parameters: f.Parameters, Bytes: f.Bytes, TrainedTokens: int32(f.TrainedTokens),
		EmbeddingLength: int32(f.EmbeddingLength), Template: f.Template, Tools: f.Tools, ModifiedUnixNs: f.ModifiedUnixNS,
		Thinking: f.Thinking,
	}
}

func fromModelFile(m *pb.ModelFile) ModelFile {
	return ModelFile{
		Architecture: m.GetArchitecture(), Parameters: m.GetParameters(), Bytes: m.GetBytes(), TrainedTokens: int(m.GetTrainedTokens()),
		EmbeddingLength: int(m.GetEmbeddingLength()), Template: m.GetTemplate(), Tools: m.GetTools(), ModifiedUnixNS: m.GetModifiedUnixNs(),
		Thinking: m.GetThinking(),
	}
}
