package proxy

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// ollamaLine is a line of a streamed answer, or all of one that is not streamed.
type ollamaLine struct {
	Model      string             `json:"model"`
	CreatedAt  time.Time          `json:"created_at"`
	Message    *ollamaMessage     `json:"message,omitzero"`  // of a chat
	Response   *string            `json:"response,omitzero"` // else, as the next
	Thinking   string             `json:"thinking,omitempty"`
	Logprobs   []chatTokenLogprob `json:"logprobs,omitempty"`
	Done       bool               `json:"done"`
	DoneReason string             `json:"done_reason,omitempty"`
	*ollamaCounts
	Timings *timingsJSON `json:"timings,omitzero"`
}

// ollamaCounts ends an answer. Durations are in nanoseconds.
type ollamaCounts struct {
	TotalDuration      int64 `json:"total_duration"`
	LoadDuration       int64 `json:"load_duration"`
	PromptEvalCount    int   `json:"prompt_eval_count"`
	PromptEvalDuration int64 `json:"prompt_eval_duration"`
	EvalCount          int   `json:"eval_count"`
	EvalDuration       int64 `json:"eval_duration"`
}

// ollamaAnswer is one request of an Ollama client under way.
type ollamaAnswer struct {
	ask   ollamaAsk
	lines *sse  // nil unless streamed
	all   piece // what is not streamed
}

// ollamaGenerate runs one request. Its clock starts here, as for all others.
func (s *Server) ollamaGenerate(w http.ResponseWriter, r *http.Request, ask ollamaAsk) outcome {
	start := time.Now()
	release, err := s.takePlace()
	if err != nil {
		return outcome{err: err, status: writeOllamaError(w, err)}
	}
	defer release()
	ask.RequestID = newID()
	a := &ollamaAnswer{ask: ask}
	if ask.stream {
		a.lines = newLines(w, s.cfg.WriteTimeout)
	}
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	m, err := shared.GenerateAtEdge(r.Context(), ollamaFrontend{Frontend: s.frontend, context: ask.context, thinks: ask.thinks}, start, ask.GenerateRequest, a.deliver)
	results := []shared.Measured{m}
	s.record(ask.GenerateRequest, ask.stream, start, results, err)
	return outcome{parsed: start, id: ask.RequestID, results: results, err: err, status: a.end(w, m, err)}
}

func (a *ollamaAnswer) deliver(c shared.Chunk) error {
	if !c.HasContent() && len(c.Logprobs) == 0 {
		return nil
	}
	if a.lines == nil {
		a.all.add(c)
		return nil
	}
	if c.Phases != nil {
		a.lines.setTiming(*c.Phases)
	}
	var p piece
	p.add(c)
	return a.lines.send(a.line(p))
}

// line is one piece in the form of its endpoint.
func (a *ollamaAnswer) line(p piece) ollamaLine {
	l := ollamaLine{Model: a.ask.model, CreatedAt: time.Now().UTC()}
	if probs := toChatLogprobs(p.probs); probs != nil {
		l.Logprobs = probs.Content
	}
	if !a.ask.chat {
		l.Response, l.Thinking = &p.text, p.reasoning
		return l
	}
	l.Message = &ollamaMessage{Role: "assistant", Content: messageText(p.text), Thinking: p.reasoning}
	for _, c := range p.calls {
		l.Message.ToolCalls = append(l.Message.ToolCalls, ollamaCall{
			ID: c.ID, Function: ollamaFunction{Index: &c.Index, Name: c.Name, Arguments: jsontext.Value(c.Arguments)},
		})
	}
	return l
}

// end writes the last line and gives the answer's status.
func (a *ollamaAnswer) end(w http.ResponseWriter, m shared.Measured, err error) int {
	switch {
	case err != nil && (a.lines == nil || !a.lines.started):
		return writeOllamaError(w, err)
	case err != nil:
		_ = a.lines.send(toOllamaError(err)) // the stream ends here either way
		return http.StatusOK
	}
	last := a.line(a.all)
	last.Done, last.DoneReason = true, m.FinishReason
	if m.FinishReason == shared.FinishTools {
		last.DoneReason = shared.FinishStop
	}
	last.ollamaCounts, last.Timings = toOllamaCounts(m), toTimings(m)
	if a.lines == nil {
		writeJSON(w, http.StatusOK, last)
		return http.StatusOK
	}
	_ = a.lines.send(last) // a client that has gone needs none
	return http.StatusOK
}

// toOllamaCounts takes the durations from the phases: loading is all that comes
// before the slot has the request.
func toOllamaCounts(m shared.Measured) *ollamaCounts {
	return &ollamaCounts{
		TotalDuration: m.FullResponse.Nanoseconds(), LoadDuration: (m.Phases.Route + m.Phases.Queue + m.Phases.SlotActivation).Nanoseconds(),
		PromptEvalCount: m.Usage.PromptTokens, PromptEvalDuration: m.Prompt.Nanoseconds(),
		EvalCount: m.Usage.CompletionTokens, EvalDuration: m.Predicted.Nanoseconds(),
	}
}
