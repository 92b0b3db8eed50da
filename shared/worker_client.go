package shared

import (
	"context"
	"time"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

// workerClient is a Worker in another process.
type workerClient struct {
	process context.Context // ends with the worker process
	client  pb.SlotWorkerClient
}

var _ Worker = (*workerClient)(nil)

// fail gives an error its typed form. When the process is gone the error says
// so, whatever gRPC made of it, unless the caller had given up before.
func (c *workerClient) fail(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	e := AsError(errorFromStatus(ctx, op, KindWorkerLost, err), op, "")
	if c.process.Err() != nil && ctx.Err() == nil && (e.Kind == KindProtocol || e.Kind == KindCancelled) {
		e.Kind = KindWorkerLost
	}
	return e
}

func (c *workerClient) Describe(ctx context.Context) (WorkerInfo, error) {
	m, err := c.client.Describe(ctx, &pb.DescribeRequest{})
	return fromWorkerInfo(m), c.fail(ctx, "describe", err)
}

func (c *workerClient) Prefetch(ctx context.Context, req PrefetchRequest, progress func(Progress)) (PrefetchResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Prefetch(ctx, toPrefetch(req))
	if err != nil {
		return PrefetchResult{}, c.fail(ctx, "prefetch", err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return PrefetchResult{}, c.fail(ctx, "prefetch", err)
		}
		if r := m.GetResult(); r != nil {
			return fromPrefetchResult(r), nil
		}
		if p := m.GetProgress(); p != nil && progress != nil {
			progress(fromProgress(p))
		}
	}
}

func (c *workerClient) Activate(ctx context.Context, req ActivateRequest) (ActivateResult, error) {
	m, err := c.client.Activate(ctx, toActivate(req))
	return fromActivateResult(m), c.fail(ctx, "activate", err)
}

func (c *workerClient) Generate(ctx context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error) {
	return receiveGenerate(ctx, emit, c.fail, func(ctx context.Context) (generateReceiver, error) {
		return c.client.Generate(ctx, toGenerate(req))
	})
}

func (c *workerClient) Tokenize(ctx context.Context, req TokenizeRequest) ([]int32, error) {
	m, err := c.client.Tokenize(ctx, toTokenize(req))
	return m.GetTokens(), c.fail(ctx, "tokenize", err)
}

func (c *workerClient) ApplyTemplate(ctx context.Context, req ApplyTemplateRequest) (string, error) {
	m, err := c.client.ApplyTemplate(ctx, toApplyTemplate(req))
	return m.GetPrompt(), c.fail(ctx, "apply template", err)
}

func (c *workerClient) Detokenize(ctx context.Context, req DetokenizeRequest) (string, error) {
	m, err := c.client.Detokenize(ctx, toDetokenize(req))
	return m.GetText(), c.fail(ctx, "detokenize", err)
}

func (c *workerClient) Embed(ctx context.Context, req EmbedRequest) (EmbedResult, error) {
	m, err := c.client.Embed(ctx, toEmbed(req))
	return fromEmbedResult(m), c.fail(ctx, "embed", err)
}

func (c *workerClient) Evict(ctx context.Context, dropHost bool) (EvictWorkerResult, error) {
	m, err := c.client.Evict(ctx, &pb.EvictWorkerRequest{DropHost: dropHost})
	return fromEvictResult(m), c.fail(ctx, "evict", err)
}

func (c *workerClient) Drain(ctx context.Context, deadline time.Duration) (int, error) {
	m, err := c.client.Drain(ctx, &pb.DrainRequest{DeadlineNs: int64(deadline)})
	return int(m.GetCancelled()), c.fail(ctx, "drain", err)
}

func (c *workerClient) Heartbeat(ctx context.Context) (HeartbeatResult, error) {
	m, err := c.client.Heartbeat(ctx, &pb.HeartbeatRequest{})
	return fromHeartbeat(m), c.fail(ctx, "heartbeat", err)
}

func (c *workerClient) Status(ctx context.Context) (WorkerStatus, error) {
	m, err := c.client.Status(ctx, &pb.WorkerStatusRequest{})
	return fromWorkerStatus(m), c.fail(ctx, "status", err)
}

// generateReceiver is the receiving end of either Generate stream.
type generateReceiver interface {
	Recv() (*pb.GenerateReply, error)
}

// receiveGenerate opens a stream and hands on its chunks until the result. An
// error of emit is returned as it is: it is the caller's own, and ends the
// stream like every return does.
func receiveGenerate(
	ctx context.Context, emit func(Chunk) error, fail func(context.Context, string, error) error,
	open func(context.Context) (generateReceiver, error),
) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return Result{}, fail(ctx, "generate", err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return Result{}, fail(ctx, "generate", err)
		}
		if r := m.GetResult(); r != nil {
			_, _ = stream.Recv() // to the end, so that the connection serves the next one
			return fromResult(r), nil
		}
		if c := m.GetChunk(); c != nil {
			if err := emit(fromChunk(c)); err != nil {
				return Result{}, err
			}
		}
	}
}
