package shared

import "time"

// Requirement is what a request asks for. Resolve turns it into exactly one
// identity; empty fields do not narrow the choice.
type Requirement struct {
	SlotID            string
	Model             string
	ModelRevision     string
	Precision         string
	TokenizerRevision string
	LayoutRevision    string
	SlotRevision      string
}

// Resolution is the one identity that a requirement means, with the slots that have it.
type Resolution struct {
	Identity Identity
	SlotIDs  []string
	Model    string
}

// Message is one turn of a chat.
type Message struct {
	Role    string
	Content string
	// ToolCalls are what an assistant's turn asked for; a turn of role tool answers
	// the one of ToolCallID.
	ToolCalls  []ToolCall
	ToolCallID string
	// Reasoning is what an assistant's turn thought before it said Content.
	Reasoning string
}

// Tool is a function that the model may ask to have called.
type Tool struct {
	Name        string
	Description string
	Parameters  string // a JSON schema; empty means that there are none
}

// ToolCall is a call that the model asked for. In a stream the first piece of a
// call has its id and name; Arguments is JSON, in pieces that follow each other.
type ToolCall struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// Choices of whether tools are called; a tool's own name as OnlyTool narrows
// ToolRequired to that one.
const (
	ToolAuto     = "auto"
	ToolRequired = "required"
)

// LogitBias is added to one token's logit before sampling.
type LogitBias struct {
	Token int32
	Bias  float32
}

// Sampling says how the next token is chosen. The zero value is greedy.
type Sampling struct {
	Temperature      float32 // 0 means greedy
	TopK             int     // 0 means off
	TopP             float32 // 0 or 1 means off
	MinP             float32 // 0 means off
	Seed             uint32  // 0 means a random one
	RepeatPenalty    float32 // 0 or 1 means off
	RepeatLastN      int     // 0 means 64, -1 the whole context
	PresencePenalty  float32
	FrequencyPenalty float32
	LogitBias        []LogitBias
}

// GenerateRequest is one request. Exactly one of Prompt, Messages and
// PromptTokens is set. The supervisor fills in Identity; the worker compares it
// with its own and refuses anything else.
type GenerateRequest struct {
	RequestID    string
	Requirement  Requirement
	Identity     Identity
	Prompt       string
	Messages     []Message
	PromptTokens []int32
	Sampling     Sampling
	MaxTokens    int // 0 means until the context is full
	Stop         []string
	IgnoreEOS    bool
	OnMiss       OnMiss        // empty means the slot's own
	Deadline     time.Duration // counted from arrival; 0 means the default
	// Logprobs asks for the log probability of each token of the answer, and
	// TopLogprobs for those of that many tokens that were most likely in its place.
	Logprobs    bool
	TopLogprobs int
	// Grammar is GBNF that the whole answer has to follow; empty means none.
	Grammar string
	// Tools are offered to the model through its chat template. ToolChoice empty
	// means ToolAuto. With OneToolCall an answer asks for one call at most.
	Tools       []Tool
	ToolChoice  string
	OnlyTool    string
	OneToolCall bool
	// NoThinking asks a chat template that knows a way to keep the model from thinking.
	NoThinking bool
}

// MaxTopLogprobs is the most alternatives that a request may ask for.
const MaxTopLogprobs = 20

// TokenLogprob is a token and the logarithm of its probability as the model gave
// it, before penalties, temperature and whatever else chooses among tokens.
type TokenLogprob struct {
	Token int32
	// Bytes are the token's own, which may be a part of a character.
	Bytes   []byte
	Logprob float32
	// Top are the most likely tokens in this place, best first.
	Top []AlternativeLogprob
}

// AlternativeLogprob is one token that was possible in a place.
type AlternativeLogprob struct {
	Token   int32
	Bytes   []byte
	Logprob float32
}

// Chunk is a piece of the answer, or, with Progress set, news of the
// preparation that the request waits for. The first chunk with text carries the
// phases known so far.
type Chunk struct {
	SlotID   string
	Text     string
	Tokens   []int32
	Phases   *Phases
	Progress *Progress
	// Logprobs are those of Tokens, when the request asked for them; tokens that
	// belong to a stop string, whose text is not shown, have none.
	Logprobs []TokenLogprob
	// ToolCalls are pieces of calls that the model asks for.
	ToolCalls []ToolCall
	// Reasoning is text by which the model thinks; what it says is in Text.
	Reasoning string
	// Usage comes with Phases and knows the prompt's tokens.
	Usage *Usage
}

// HasContent says whether a client gets to see something of the chunk.
func (c Chunk) HasContent() bool { return c.Text != "" || c.Reasoning != "" || len(c.ToolCalls) > 0 }

// Finish reasons of a Result.
const (
	FinishStop   = "stop"
	FinishLength = "length"
	FinishTools  = "tool_calls"
)

// Usage counts tokens. PromptTokens is always the whole prompt.
type Usage struct {
	PromptTokens     int
	CachedTokens     int
	CompletionTokens int
	// ReasoningTokens are those of CompletionTokens by which the model thought.
	ReasoningTokens int
}

// Result ends a request that succeeded.
type Result struct {
	SlotID       string
	Model        string
	Identity     Identity
	FinishReason string
	Usage        Usage
	Phases       Phases
	Activation   ActivationDetail
	SlotHit      bool          // the slot was resident when the request came
	Prompt       time.Duration // prefill of the tokens that no page covered
	Predicted    time.Duration // all decode steps
	// MissReason says why the prompt's tokens after the cached ones were not; empty
	// when every page that may be used was there.
	MissReason string
	// DivergedAtToken is the first token in which the prompt differs from the known
	// prompt that shares most tokens with it, 0 when there is none.
	DivergedAtToken int
	// StopString is the one of the request's stop strings that ended the answer.
	StopString string
}
