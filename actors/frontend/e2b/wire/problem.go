package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/codeagent/sandbox/actors/frontend"
)

const (
	// StatusGone is the answer about a sandbox that does not run: the SDK takes it as its end.
	StatusGone = http.StatusBadGateway
	// StatusGivenUp is that of a call whose caller has given it up.
	StatusGivenUp = frontend.StatusGivenUp
)

// Problem is an error with what the client is told of it.
type Problem struct {
	Status  int // of HTTP
	Message string
	Data    any // for requests that E2B has not; nil: nothing
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// Fail makes a problem.
func Fail(status int, format string, a ...any) *Problem {
	return &Problem{Status: status, Message: fmt.Sprintf(format, a...)}
}

// Answer answers with the problem in E2B's form. The message is cut short.
func (p *Problem) Answer(w http.ResponseWriter) {
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	Answer(w, p.Status, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{p.Status, frontend.Told(p.Message), p.Data})
}

// Answer answers with JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":500,"message":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // who has gone needs no answer
}

// Read decodes the body of a request, which whoever calls it has bounded, as [Decode] does.
func Read(r *http.Request, into any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return Decode(b, into)
}

// Decode decodes a message of a client; an empty one changes nothing. Members that are not known are left out: newer clients have more. The error is a [Problem].
func Decode(b []byte, into any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if err := frontend.CheckJSON(b); err != nil {
		return Fail(http.StatusBadRequest, "the request is no JSON that can be read: %s", err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return Fail(http.StatusBadRequest, "the request cannot be read: %s", err)
	}
	return nil
}
