package slotworker

import (
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gbnf"
)

// guide makes what keeps an answer to its grammar; nil without one.
func (r *resident) guide(req shared.GenerateRequest) (*gbnf.Guide, error) {
	if req.Grammar == "" {
		return nil, nil
	}
	grammar, err := gbnf.Parse(req.Grammar)
	if err != nil {
		return nil, invalid("grammar", "%w", err)
	}
	r.wordsOnce.Do(func() {
		r.words = gbnf.NewVocabulary(int(r.vocab), func(t int32) []byte { return r.model.Piece(t, false) }, r.model.IsEOG)
	})
	guide, err := gbnf.NewGuide(grammar, r.words)
	if err != nil {
		return nil, invalid("grammar", "%w", err)
	}
	return guide, nil
}

// choose samples the next token of a request. Its error ends the request.
func (s *scheduler) choose(r *request, row int) (int32, error) {
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
