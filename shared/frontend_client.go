package shared

import (
	"context"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

// frontendClient is a supervisor in another process.
type frontendClient struct {
	client pb.SupervisorClient
}

var _ Frontend = (*frontendClient)(nil)

func (c *frontendClient) fail(ctx context.Context, op string, err error) error {
	return errorFromStatus(ctx, op, KindUnavailable, err)
}

func (c *frontendClient) ListSlots(ctx context.Context) (SlotList, error) {
	m, err := c.client.ListSlots(ctx, &pb.ListSlotsRequest{})
	return fromSlotList(m), c.fail(ctx, "list slots", err)
}

func (c *frontendClient) WatchSlots(ctx context.Context, changed func(SlotList) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.WatchSlots(ctx, &pb.ListSlotsRequest{})
	if err != nil {
		return c.fail(ctx, "watch slots", err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return c.fail(ctx, "watch slots", err)
		}
		if err := changed(fromSlotList(m)); err != nil {
			return err
		}
	}
}

func (c *frontendClient) Resolve(ctx context.Context, req Requirement) (Resolution, error) {
	m, err := c.client.Resolve(ctx, toRequirement(req))
	return fromResolution(m), c.fail(ctx, "resolve", err)
}

func (c *frontendClient) Generate(ctx context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error) {
	return receiveGenerate(ctx, emit, c.fail, func(ctx context.Context) (generateReceiver, error) {
		return c.client.Generate(ctx, toGenerate(req))
	})
}

func (c *frontendClient) Prepare(ctx context.Context, slotID string, progress func(Progress)) (SlotInfo, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Prepare(ctx, &pb.PrepareRequest{SlotId: slotID})
	if err != nil {
		return SlotInfo{}, c.fail(ctx, "prepare", err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return SlotInfo{}, c.fail(ctx, "prepare", err)
		}
		if s := m.GetSlot(); s != nil {
			return fromSlotInfo(s), nil
		}
		if p := m.GetProgress(); p != nil && progress != nil {
			progress(fromProgress(p))
		}
	}
}

func (c *frontendClient) Evict(ctx context.Context, slotID string, dropHost bool) (SlotInfo, error) {
	m, err := c.client.Evict(ctx, &pb.EvictSlotRequest{SlotId: slotID, DropHost: dropHost})
	return fromSlotInfo(m), c.fail(ctx, "evict", err)
}

func (c *frontendClient) Restart(ctx context.Context, slotID string) (SlotInfo, error) {
	m, err := c.client.Restart(ctx, &pb.RestartSlotRequest{SlotId: slotID})
	return fromSlotInfo(m), c.fail(ctx, "restart", err)
}

func (c *frontendClient) Tokenize(ctx context.Context, req TokenizeRequest) ([]int32, error) {
	m, err := c.client.Tokenize(ctx, toTokenize(req))
	return m.GetTokens(), c.fail(ctx, "tokenize", err)
}

func (c *frontendClient) ApplyTemplate(ctx context.Context, req ApplyTemplateRequest) (string, error) {
	m, err := c.client.ApplyTemplate(ctx, toApplyTemplate(req))
	return m.GetPrompt(), c.fail(ctx, "apply template", err)
}

func (c *frontendClient) Plan(ctx context.Context, d Declaration) (Plan, error) {
	m, err := c.client.Plan(ctx, toDeclaration(d))
	return fromChanges(m), c.fail(ctx, "plan", err)
}

func (c *frontendClient) Reload(ctx context.Context) (Reload, error) {
	m, err := c.client.Reload(ctx, &pb.ReloadRequest{})
	return fromReload(m), c.fail(ctx, "reload", err)
}

func (c *frontendClient) Activity(ctx context.Context, after uint64) (Activity, error) {
	m, err := c.client.Activity(ctx, &pb.ActivityRequest{After: after})
	return fromActivity(m), c.fail(ctx, "activity", err)
}

func (c *frontendClient) Detokenize(ctx context.Context, req DetokenizeRequest) (string, error) {
	m, err := c.client.Detokenize(ctx, toDetokenize(req))
	return m.GetText(), c.fail(ctx, "detokenize", err)
}

func (c *frontendClient) Embed(ctx context.Context, req EmbedRequest) (EmbedResult, error) {
	m, err := c.client.Embed(ctx, toEmbed(req))
	return fromEmbedResult(m), c.fail(ctx, "embed", err)
}
