package shared

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

// frontendServer answers attached processes with the supervisor of this process.
type frontendServer struct {
	pb.UnimplementedSupervisorServer
	impl Frontend
}

func (s *frontendServer) ListSlots(ctx context.Context, _ *pb.ListSlotsRequest) (*pb.SlotList, error) {
	list, err := s.impl.ListSlots(ctx)
	return reply(toSlotList(list), err)
}

func (s *frontendServer) WatchSlots(_ *pb.ListSlotsRequest, stream grpc.ServerStreamingServer[pb.SlotList]) error {
	return errorToStatus(s.impl.WatchSlots(stream.Context(), func(l SlotList) error {
		return stream.Send(toSlotList(l))
	}))
}

func (s *frontendServer) Resolve(ctx context.Context, m *pb.Requirement) (*pb.Resolution, error) {
	res, err := s.impl.Resolve(ctx, fromRequirement(m))
	return reply(toResolution(res), err)
}

func (s *frontendServer) Generate(m *pb.GenerateRequest, stream grpc.ServerStreamingServer[pb.GenerateReply]) error {
	return sendGenerate(stream, func(emit func(Chunk) error) (Result, error) {
		return s.impl.Generate(stream.Context(), fromGenerate(m), emit)
	})
}

func (s *frontendServer) Prepare(m *pb.PrepareRequest, stream grpc.ServerStreamingServer[pb.PrepareReply]) error {
	info, err := s.impl.Prepare(stream.Context(), m.GetSlotId(), func(p Progress) {
		// A lost client shows as the end of the stream's context.
		_ = stream.Send(&pb.PrepareReply{Item: &pb.PrepareReply_Progress{Progress: toProgress(p)}})
	})
	if err != nil {
		return errorToStatus(err)
	}
	return stream.Send(&pb.PrepareReply{Item: &pb.PrepareReply_Slot{Slot: toSlotInfo(info)}})
}

func (s *frontendServer) Evict(ctx context.Context, m *pb.EvictSlotRequest) (*pb.SlotInfo, error) {
	info, err := s.impl.Evict(ctx, m.GetSlotId(), m.GetDropHost())
	return reply(toSlotInfo(info), err)
}

func (s *frontendServer) Restart(ctx context.Context, m *pb.RestartSlotRequest) (*pb.SlotInfo, error) {
	info, err := s.impl.Restart(ctx, m.GetSlotId())
	return reply(toSlotInfo(info), err)
}

func (s *frontendServer) Tokenize(ctx context.Context, m *pb.TokenizeRequest) (*pb.TokenizeResult, error) {
	tokens, err := s.impl.Tokenize(ctx, fromTokenize(m))
	return reply(&pb.TokenizeResult{Tokens: tokens}, err)
}

func (s *frontendServer) ApplyTemplate(ctx context.Context, m *pb.ApplyTemplateRequest) (*pb.ApplyTemplateResult, error) {
	prompt, err := s.impl.ApplyTemplate(ctx, fromApplyTemplate(m))
	return reply(&pb.ApplyTemplateResult{Prompt: validText(prompt)}, err)
}

func (s *frontendServer) Plan(ctx context.Context, m *pb.Declaration) (*pb.PlanResult, error) {
	plan, err := s.impl.Plan(ctx, fromDeclaration(m))
	return reply(toChanges(plan), err)
}

func (s *frontendServer) Reload(ctx context.Context, _ *pb.ReloadRequest) (*pb.ReloadResult, error) {
	res, err := s.impl.Reload(ctx)
	return reply(toReload(res), err)
}

func (s *frontendServer) Activity(ctx context.Context, m *pb.ActivityRequest) (*pb.ActivityResult, error) {
	activity, err := s.impl.Activity(ctx, m.GetAfter())
	return reply(toActivity(activity), err)
}

func (s *frontendServer) Detokenize(ctx context.Context, m *pb.DetokenizeRequest) (*pb.DetokenizeResult, error) {
	text, err := s.impl.Detokenize(ctx, fromDetokenize(m))
	return reply(&pb.DetokenizeResult{Text: validText(text)}, err)
}

func (s *frontendServer) Embed(ctx context.Context, m *pb.EmbedRequest) (*pb.EmbedResult, error) {
	res, err := s.impl.Embed(ctx, fromEmbed(m))
	return reply(toEmbedResult(res), err)
}
