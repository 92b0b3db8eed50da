package bench

import (
	"context"
	"time"
)

// Question is one chat to be answered.
type Question struct {
	System    string // empty means no system prompt
	Text      string
	MaxTokens int
}

// Sample is one answer as its client saw it.
type Sample struct {
	FirstChunk time.Duration
	Full       time.Duration
	// Engine is what the server says it computed before the first token, 0 when it
	// does not say.
	Engine       time.Duration
	PromptTokens int
	CachedTokens int
	Tokens       int
	// Phases is what the server says of the first chunk, by name, in
	// milliseconds; nil when it does not say.
	Phases map[string]float64
}

// Target is whoever can be asked.
type Target interface {
	Ask(ctx context.Context, q Question) (Sample, error)
}
