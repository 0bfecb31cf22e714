package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"syscall"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// problem is an error with what the page is told of it.
type problem struct {
	status  int
	code    string
	message string
	hint    string
}

func (p *problem) Error() string { return p.message }

// wireError is an error as the page gets it.
type wireError struct {
	Code     string            `json:"code"`
	Message  string            `json:"message"`
	Hint     string            `json:"hint,omitempty"`
	Barriers []undolog.Barrier `json:"barriers,omitempty"`
}

// fail answers with an error, unless the answer has begun.
func fail(w http.ResponseWriter, err error) {
	status, e := describe(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]wireError{"error": e})
}

func describe(err error) (int, wireError) {
	var (
		p       *problem
		tooBig  *http.MaxBytesError
		barrier *undolog.BarrierError
		decided *messages.DecidedError
	)
	switch {
	case errors.As(err, &p):
		return p.status, wireError{Code: p.code, Message: p.message, Hint: p.hint}
	case errors.As(err, &tooBig):
		return http.StatusRequestEntityTooLarge, wireError{Code: "too_large", Message: "the request is too large"}
	case errors.As(err, &barrier):
		return http.StatusConflict, wireError{Code: "barrier", Message: err.Error(), Hint: "look at what was changed from outside; force overwrites it", Barriers: barrier.Barriers}
	case errors.As(err, &decided):
		return http.StatusConflict, wireError{Code: "already_decided", Message: err.Error()}
	case errors.Is(err, control.ErrDisconnected) || errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusServiceUnavailable, wireError{Code: "session_ended", Message: "the session has ended meanwhile", Hint: "its history stays; try again"}
	case errors.Is(err, context.Canceled): // a request that its own caller gave up has nobody who reads this
		return http.StatusServiceUnavailable, wireError{Code: "cancelled", Message: "this server or the session is ending", Hint: "try again"}
	}
	f, ok := frontend.FailureOf(err)
	if !ok {
		f.Code = "failed"
	}
	return frontend.HTTPStatus(err), wireError{Code: f.Code, Message: err.Error()}
}
