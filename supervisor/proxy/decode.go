package proxy

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decodeBody reads one strict JSON object: no duplicate or unknown names, valid
// UTF-8, nothing after it, within the size limit.
func decodeBody(w http.ResponseWriter, r *http.Request, v any) error {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != "application/json" {
			return &httpError{status: http.StatusUnsupportedMediaType, code: "unsupported_content_type",
				message: "the content type must be application/json"}
		}
	}
	return decodeAnyType(w, r, v)
}

// decodeAnyType is decodeBody for bodies of whatever content type, which must not
// say that they are encoded in another way than all JSON is.
func decodeAnyType(w http.ResponseWriter, r *http.Request, v any) error {
	if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil {
		// Each text in ASCII is the same text in UTF-8.
		switch charset := strings.ToLower(params["charset"]); charset {
		case "", "utf-8", "utf8", "us-ascii", "ascii":
		default:
			return &httpError{status: http.StatusUnsupportedMediaType, code: "unsupported_content_type",
				message: "the charset of JSON must be utf-8"}
		}
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return decodeJSON(body, v)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, bodyTooLarge()
		}
		return nil, badRequest("invalid_body", "", "cannot read the request body")
	}
	endReading(w)
	return body, nil
}

func bodyTooLarge() *httpError {
	return &httpError{status: http.StatusRequestEntityTooLarge, code: "request_too_large",
		message: "the request body is too large"}
}

// endReading lifts the read deadline once a request is read: the server goes on
// reading to notice that the client leaves, and would take a deadline for that.
func endReading(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a writer without deadlines has none to lift
}

func decodeJSON(body []byte, v any) error { return decodeWithin(body, v, "") }

// decodeWithin is decodeJSON for a value inside of a body; its errors name it by
// where it is.
func decodeWithin(body []byte, v any, within string) error {
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var own *httpError
	if errors.As(err, &own) {
		return own
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		param := pointerName(within, semantic.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return badRequest("unknown_parameter", param, "unknown parameter: %s", param)
		}
		if param == "" {
			return badRequest("invalid_type", "", "the body has to be a JSON object")
		}
		return badRequest("invalid_type", param, "parameter %s has the wrong type or value", param)
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return badRequest("invalid_json", pointerName(within, syntactic.JSONPointer),
			"the body is not valid JSON at byte %d: %s", syntactic.ByteOffset, syntacticReason(syntactic))
	}
	return badRequest("invalid_json", "", "the body is not a valid JSON object")
}

func syntacticReason(e *jsontext.SyntacticError) string {
	switch {
	case errors.Is(e, jsontext.ErrDuplicateName):
		return "a name appears twice in one object"
	case e.Err != nil:
		return strings.ToValidUTF8(e.Err.Error(), "\uFFFD")
	default:
		return "syntax error"
	}
}

// pointerName turns a JSON pointer into the dotted form of OpenAI's errors.
func pointerName(within string, p jsontext.Pointer) string {
	var parts []string
	if within != "" {
		parts = append(parts, within)
	}
	for part := range p.Tokens() {
		parts = append(parts, part)
	}
	return strings.Join(parts, ".")
}

// typeOf is the type that an object says to be of, which tells what else it holds.
func typeOf(v jsontext.Value) string {
	var t struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(v, &t) // what it is will be read again, strictly
	return t.Type
}
