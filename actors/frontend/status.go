package frontend

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// StatusGivenUp is the status of HTTP for a call whose caller has given it up.
const StatusGivenUp = 499

// Ours makes an error about files of the server's own one of the server: that one of them is missing or a directory says nothing of what was asked for. A full
// disk stays what it is, and so does a request that was given up.
func Ours(err error) error {
	if err == nil {
		return nil
	}
	return ours{err}
}

type ours struct{ err error }

// Error implements [error].
func (o ours) Error() string { return o.err.Error() }

// Is tells what is known of the error.
func (o ours) Is(target error) bool {
	switch target {
	case syscall.ENOSPC, syscall.EDQUOT, context.Canceled, context.DeadlineExceeded:
		return errors.Is(o.err, target)
	}
	return false
}

// HTTPStatus is the status of HTTP for an error of the facade.
func HTTPStatus(err error) int {
	var (
		large   *http.MaxBytesError
		barrier *undolog.BarrierError
		start   *hypervisor.StartError
		field   *api.FieldError
	)
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &barrier):
		return http.StatusConflict
	case errors.As(err, &start), errors.As(err, &field), errors.Is(err, fs.ErrInvalid), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP),
		errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EXDEV):
		return http.StatusBadRequest
	case errors.Is(err, syscall.EROFS):
		return http.StatusForbidden
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage
	case errors.Is(err, context.Canceled):
		return StatusGivenUp
	}
	f, _ := FailureOf(err)
	return CodeStatus(f.Code)
}

// CodeStatus is the status of HTTP for a code of [Failure], or of STDIO.
func CodeStatus(code string) int {
	switch code {
	case "not_found", "no_such_step", "unknown_directory", "unknown_safeguard":
		return http.StatusNotFound
	case "invalid_field", "missing_field", "unknown_field", "invalid_json", "invalid_working_directory", "not_a_file", "outside_working_directory", "edit_failed":
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
		return StatusGivenUp
	case "unsupported":
		return http.StatusNotImplemented
	case "session_ended", "session_reset", "no_session", "unavailable", "undo_unavailable":
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
