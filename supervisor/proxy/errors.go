package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/firstframe/firstframe/shared"
)

// errorBody is OpenAI's error object, with what this runtime knows beside it.
type errorBody struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Message    string          `json:"message"`
	Type       string          `json:"type"`
	Param      *string         `json:"param"`
	Code       string          `json:"code"`
	SlotID     string          `json:"slot_id,omitempty"`
	Candidates []candidateJSON `json:"candidates,omitempty"`
	LogTail    []string        `json:"log_tail,omitempty"`
}

type candidateJSON struct {
	ID       string       `json:"id"`
	SlotID   string       `json:"slot_id"`
	Identity identityJSON `json:"identity"`
}

type identityJSON struct {
	ModelRevision     string `json:"model_revision"`
	Precision         string `json:"precision"`
	TokenizerRevision string `json:"tokenizer_revision"`
	LayoutRevision    string `json:"layout_revision"`
	SlotRevision      string `json:"slot_revision"`
}

func toIdentityJSON(id shared.Identity) identityJSON {
	return identityJSON(id)
}

// httpStatus is the status of an error kind.
func httpStatus(k shared.Kind) int {
	switch k {
	case shared.KindInvalid, shared.KindContextTooLong, shared.KindUnsupported:
		return http.StatusBadRequest
	case shared.KindNotFound, shared.KindAmbiguous:
		return http.StatusNotFound
	case shared.KindPending:
		return http.StatusAccepted
	case shared.KindBusy:
		return http.StatusTooManyRequests
	case shared.KindDeadline:
		return http.StatusGatewayTimeout
	case shared.KindProtocol:
		return http.StatusBadGateway
	case shared.KindNotResident, shared.KindIdentity, shared.KindWorkerLost, shared.KindUnavailable,
		shared.KindEngineMissing, shared.KindModelFile, shared.KindShuttingDown, shared.KindCancelled:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// errorType is OpenAI's coarse class of an error.
func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "authentication_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status < 500:
		return "invalid_request_error"
	default:
		return "server_error"
	}
}

// httpError is an error that the HTTP side itself found.
type httpError struct {
	status  int
	code    string
	param   string
	message string
}

func (e *httpError) Error() string { return e.message }

func badRequest(code, param, format string, args ...any) *httpError {
	return &httpError{status: http.StatusBadRequest, code: code, param: param, message: fmt.Sprintf(format, args...)}
}

// describe gives status and body of any error.
func describe(err error) (int, errorBody) {
	var own *httpError
	if errors.As(err, &own) {
		return own.status, errorBody{errorObject{
			Message: own.message, Type: errorType(own.status), Param: optional(own.param), Code: own.code,
		}}
	}
	e := shared.AsError(err, "", "")
	status := httpStatus(e.Kind)
	body := errorBody{errorObject{
		Message: e.Text(), Type: errorType(status), Param: optional(e.Field), Code: errorCode(e.Kind),
		SlotID: e.SlotID, LogTail: e.LogTail,
	}}
	for _, c := range e.Candidates {
		id := modelID(c.Model, c.Identity)
		if slices.ContainsFunc(e.Candidates, func(o shared.Candidate) bool {
			return o.Identity != c.Identity && modelID(o.Model, o.Identity) == id
		}) {
			id = c.SlotID // an adapter tells them apart, and that has no name
		}
		body.Error.Candidates = append(body.Error.Candidates, candidateJSON{
			ID: id, SlotID: c.SlotID, Identity: toIdentityJSON(c.Identity),
		})
	}
	return status, body
}

// errorCode is OpenAI's code where there is one that clients act on, else the kind's name.
func errorCode(k shared.Kind) string {
	switch k {
	case shared.KindNotFound:
		return "model_not_found"
	case shared.KindAmbiguous:
		return "model_ambiguous"
	case shared.KindContextTooLong:
		return "context_length_exceeded"
	case shared.KindBusy:
		return "rate_limit_exceeded"
	case shared.KindUnsupported:
		return "unsupported_parameter"
	default:
		return k.String()
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// defaultRetryAfter is told when the slot itself does not know better.
const defaultRetryAfter = time.Second

func retryAfter(err error) time.Duration {
	if e := shared.AsError(err, "", ""); e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return defaultRetryAfter
}

// refuse answers a request that has not been answered yet in the form of the API
// that it is for, and gives the status.
func refuse(w http.ResponseWriter, r *http.Request, err error) int {
	switch {
	case forOllama(r.URL.Path):
		return writeOllamaError(w, err)
	case forAnthropic(r.URL.Path):
		status, body := describe(err)
		return writeDescribed(w, err, status, toAnthropicError(status, body.Error, nameRequest(w)))
	}
	return writeError(w, err)
}

// writeError answers a request that has not been answered yet, and gives the status.
func writeError(w http.ResponseWriter, err error) int {
	status, body := describe(err)
	return writeDescribed(w, err, status, body)
}

func writeDescribed(w http.ResponseWriter, err error, status int, body any) int {
	if status == http.StatusAccepted {
		writePending(w, err)
		return status
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		setRetryAfter(w, retryAfter(err))
	}
	writeJSON(w, status, body)
	return status
}

func setRetryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
}

type pendingBody struct {
	Status       string `json:"status"`
	SlotID       string `json:"slot_id"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

func writePending(w http.ResponseWriter, err error) {
	after := retryAfter(err)
	setRetryAfter(w, after)
	writeJSON(w, http.StatusAccepted, pendingBody{
		Status: "pending", SlotID: shared.AsError(err, "", "").SlotID, RetryAfterMS: after.Milliseconds(),
	})
}

// replyTimeout is how long writing a whole answer may take.
const replyTimeout = 30 * time.Second

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		// Only a value that this package made itself could not be marshalled.
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTimeout)) // a writer without deadlines waits for nobody
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
