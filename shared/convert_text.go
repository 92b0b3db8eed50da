package shared

import (
	"time"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

func toDetokenize(r DetokenizeRequest) *pb.DetokenizeRequest {
	return &pb.DetokenizeRequest{
		Requirement: toRequirement(r.Requirement),
		Identity:    toIdentity(r.Identity),
		Tokens:      r.Tokens,
	}
}

func fromDetokenize(m *pb.DetokenizeRequest) DetokenizeRequest {
	return DetokenizeRequest{
		Requirement: fromRequirement(m.GetRequirement()),
		Identity:    fromIdentity(m.GetIdentity()),
		Tokens:      m.GetTokens(),
	}
}

func toEmbed(r EmbedRequest) *pb.EmbedRequest {
	m := &pb.EmbedRequest{
		Requirement: toRequirement(r.Requirement),
		Identity:    toIdentity(r.Identity),
		OnMiss:      string(r.OnMiss),
		DeadlineNs:  int64(r.Deadline),
	}
	for _, in := range r.Inputs {
		m.Inputs = append(m.Inputs, &pb.EmbedInput{Text: in.Text, Tokens: in.Tokens})
	}
	return m
}

func fromEmbed(m *pb.EmbedRequest) EmbedRequest {
	r := EmbedRequest{
		Requirement: fromRequirement(m.GetRequirement()),
		Identity:    fromIdentity(m.GetIdentity()),
		OnMiss:      OnMiss(m.GetOnMiss()),
		Deadline:    time.Duration(m.GetDeadlineNs()),
	}
	for _, in := range m.GetInputs() {
		r.Inputs = append(r.Inputs, EmbedInput{Text: in.GetText(), Tokens: in.GetTokens()})
	}
	return r
}

func toEmbedResult(r EmbedResult) *pb.EmbedResult {
	m := &pb.EmbedResult{
		SlotId:       r.SlotID,
		Model:        r.Model,
		Identity:     toIdentity(r.Identity),
		Pooling:      r.Pooling,
		PromptTokens: int32(r.PromptTokens),
	}
	for _, v := range r.Vectors {
		m.Vectors = append(m.Vectors, &pb.Vector{Values: v})
	}
	return m
}

func fromEmbedResult(m *pb.EmbedResult) EmbedResult {
	r := EmbedResult{
		SlotID:       m.GetSlotId(),
		Model:        m.GetModel(),
		Identity:     fromIdentity(m.GetIdentity()),
		Pooling:      m.GetPooling(),
		PromptTokens: int(m.GetPromptTokens()),
	}
	for _, v := range m.GetVectors() {
		r.Vectors = append(r.Vectors, v.GetValues())
	}
	return r
}
