package shared

import (
	"time"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

func toMessages(in []Message) []*pb.Message {
	var out []*pb.Message
	for _, m := range in {
		out = append(out, &pb.Message{
			Role: m.Role, Content: m.Content, ToolCalls: toToolCalls(m.ToolCalls), ToolCallId: m.ToolCallID,
			Reasoning: m.Reasoning,
		})
	}
	return out
}

func fromMessages(in []*pb.Message) []Message {
	var out []Message
	for _, m := range in {
		out = append(out, Message{
			Role: m.GetRole(), Content: m.GetContent(), ToolCalls: fromToolCalls(m.GetToolCalls()), ToolCallID: m.GetToolCallId(),
			Reasoning: m.GetReasoning(),
		})
	}
	return out
}

func toSampling(s Sampling) *pb.Sampling {
	m := &pb.Sampling{
		Temperature:      s.Temperature,
		TopK:             int32(s.TopK),
		TopP:             s.TopP,
		MinP:             s.MinP,
		Seed:             s.Seed,
		RepeatPenalty:    s.RepeatPenalty,
		RepeatLastN:      int32(s.RepeatLastN),
		PresencePenalty:  s.PresencePenalty,
		FrequencyPenalty: s.FrequencyPenalty,
	}
	for _, b := range s.LogitBias {
		m.LogitBias = append(m.LogitBias, &pb.LogitBias{Token: b.Token, Bias: b.Bias})
	}
	return m
}

func fromSampling(m *pb.Sampling) Sampling {
	s := Sampling{
		Temperature:      m.GetTemperature(),
		TopK:             int(m.GetTopK()),
		TopP:             m.GetTopP(),
		MinP:             m.GetMinP(),
		Seed:             m.GetSeed(),
		RepeatPenalty:    m.GetRepeatPenalty(),
		RepeatLastN:      int(m.GetRepeatLastN()),
		PresencePenalty:  m.GetPresencePenalty(),
		FrequencyPenalty: m.GetFrequencyPenalty(),
	}
	for _, b := range m.GetLogitBias() {
		s.LogitBias = append(s.LogitBias, LogitBias{Token: b.GetToken(), Bias: b.GetBias()})
	}
	return s
}

func toGenerate(r GenerateRequest) *pb.GenerateRequest {
	return &pb.GenerateRequest{
		RequestId:    r.RequestID,
		Requirement:  toRequirement(r.Requirement),
		Identity:     toIdentity(r.Identity),
		Prompt:       r.Prompt,
		Messages:     toMessages(r.Messages),
		PromptTokens: r.PromptTokens,
		Sampling:     toSampling(r.Sampling),
		MaxTokens:    int32(r.MaxTokens),
		Stop:         r.Stop,
		IgnoreEos:    r.IgnoreEOS,
		OnMiss:       string(r.OnMiss),
		DeadlineNs:   int64(r.Deadline),
		Logprobs:     r.Logprobs,
		TopLogprobs:  int32(r.TopLogprobs),
		Grammar:      r.Grammar,
		Tools:        toTools(r.Tools),
		ToolChoice:   r.ToolChoice,
		OnlyTool:     r.OnlyTool,
		OneToolCall:  r.OneToolCall,
		NoThinking:   r.NoThinking,
	}
}

func fromGenerate(m *pb.GenerateRequest) GenerateRequest {
	return GenerateRequest{
		RequestID:    m.GetRequestId(),
		Requirement:  fromRequirement(m.GetRequirement()),
		Identity:     fromIdentity(m.GetIdentity()),
		Prompt:       m.GetPrompt(),
		Messages:     fromMessages(m.GetMessages()),
		PromptTokens: m.GetPromptTokens(),
		Sampling:     fromSampling(m.GetSampling()),
		MaxTokens:    int(m.GetMaxTokens()),
		Stop:         m.GetStop(),
		IgnoreEOS:    m.GetIgnoreEos(),
		OnMiss:       OnMiss(m.GetOnMiss()),
		Deadline:     time.Duration(m.GetDeadlineNs()),
		Logprobs:     m.GetLogprobs(),
		TopLogprobs:  int(m.GetTopLogprobs()),
		Grammar:      m.GetGrammar(),
		Tools:        fromTools(m.GetTools()),
		ToolChoice:   m.GetToolChoice(),
		OnlyTool:     m.GetOnlyTool(),
		OneToolCall:  m.GetOneToolCall(),
		NoThinking:   m.GetNoThinking(),
	}
}

func toChunk(c Chunk) *pb.Chunk {
	m := &pb.Chunk{
		SlotId: c.SlotID, Text: c.Text, Tokens: c.Tokens, Logprobs: toLogprobs(c.Logprobs), ToolCalls: toToolCalls(c.ToolCalls),
		Reasoning: c.Reasoning,
	}
	if c.Usage != nil {
		m.Usage = toUsage(*c.Usage)
	}
	if c.Phases != nil {
		m.Phases = toPhases(*c.Phases)
	}
	if c.Progress != nil {
		m.Progress = toProgress(*c.Progress)
	}
	return m
}

func fromChunk(m *pb.Chunk) Chunk {
	c := Chunk{
		SlotID: m.GetSlotId(), Text: m.GetText(), Tokens: m.GetTokens(),
		Logprobs: fromLogprobs(m.GetLogprobs()), ToolCalls: fromToolCalls(m.GetToolCalls()), Reasoning: m.GetReasoning(),
	}
	if m.GetUsage() != nil {
		u := fromUsage(m.GetUsage())
		c.Usage = &u
	}
	if m.GetPhases() != nil {
		p := fromPhases(m.GetPhases())
		c.Phases = &p
	}
	if m.GetProgress() != nil {
		p := fromProgress(m.GetProgress())
		c.Progress = &p
	}
	return c
}

func toUsage(u Usage) *pb.Usage {
	return &pb.Usage{
		PromptTokens:     int32(u.PromptTokens),
		CachedTokens:     int32(u.CachedTokens),
		CompletionTokens: int32(u.CompletionTokens),
		ReasoningTokens:  int32(u.ReasoningTokens),
	}
}

func fromUsage(m *pb.Usage) Usage {
	return Usage{
		PromptTokens:     int(m.GetPromptTokens()),
		CachedTokens:     int(m.GetCachedTokens()),
		CompletionTokens: int(m.GetCompletionTokens()),
		ReasoningTokens:  int(m.GetReasoningTokens()),
	}
}

func toResult(r Result) *pb.Result {
	return &pb.Result{
		SlotId:       r.SlotID,
		Model:        r.Model,
		Identity:     toIdentity(r.Identity),
		FinishReason: r.FinishReason,
		Usage:        toUsage(r.Usage),
		Phases:       toPhases(r.Phases),
		Activation:   toActivation(r.Activation),
		SlotHit:      r.SlotHit,
		PromptNs:     int64(r.Prompt),
		PredictedNs:  int64(r.Predicted),
		MissReason:   r.MissReason,

		DivergedAtToken: int32(r.DivergedAtToken),
		StopString:      r.StopString,
	}
}

func fromResult(m *pb.Result) Result {
	return Result{
		SlotID:       m.GetSlotId(),
		Model:        m.GetModel(),
		Identity:     fromIdentity(m.GetIdentity()),
		FinishReason: m.GetFinishReason(),
		Usage:        fromUsage(m.GetUsage()),
		Phases:       fromPhases(m.GetPhases()),
		Activation:   fromActivation(m.GetActivation()),
		SlotHit:      m.GetSlotHit(),
		Prompt:       time.Duration(m.GetPromptNs()),
		Predicted:    time.Duration(m.GetPredictedNs()),
		MissReason:   m.GetMissReason(),

		DivergedAtToken: int(m.GetDivergedAtToken()),
		StopString:      m.GetStopString(),
	}
}

func toTokenize(r TokenizeRequest) *pb.TokenizeRequest {
	return &pb.TokenizeRequest{
		Requirement:  toRequirement(r.Requirement),
		Identity:     toIdentity(r.Identity),
		Text:         r.Text,
		AddSpecial:   r.AddSpecial,
		ParseSpecial: r.ParseSpecial,
		Messages:     toMessages(r.Messages),
		Tools:        toTools(r.Tools),
		NoThinking:   r.NoThinking,
	}
}

func fromTokenize(m *pb.TokenizeRequest) TokenizeRequest {
	return TokenizeRequest{
		Requirement:  fromRequirement(m.GetRequirement()),
		Identity:     fromIdentity(m.GetIdentity()),
		Text:         m.GetText(),
		AddSpecial:   m.GetAddSpecial(),
		ParseSpecial: m.GetParseSpecial(),
		Messages:     fromMessages(m.GetMessages()),
		Tools:        fromTools(m.GetTools()),
		NoThinking:   m.GetNoThinking(),
	}
}

func toApplyTemplate(r ApplyTemplateRequest) *pb.ApplyTemplateRequest {
	return &pb.ApplyTemplateRequest{
		Requirement:         toRequirement(r.Requirement),
		Identity:            toIdentity(r.Identity),
		Messages:            toMessages(r.Messages),
		AddGenerationPrompt: r.AddGenerationPrompt,
	}
}

func fromApplyTemplate(m *pb.ApplyTemplateRequest) ApplyTemplateRequest {
	return ApplyTemplateRequest{
		Requirement:         fromRequirement(m.GetRequirement()),
		Identity:            fromIdentity(m.GetIdentity()),
		Messages:            fromMessages(m.GetMessages()),
		AddGenerationPrompt: m.GetAddGenerationPrompt(),
	}
}
