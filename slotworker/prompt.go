package slotworker

import (
	"bytes"
	"context"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// prepareText readies what turns requests into tokens. A template that cannot
// be used does not keep the slot from serving plain prompts.
func (r *resident) prepareText(host *hostBuffer) error {
	r.vocab = int32(r.model.Info().Vocab)
	special, err := r.model.Tokenize("", true, false)
	if err != nil {
		return engineError("the engine cannot tokenize", err)
	}
	r.addsBOS = len(special) > 0 && special[0] == r.model.BOS()
	word, err := r.model.Tokenize("x", false, false)
	if err != nil {
		return engineError("the engine cannot tokenize", err)
	}
	r.addsSpace = len(word) > 0 && bytes.HasPrefix(r.model.Piece(word[0], false), []byte(" "))
	r.tools = detectTools(host.proof.header.ChatTemplate())
	r.thinking = shared.TemplateThinking(host.proof.header.ChatTemplate())
	r.template = parseTemplate(host.proof.header.ChatTemplate(), templateTokens{
		bos: string(r.specialPiece(r.model.BOS())),
		eos: string(r.specialPiece(r.model.EOS())),
	})
	return nil
}

func (r *resident) specialPiece(token int32) []byte {
	if token < 0 {
		return nil
	}
	return r.model.Piece(token, true)
}

// promptTokens makes the tokens of a request and refuses a prompt that leaves
// no room for an answer.
func (r *resident) promptTokens(ctx context.Context, req shared.GenerateRequest) ([]int32, error) {
	tokens, err := r.tokens(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, invalid("prompt", "the prompt is empty")
	}
	if limit := r.spec.ContextTokens; len(tokens) >= limit {
		return nil, shared.Errorf(shared.KindContextTooLong,
			"the prompt has %d tokens; slot %s has a context of %d, and one has to be left for the answer", len(tokens), r.spec.SlotID, limit)
	}
	return tokens, nil
}

func (r *resident) tokens(ctx context.Context, req shared.GenerateRequest) ([]int32, error) {
	switch {
	case len(req.PromptTokens) > 0:
		if i := r.unknownToken(req.PromptTokens); i >= 0 {
			return nil, invalid("prompt_tokens", "token %d at position %d is not in the vocabulary of %d tokens", req.PromptTokens[i], i, r.vocab)
		}
		return req.PromptTokens, nil
	case len(req.Messages) > 0:
		text, err := r.template.render(ctx, templateInput{
			messages: req.Messages, tools: req.Tools, addGenerationPrompt: true, noThinking: req.NoThinking,
		})
		if err != nil {
			return nil, err
		}
		return r.chatTokens(text)
	default:
		// A plain prompt may hold the model's own markup.
		return r.tokenize(req.Prompt, true, true)
	}
}

// unknownToken is the position of the first token that the model does not have, or -1.
func (r *resident) unknownToken(tokens []int32) int {
	return slices.IndexFunc(tokens, func(t int32) bool { return t < 0 || t >= r.vocab })
}

// chatTokens tokenizes a rendered chat. Some templates write the beginning of
// sequence and some leave it to the tokenizer: it is there once either way.
func (r *resident) chatTokens(text string) ([]int32, error) {
	tokens, err := r.tokenize(text, false, true)
	if err != nil {
		return nil, err
	}
	if bos := r.model.BOS(); r.addsBOS && (len(tokens) == 0 || tokens[0] != bos) {
		tokens = append([]int32{bos}, tokens...)
	}
	return tokens, nil
}

func (r *resident) tokenize(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	tokens, err := r.model.Tokenize(text, addSpecial, parseSpecial)
	if err != nil {
		return nil, engineError("the engine cannot tokenize", err)
	}
	return tokens, nil
}

// anyTokens makes the tokens of a text or of a chat.
func (r *resident) anyTokens(ctx context.Context, req shared.TokenizeRequest) ([]int32, error) {
	if len(req.Messages) == 0 {
		return r.tokenize(req.Text, req.AddSpecial, req.ParseSpecial)
	}
	if len(req.Tools) > 0 {
		if err := r.knowsTools(); err != nil {
			return nil, err
		}
	}
	return r.tokens(ctx, shared.GenerateRequest{Messages: req.Messages, Tools: req.Tools, NoThinking: req.NoThinking})
}

// Tokenize turns text, or a chat, into token ids.
func (w *Worker) Tokenize(ctx context.Context, req shared.TokenizeRequest) ([]int32, error) {
	r, err := w.acquire(req.Identity)
	if err != nil {
		return nil, shared.AsError(err, "tokenize", w.owner.mirror.Load().slotID)
	}
	defer w.release()
	tokens, err := r.anyTokens(ctx, req)
	if err != nil {
		return nil, shared.AsError(err, "tokenize", r.spec.SlotID)
	}
	return tokens, nil
}

// Detokenize turns token ids into text, markup included.
func (w *Worker) Detokenize(_ context.Context, req shared.DetokenizeRequest) (string, error) {
	r, err := w.acquire(req.Identity)
	if err != nil {
		return "", shared.AsError(err, "detokenize", w.owner.mirror.Load().slotID)
	}
	defer w.release()
	text, err := r.detokenize(req.Tokens)
	if err != nil {
		return "", shared.AsError(err, "detokenize", r.spec.SlotID)
	}
	return text, nil
}

// detokenize is the text whose tokens these are. The space that a tokenizer puts
// before a text is taken off again.
func (r *resident) detokenize(tokens []int32) (string, error) {
	if i := r.unknownToken(tokens); i >= 0 {
		return "", invalid("tokens", "token %d at position %d is not in the vocabulary of %d tokens", tokens[i], i, r.vocab)
	}
	first := 0
	if len(tokens) > 0 && tokens[0] == r.model.BOS() {
		first = 1
	}
	var text []byte
	for i, token := range tokens {
		piece := r.model.Piece(token, true)
		if i == first && r.addsSpace {
			piece = bytes.TrimPrefix(piece, []byte(" "))
		}
		text = append(text, piece...)
	}
	return validText(text), nil
}

// ApplyTemplate renders a chat as Generate would.
func (w *Worker) ApplyTemplate(ctx context.Context, req shared.ApplyTemplateRequest) (string, error) {
	r, err := w.acquire(req.Identity)
	if err != nil {
		return "", shared.AsError(err, "apply template", w.owner.mirror.Load().slotID)
	}
	defer w.release()
	text, err := r.template.render(ctx, templateInput{messages: req.Messages, addGenerationPrompt: req.AddGenerationPrompt})
	if err != nil {
		return "", shared.AsError(err, "apply template", r.spec.SlotID)
	}
	return text, nil
}
