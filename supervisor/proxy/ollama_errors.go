package proxy

import (
	"net/http"
	"strings"
)

// ollamaError is the form of Ollama's errors.
type ollamaError struct {
	Error string `json:"error"`
}

// toOllamaError puts into words what other clients get as fields.
func toOllamaError(err error) ollamaError {
	_, body := describe(err)
	text := body.Error.Message
	var names []string
	for _, c := range body.Error.Candidates {
		names = append(names, c.ID)
	}
	if len(names) > 0 {
		text += " (there is " + strings.Join(names, ", ") + ")"
	}
	return ollamaError{text}
}

// writeOllamaError answers a request that has not been answered yet, and gives the
// status. Their clients take a 202 for an answer: what is pending is told as 503.
func writeOllamaError(w http.ResponseWriter, err error) int {
	status, _ := describe(err)
	if status == http.StatusAccepted {
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		setRetryAfter(w, retryAfter(err))
	}
	writeJSON(w, status, toOllamaError(err))
	return status
}

// forOllama reports whether a path is of Ollama's API and not of the page's own.
func forOllama(path string) bool {
	return strings.HasPrefix(path, "/api/") && path != "/api/events" && !strings.HasPrefix(path, "/api/slots")
}

// ollamaMissing are operations that change the set of models. Here a configuration
// says what there is.
func ollamaMissing(w http.ResponseWriter, r *http.Request) {
	op := strings.TrimPrefix(r.URL.Path, "/api/")
	op, _, _ = strings.Cut(op, "/")
	refuse(w, r, &httpError{status: http.StatusNotImplemented, code: "not_implemented",
		message: op + " is not available over HTTP: firstframe serves the models that its configuration declares; fetch a file with: firstframe pull"})
}
