package remote

import (
	"encoding/json"
	"errors"

	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// codes are the sentinel errors that keep their identity across the socket.
var codes = []struct {
	code string
	err  error
}{
	{"busy", messages.ErrBusy},
	{"stopped", messages.ErrStopped},
	{"crashed", messages.ErrCrashed},
	{"no_directory", messages.ErrNoDirectory},
	{"read_only_directory", messages.ErrReadOnlyDirectory},
	{"denied", messages.ErrDenied},
	{"no_machine", messages.ErrNoMachine},
	{"no_safeguard", messages.ErrNoSafeguard},
	{"step_open", undolog.ErrBusy},
	{"no_step", undolog.ErrNoStep},
	{"nothing_to_undo", undolog.ErrNothing},
	{"nothing_to_redo", undolog.ErrNoRedo},
	{"unprotected", undolog.ErrUnprotected},
	{"damaged", undolog.ErrDamaged},
	{"closed", undolog.ErrClosed},
	{"undo_dir", undolog.ErrUndoDir},
	{"unsupported", errors.ErrUnsupported},
}

// ToWire gives an error its code, and the data of those that carry some.
func ToWire(err error) *control.Error {
	e := &control.Error{Code: "failed", Message: err.Error()}
	var (
		barrier *undolog.BarrierError
		decided *messages.DecidedError
		version *undolog.VersionError
		wire    *control.Error
	)
	data := func(code string, v any) *control.Error {
		e.Code = code
		e.Data, _ = json.Marshal(v)
		return e
	}
	switch {
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &barrier):
		return data("barrier", barrier.Barriers)
	case errors.As(err, &decided):
		return data("decided", decided)
	case errors.As(err, &version):
		return data("version_mismatch", version)
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			e.Code = c.code
			break
		}
	}
	return e
}

// remoteError is an error of another process, with its identity.
type remoteError struct {
	msg   string
	cause error
}

func (e *remoteError) Error() string { return e.msg }
func (e *remoteError) Unwrap() error { return e.cause }

func fromWire(err error) error {
	var e *control.Error
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
	}
	for _, c := range codes {
		if c.code == e.Code {
			return &remoteError{e.Message, c.err}
		}
	}
	return e
}
