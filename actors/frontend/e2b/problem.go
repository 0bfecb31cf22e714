package e2b

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

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
	case wire.StatusGivenUp:
		return "canceled"
	case http.StatusNotImplemented, http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed:
		return "unimplemented"
	case wire.StatusGone, http.StatusServiceUnavailable:
		return "unavailable"
	case http.StatusGatewayTimeout:
		return "deadline_exceeded"
	}
	return "internal"
}

// describe is what a client is told of an error.
func describe(err error) *wire.Problem {
	var (
		p       *wire.Problem
		large   *http.MaxBytesError
		barrier *undolog.BarrierError
		start   *hypervisor.StartError
		field   *api.FieldError
	)
	switch {
	case errors.As(err, &p):
		return &wire.Problem{Status: p.Status, Message: frontend.Told(p.Message), Data: p.Data}
	case errors.As(err, &large):
		return wire.Fail(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", large.Limit)
	case errors.As(err, &barrier):
		return wire.Fail(http.StatusConflict, "%s", frontend.Told(err.Error()))
	case errors.As(err, &start), errors.As(err, &field):
		return wire.Fail(http.StatusBadRequest, "%s", frontend.Told(err.Error()))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return wire.Fail(http.StatusInsufficientStorage, "%s", frontend.Told(err.Error()))
	case errors.Is(err, messages.ErrStopped), errors.Is(err, messages.ErrEnding), errors.Is(err, undolog.ErrClosed):
		return wire.Fail(wire.StatusGone, "the sandbox does not run any more")
	case errors.Is(err, context.Canceled):
		return wire.Fail(wire.StatusGivenUp, "the call was given up")
	}
	status := http.StatusInternalServerError
	if f, ok := frontend.FailureOf(err); ok {
		status = statusOf(f.Code)
	}
	return wire.Fail(status, "%s", frontend.Told(err.Error()))
}

// statusOf is the status for a code of STDIO.
func statusOf(code string) int {
	switch code {
	case "session_ended", "session_reset", "no_session":
		return wire.StatusGone
	}
	return frontend.CodeStatus(code)
}

// answerError answers with an error in E2B's form.
func answerError(w http.ResponseWriter, err error) { describe(err).Answer(w) }

// missing says whether an error is that something is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
