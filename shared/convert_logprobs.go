package shared

import pb "github.com/firstframe/firstframe/shared/firstframepb"

func toLogprobs(in []TokenLogprob) []*pb.TokenLogprob {
	var out []*pb.TokenLogprob
	for _, t := range in {
		m := &pb.TokenLogprob{Token: t.Token, Bytes: t.Bytes, Logprob: t.Logprob}
		for _, a := range t.Top {
			m.Top = append(m.Top, &pb.AlternativeLogprob{Token: a.Token, Bytes: a.Bytes, Logprob: a.Logprob})
		}
		out = append(out, m)
	}
	return out
}

func fromLogprobs(in []*pb.TokenLogprob) []TokenLogprob {
	var out []TokenLogprob
	for _, m := range in {
		t := TokenLogprob{Token: m.GetToken(), Bytes: m.GetBytes(), Logprob: m.GetLogprob()}
		for _, a := range m.GetTop() {
			t.Top = append(t.Top, AlternativeLogprob{Token: a.GetToken(), Bytes: a.GetBytes(), Logprob: a.GetLogprob()})
		}
		out = append(out, t)
	}
	return out
}
