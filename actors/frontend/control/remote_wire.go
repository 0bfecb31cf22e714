package control

import (
	"encoding/json"
	"errors"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// ToWire gives an error its code, and the data of those that carry some.
func ToWire(err error) *Error {
	e := &Error{Code: "failed", Message: err.Error()}
	var (
		barrier *undolog.BarrierError
		decided *messages.DecidedError
		version *undolog.VersionError
		start   *hypervisor.StartError
		wire    *Error
		field   *api.FieldError
	)
	data := func(code string, v any) *Error {
		e.Code = code
		e.Data, _ = json.Marshal(v)
		return e
	}
	switch {
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &field):
		return &Error{Code: CodeBadRequest, Message: err.Error()}
	case errors.As(err, &barrier):
		return data("barrier", barrier.Barriers)
	case errors.As(err, &decided):
		return data("decided", decided)
	case errors.As(err, &version):
		return data("version_mismatch", version)
	case errors.As(err, &start):
		return data("start", startError{start.Argv0, start.ExitCode, start.NoDirectory, start.Err.Error()})
	}
	if f, ok := frontend.FailureOf(err); ok {
		e.Code = f.Name
	}
	return e
}

// startError is a [hypervisor.StartError].
type startError struct {
	Argv0       string `json:"argv0"`
	ExitCode    int    `json:"exit_code"`
	NoDirectory bool   `json:"no_directory,omitempty"`
	Reason      string `json:"reason"`
}

// remoteError is an error of another process, with its identity.
type remoteError struct {
	msg   string
	cause error
}

func (e *remoteError) Error() string { return e.msg }
func (e *remoteError) Unwrap() error { return e.cause }

func fromWire(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	data := func(cause error, into any) error {
		if json.Unmarshal(e.Data, into) != nil {
			return e
		}
		return &remoteError{e.Message, cause}
	}
	switch e.Code {
	case "barrier":
		b := &undolog.BarrierError{}
		return data(b, &b.Barriers)
	case "decided":
		d := &messages.DecidedError{}
		return data(d, d)
	case "version_mismatch":
		v := &undolog.VersionError{}
		return data(v, v)
	case "start":
		s := startError{}
		if json.Unmarshal(e.Data, &s) == nil {
			return &hypervisor.StartError{Argv0: s.Argv0, ExitCode: s.ExitCode, NoDirectory: s.NoDirectory, Err: errors.New(s.Reason)}
		}
	}
	if f, ok := frontend.FailureNamed(e.Code); ok {
		return &remoteError{e.Message, f.Err}
	}
	return e
}
