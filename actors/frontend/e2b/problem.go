package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// problem is an error with what the client is told of it.
type problem struct {
	status  int // of HTTP
	message string
	data    any // for our own requests: what STDIO calls data
}

func (p *problem) Error() string { return p.message }

// fail makes a problem.
func fail(status int, format string, a ...any) *problem {
	return &problem{status: status, message: fmt.Sprintf(format, a...)}
}

// statusGone is the answer about a sandbox that does not run: the SDK takes it as its end.
const statusGone = http.StatusBadGateway

// statusGivenUp is the status of a call whose caller has given it up.
const statusGivenUp = 499

// word is the code that Connect has for a status.
func word(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_argument"
	case http.StatusUnauthorized:
		return "unauthenticated"
	case http.StatusForbidden:
		return "permission_denied"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusConflict:
		return "already_exists"
	case http.StatusPreconditionFailed:
		return "failed_precondition"
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return "resource_exhausted"
	case statusGivenUp:
		return "canceled"
	case http.StatusNotImplemented, http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed:
		return "unimplemented"
	case statusGone, http.StatusServiceUnavailable:
		return "unavailable"
	case http.StatusGatewayTimeout:
		return "deadline_exceeded"
	}
	return "internal"
}

// describe is what a client is told of an error.
func describe(err error) *problem {
	var (
		p       *problem
		large   *http.MaxBytesError
		barrier *undolog.BarrierError
		start   *hypervisor.StartError
		field   *api.FieldError
	)
	switch {
	case errors.As(err, &p):
		return &problem{p.status, frontend.Told(p.message), p.data}
	case errors.As(err, &large):
		return fail(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", large.Limit)
	case errors.As(err, &barrier):
		return fail(http.StatusConflict, "%s", frontend.Told(err.Error()))
	case errors.As(err, &start), errors.As(err, &field):
		return fail(http.StatusBadRequest, "%s", frontend.Told(err.Error()))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(http.StatusInsufficientStorage, "%s", frontend.Told(err.Error()))
	case errors.Is(err, messages.ErrStopped), errors.Is(err, messages.ErrEnding), errors.Is(err, undolog.ErrClosed):
		return fail(statusGone, "the sandbox does not run any more")
	case errors.Is(err, context.Canceled):
		return fail(statusGivenUp, "the call was given up")
	}
	status := http.StatusInternalServerError
	if f, ok := frontend.FailureOf(err); ok {
		status = statusOf(f.Code)
	}
	return fail(status, "%s", frontend.Told(err.Error()))
}

// statusOf is the status for a code of STDIO.
func statusOf(code string) int {
	switch code {
	case "not_found", "no_such_step", "unknown_directory":
		return http.StatusNotFound
	case "invalid_field", "missing_field", "unknown_field", "invalid_json", "not_a_file", "outside_working_directory", "edit_failed":
		return http.StatusBadRequest
	case "permission_denied", "denied", "read_only_directory":
		return http.StatusForbidden
	case "busy", "conflict", "barrier", "already_exists", "nothing_to_undo", "nothing_to_redo", "unprotected", "step_failed", "already_decided":
		return http.StatusConflict
	case "too_large":
		return http.StatusRequestEntityTooLarge
	case "timeout":
		return http.StatusGatewayTimeout
	case "cancelled":
		return statusGivenUp
	case "unsupported":
		return http.StatusNotImplemented
	case "session_ended", "session_reset", "no_session":
		return statusGone
	case "unavailable", "undo_unavailable":
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// answerError answers with an error in E2B's form.
func answerError(w http.ResponseWriter, err error) {
	p := describe(err)
	answer(w, p.status, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{p.status, p.message, p.data})
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":500,"message":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // who has gone needs no answer
}

// missing says whether an error is that something is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
