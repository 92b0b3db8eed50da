package slotworker

import (
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gbnf"
)

// guide makes what keeps an answer to its grammar or to the tools that it may
// call; nil when it is free.
func (r *resident) guide(req shared.GenerateRequest, think *thinkSplitter) (constraint, error) {
	switch {
	case req.Grammar != "" && len(req.Tools) > 0:
		return nil, invalid("grammar", "grammar and tools exclude each other")
	case req.Grammar != "":
		return r.follow(req.Grammar, "grammar")
	case len(req.Tools) == 0:
		return nil, nil
	}
	if err := r.knowsTools(); err != nil {
		return nil, err
	}
	whole, behind, err := r.tools.grammar(req)
	if err != nil {
		return nil, err
	}
	switch req.ToolChoice {
	case shared.ToolRequired:
		return r.follow(whole, "tools")
	case "", shared.ToolAuto:
	default:
		return nil, invalid("tool_choice", "tool_choice %q is not %s or %s", req.ToolChoice, shared.ToolAuto, shared.ToolRequired)
	}
	grammar, err := gbnf.Parse(behind)
	if err != nil {
		return nil, invalid("tools", "%w", err)
	}
	g := &toolGuide{format: r.tools, words: r.vocabulary(), behind: grammar, piece: r.piece}
	if think != nil {
		g.think = *think
	}
	return g, nil
}

// knowsTools refuses tools that the model could not call.
func (r *resident) knowsTools() error {
	if r.tools != nil {
		return nil
	}
	return &shared.Error{Kind: shared.KindUnsupported, Field: "tools", Message: "the model's chat template knows no tools, or calls them in a way that is not supported"}
}

func (r *resident) follow(text, field string) (constraint, error) {
	grammar, err := gbnf.Parse(text)
	if err != nil {
		return nil, invalid(field, "%w", err)
	}
	guide, err := gbnf.NewGuide(grammar, r.vocabulary())
	if err != nil {
		return nil, invalid(field, "%w", err)
	}
	return guide, nil
}

// vocabulary is made by the first request that needs it.
func (r *resident) vocabulary() *gbnf.Vocabulary {
	r.wordsOnce.Do(func() { r.words = gbnf.NewVocabulary(int(r.vocab), r.piece, r.model.IsEOG) })
	return r.words
}

// piece is a token's text. What marks calls of tools and thoughts is text too,
// also where it is a token without any.
func (r *resident) piece(token int32) []byte {
	piece := r.model.Piece(token, false)
	if len(piece) > 0 {
		return piece
	}
	whole := r.model.Piece(token, true)
	mark := string(whole)
	switch {
	case mark == "":
	case r.tools != nil && mark == r.tools.marker, r.thinking != nil && (mark == r.thinking.Open || mark == r.thinking.Close):
		return whole
	}
	return piece
}

// sample samples the next token of a request. Its error ends the request.
func (s *scheduler) sample(r *request, row int) (int32, error) {
	if r.grammar == nil {
		if token := s.engine.Sample(r.sampler, row); token >= 0 {
			return token, nil
		}
		return -1, shared.Errorf(shared.KindEngine, "the engine could not choose a token")
	}
	token := s.engine.SampleAmong(r.sampler, row, r.grammar)
	if err := r.grammar.Err(); err != nil {
		return -1, invalid("grammar", "%w", err)
	}
	if token < 0 {
		return -1, invalid("grammar", "no token of the model can go on as the grammar demands")
	}
	if err := r.grammar.Take(token); err != nil {
		return -1, invalid("grammar", "%w", err)
	}
	return token, nil
}
