package e2b

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/fsbridge/undolog"
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
		p     *wire.Problem
		large *http.MaxBytesError
	)
	switch {
	case errors.As(err, &p):
		return &wire.Problem{Status: p.Status, Message: frontend.Told(p.Message), Data: p.Data}
	case errors.As(err, &large):
		return wire.Fail(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", large.Limit)
	case errors.Is(err, messages.ErrStopped), errors.Is(err, messages.ErrEnding), errors.Is(err, undolog.ErrClosed):
		return wire.Fail(wire.StatusGone, "the sandbox does not run any more")
	case errors.Is(err, context.Canceled):
		return wire.Fail(wire.StatusGivenUp, "the call was given up")
	}
	status := frontend.HTTPStatus(err)
	if f, _ := frontend.FailureOf(err); gone(f.Code) {
		status = wire.StatusGone
	}
	return wire.Fail(status, "%s", frontend.Told(err.Error()))
}

// gone tells whether a code of STDIO says that there is no session any more.
func gone(code string) bool {
	return code == "session_ended" || code == "session_reset" || code == "no_session"
}

// statusOf is the status for a code of STDIO.
func statusOf(code string) int {
	if gone(code) {
		return wire.StatusGone
	}
	return frontend.CodeStatus(code)
}

// answerError answers with an error in E2B's form.
func answerError(w http.ResponseWriter, err error) { describe(err).Answer(w) }

// missing says whether an error is that something is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
