package shared

import pb "github.com/firstframe/firstframe/shared/firstframepb"

func toTools(in []Tool) []*pb.Tool {
	var out []*pb.Tool
	for _, t := range in {
		out = append(out, &pb.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out
}

func fromTools(in []*pb.Tool) []Tool {
	var out []Tool
	for _, m := range in {
		out = append(out, Tool{Name: m.GetName(), Description: m.GetDescription(), Parameters: m.GetParameters()})
	}
	return out
}

func toToolCalls(in []ToolCall) []*pb.ToolCall {
	var out []*pb.ToolCall
	for _, c := range in {
		out = append(out, &pb.ToolCall{Index: int32(c.Index), Id: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return out
}

func fromToolCalls(in []*pb.ToolCall) []ToolCall {
	var out []ToolCall
	for _, m := range in {
		out = append(out, ToolCall{Index: int(m.GetIndex()), ID: m.GetId(), Name: m.GetName(), Arguments: m.GetArguments()})
	}
	return out
}
