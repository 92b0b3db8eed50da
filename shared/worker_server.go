package shared

import (
	"context"
	"time"

	"google.golang.org/grpc"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

// workerServer answers a host with a Worker of this process.
type workerServer struct {
	pb.UnimplementedSlotWorkerServer
	impl Worker
}

func (s *workerServer) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.WorkerInfo, error) {
	info, err := s.impl.Describe(ctx)
	return reply(toWorkerInfo(info), err)
}

func (s *workerServer) Prefetch(m *pb.PrefetchRequest, stream grpc.ServerStreamingServer[pb.PrefetchReply]) error {
	res, err := s.impl.Prefetch(stream.Context(), fromPrefetch(m), func(p Progress) {
		// A lost host shows as the end of the stream's context.
		_ = stream.Send(&pb.PrefetchReply{Item: &pb.PrefetchReply_Progress{Progress: toProgress(p)}})
	})
	if err != nil {
		return errorToStatus(err)
	}
	return stream.Send(&pb.PrefetchReply{Item: &pb.PrefetchReply_Result{Result: toPrefetchResult(res)}})
}

func (s *workerServer) Activate(ctx context.Context, m *pb.ActivateRequest) (*pb.ActivateResult, error) {
	res, err := s.impl.Activate(ctx, fromActivate(m))
	return reply(toActivateResult(res), err)
}

func (s *workerServer) Generate(m *pb.GenerateRequest, stream grpc.ServerStreamingServer[pb.GenerateReply]) error {
	return sendGenerate(stream, func(emit func(Chunk) error) (Result, error) {
		return s.impl.Generate(stream.Context(), fromGenerate(m), emit)
	})
}

func (s *workerServer) Tokenize(ctx context.Context, m *pb.TokenizeRequest) (*pb.TokenizeResult, error) {
	tokens, err := s.impl.Tokenize(ctx, fromTokenize(m))
	return reply(&pb.TokenizeResult{Tokens: tokens}, err)
}

func (s *workerServer) ApplyTemplate(ctx context.Context, m *pb.ApplyTemplateRequest) (*pb.ApplyTemplateResult, error) {
	prompt, err := s.impl.ApplyTemplate(ctx, fromApplyTemplate(m))
	return reply(&pb.ApplyTemplateResult{Prompt: validText(prompt)}, err)
}

func (s *workerServer) Detokenize(ctx context.Context, m *pb.DetokenizeRequest) (*pb.DetokenizeResult, error) {
	text, err := s.impl.Detokenize(ctx, fromDetokenize(m))
	return reply(&pb.DetokenizeResult{Text: validText(text)}, err)
}

func (s *workerServer) Embed(ctx context.Context, m *pb.EmbedRequest) (*pb.EmbedResult, error) {
	res, err := s.impl.Embed(ctx, fromEmbed(m))
	return reply(toEmbedResult(res), err)
}

func (s *workerServer) Evict(ctx context.Context, m *pb.EvictWorkerRequest) (*pb.EvictWorkerResult, error) {
	res, err := s.impl.Evict(ctx, m.GetDropHost())
	return reply(toEvictResult(res), err)
}

func (s *workerServer) Drain(ctx context.Context, m *pb.DrainRequest) (*pb.DrainResult, error) {
	n, err := s.impl.Drain(ctx, time.Duration(m.GetDeadlineNs()))
	return reply(&pb.DrainResult{Cancelled: int32(n)}, err)
}

func (s *workerServer) Heartbeat(ctx context.Context, _ *pb.HeartbeatRequest) (*pb.HeartbeatResult, error) {
	res, err := s.impl.Heartbeat(ctx)
	return reply(toHeartbeat(res), err)
}

func (s *workerServer) Status(ctx context.Context, _ *pb.WorkerStatusRequest) (*pb.WorkerStatus, error) {
	res, err := s.impl.Status(ctx)
	return reply(toWorkerStatus(res), err)
}

// reply gives a message or an error, never both.
func reply[M any](m *M, err error) (*M, error) {
	if err != nil {
		return nil, errorToStatus(err)
	}
	return m, nil
}

// sendGenerate serves either Generate stream.
func sendGenerate(stream grpc.ServerStreamingServer[pb.GenerateReply], run func(func(Chunk) error) (Result, error)) error {
	res, err := run(func(c Chunk) error {
		return stream.Send(&pb.GenerateReply{Item: &pb.GenerateReply_Chunk{Chunk: toChunk(c)}})
	})
	if err != nil {
		return errorToStatus(err)
	}
	return stream.Send(&pb.GenerateReply{Item: &pb.GenerateReply_Result{Result: toResult(res)}})
}
