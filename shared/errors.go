package shared

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind sorts errors for machines. The numbers cross the wire: append, never
// reorder or reuse.
type Kind uint32

// The error kinds.
const (
	KindOther          Kind = iota // anything without a kind of its own
	KindInvalid                    // the request is wrong; Field says where
	KindNotFound                   // no slot matches; Candidates are the nearest
	KindAmbiguous                  // several identities match; Field tells them apart
	KindNotResident                // on_miss = fail and the slot is not resident
	KindPending                    // preparation was started; RetryAfter says when to come back
	KindIdentity                   // the bytes contradict the declaration or the expectation
	KindContextTooLong             // the prompt does not fit the slot's context
	KindBusy                       // the queue is full, or the slot is busy
	KindDeadline                   // the request's deadline passed
	KindCancelled                  // the caller left or an operator cancelled
	KindWorkerLost                 // the worker process ended under the request
	KindUnavailable                // the slot cannot be served now; RetryAfter when known
	KindEngine                     // the engine refused or failed
	KindEngineMissing              // the engine library is not installed
	KindUnsupported                // a feature that this build does not have
	KindConfig                     // a configuration file is wrong
	KindProtocol                   // the other side broke the contract
	KindModelFile                  // the model file is damaged, hostile or of a kind we cannot run
	KindShuttingDown               // the process is ending
	kindEnd
)

var kindNames = [kindEnd]string{
	"other", "invalid", "not_found", "ambiguous", "not_resident", "pending", "identity",
	"context_too_long", "busy", "deadline", "cancelled", "worker_lost", "unavailable",
	"engine", "engine_missing", "unsupported", "config", "protocol", "model_file", "shutting_down",
}

// String is the kind's name in JSON.
func (k Kind) String() string {
	if k < kindEnd {
		return kindNames[k]
	}
	return fmt.Sprintf("kind_%d", uint32(k))
}

// Candidate is a slot that an error names as an alternative.
type Candidate struct {
	SlotID   string
	Model    string
	Identity Identity
}

// Error is the one error type that crosses process boundaries.
type Error struct {
	Op         string // what was being done, such as "generate"
	SlotID     string // the slot concerned, when there is one
	Kind       Kind
	Message    string      // for people, lower case, no full stop
	Field      string      // the field at fault or the one that tells candidates apart
	Candidates []Candidate // what could be asked for instead
	RetryAfter time.Duration
	LogTail    []string // last lines of the worker's log
	Err        error    // cause inside this process; its text crosses the wire in Message
}

// Error prints operation, slot and message.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	if e.SlotID != "" {
		fmt.Fprintf(&b, "slot %s: ", e.SlotID)
	}
	b.WriteString(e.Text())
	return b.String()
}

// Text is the message and its cause, without operation and slot.
func (e *Error) Text() string {
	switch {
	case e.Err == nil && e.Message == "":
		return e.Kind.String()
	case e.Err == nil:
		return e.Message
	case e.Message == "":
		return e.Err.Error()
	default:
		return e.Message + ": " + e.Err.Error()
	}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a kind. A %w operand becomes part of the message and
// stays reachable by errors.Is.
func Errorf(kind Kind, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	if cause := errors.Unwrap(wrapped); cause != nil {
		return &Error{Kind: kind, Err: wrapped}
	}
	return &Error{Kind: kind, Message: wrapped.Error()}
}

// KindOf finds the kind of an error. Context errors have kinds of their own.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled):
		return KindCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return KindDeadline
	default:
		return KindOther
	}
}

// AsError gives err as an *Error, with op and slot filled in where they are
// empty. It is nil for nil.
func AsError(err error, op, slotID string) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Op: op, SlotID: slotID, Kind: KindOf(err), Err: err}
	}
	filled := *e
	if filled.Op == "" {
		filled.Op = op
	}
	if filled.SlotID == "" {
		filled.SlotID = slotID
	}
	return &filled
}
