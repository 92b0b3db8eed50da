package proxy

import (
	"net/http"
	"strings"
)

// messagesPath is below which everything has Anthropic's form.
const messagesPath = "/v1/messages"

func forAnthropic(path string) bool {
	return path == messagesPath || strings.HasPrefix(path, messagesPath+"/")
}

// anthropicErrorBody is Anthropic's error object, with what this runtime knows
// beside it.
type anthropicErrorBody struct {
	Type      string         `json:"type"`
	Error     anthropicError `json:"error"`
	RequestID string         `json:"request_id,omitempty"`
}

type anthropicError struct {
	Type       string          `json:"type"`
	Message    string          `json:"message"`
	Code       string          `json:"code"`
	Param      string          `json:"param,omitempty"`
	SlotID     string          `json:"slot_id,omitempty"`
	Candidates []candidateJSON `json:"candidates,omitempty"`
	LogTail    []string        `json:"log_tail,omitempty"`
}

func toAnthropicError(status int, e errorObject, requestID string) anthropicErrorBody {
	own := anthropicError{
		Type: anthropicErrorType(status), Message: e.Message, Code: e.Code,
		SlotID: e.SlotID, Candidates: e.Candidates, LogTail: e.LogTail,
	}
	if e.Param != nil {
		own.Param = *e.Param
		if !strings.Contains(e.Message, own.Param) {
			own.Message = own.Param + ": " + e.Message // clients show the message alone
		}
	}
	return anthropicErrorBody{Type: "error", Error: own, RequestID: requestID}
}

// anthropicErrorType is Anthropic's class of an error.
func anthropicErrorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

const requestIDHeader = "Request-Id"

// nameRequest gives an answer the header by which clients name it.
func nameRequest(w http.ResponseWriter) string {
	id := w.Header().Get(requestIDHeader)
	if id == "" {
		id = "req_" + newID()
		w.Header().Set(requestIDHeader, id)
	}
	return id
}
