package stdio

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// Code is a stable error code of the protocol.
type Code string

// The codes. Their numbers, categories and meanings are in [Codes].
const (
	InvalidJSON        Code = "invalid_json"
	MessageTooLarge    Code = "message_too_large"
	UnknownOperation   Code = "unknown_operation"
	MissingField       Code = "missing_field"
	InvalidField       Code = "invalid_field"
	UnknownField       Code = "unknown_field"
	DuplicateRequestID Code = "duplicate_request_id"
	TooManyRequests    Code = "too_many_requests"
	VersionMismatch    Code = "version_mismatch"

	NoSession               Code = "no_session"
	SessionExists           Code = "session_exists"
	SessionEnded            Code = "session_ended"
	InvalidWorkingDirectory Code = "invalid_working_directory"
	UnknownDirectory        Code = "unknown_directory"
	ReadOnlyDirectory       Code = "read_only_directory"
	SessionLocked           Code = "session_locked"
	Unavailable             Code = "unavailable"
	Unsupported             Code = "unsupported"
	Busy                    Code = "busy"
	SessionReset            Code = "session_reset"

	NothingToUndo       Code = "nothing_to_undo"
	NothingToRedo       Code = "nothing_to_redo"
	NoSuchStep          Code = "no_such_step"
	Barrier             Code = "barrier"
	Unprotected         Code = "unprotected"
	Damaged             Code = "damaged"
	UndoVersionMismatch Code = "undo_version_mismatch"
	UndoUnavailable     Code = "undo_unavailable"

	OutsideWorkingDirectory Code = "outside_working_directory"
	NotFound                Code = "not_found"
	AlreadyExists           Code = "already_exists"
	PermissionDenied        Code = "permission_denied"
	NotAFile                Code = "not_a_file"
	TooLarge                Code = "too_large"
	EditFailed              Code = "edit_failed"
	Conflict                Code = "conflict"

	UnknownSafeguard Code = "unknown_safeguard"
	AlreadyDecided   Code = "already_decided"
	Denied           Code = "denied"

	Cancelled       Code = "cancelled"
	Timeout         Code = "timeout"
	CommandNotFound Code = "command_not_found"
	StepFailed      Code = "step_failed"
	NoAgent         Code = "no_agent"

	Internal Code = "internal"
)

// CodeInfo describes a code.
type CodeInfo struct {
	Code     Code
	Number   int
	Category string
	Meaning  string
}

// Codes lists every code, by number. It is a contract: a number or a word never
// changes its meaning.
func Codes() []CodeInfo {
	return []CodeInfo{
		{InvalidJSON, 1001, "protocol", "the line is not one JSON object in UTF-8, nests too deep, has too many fields, or has a field twice"},
		{MessageTooLarge, 1002, "protocol", "the line is longer than 1 MiB; it was skipped"},
		{UnknownOperation, 1003, "protocol", "there is no operation of this `type`"},
		{MissingField, 1004, "protocol", "`field` is required"},
		{InvalidField, 1005, "protocol", "`field` has the wrong type or a value that is not allowed"},
		{UnknownField, 1006, "protocol", "the operation has no such `field`"},
		{DuplicateRequestID, 1007, "protocol", "a request with this `request_id` is still in flight"},
		{TooManyRequests, 1008, "protocol", "too many requests are in flight; read responses first"},
		{VersionMismatch, 1009, "protocol", "the protocol version is not spoken here; `data` lists those that are"},
		{NoSession, 2001, "session", "there is no session: send session.start"},
		{SessionExists, 2002, "session", "there is a session already: send session.stop first"},
		{SessionEnded, 2003, "session", "the session ended before the request had been carried out"},
		{InvalidWorkingDirectory, 2004, "session", "a working directory does not exist, is not a directory, or overlaps another"},
		{UnknownDirectory, 2005, "session", "the session has no such `directory`"},
		{ReadOnlyDirectory, 2006, "session", "the directory is read-only in this session and has no history"},
		{SessionLocked, 2007, "session", "another process has the directory's undo log open; `data` says which"},
		{Unavailable, 2008, "session", "no runtime: commands cannot run (not installed, or it has ended)"},
		{Unsupported, 2009, "session", "this system, or this runtime, cannot do that"},
		{Busy, 2010, "session", "a command or a rollback is under way"},
		{SessionReset, 2011, "session", "the session was reset before the request had been carried out"},
		{NothingToUndo, 3001, "undo", "no step is left to undo"},
		{NothingToRedo, 3002, "undo", "nothing was undone that could be done again"},
		{NoSuchStep, 3003, "undo", "the history has no such step"},
		{Barrier, 3004, "undo", "edits from outside would be lost; `data` lists them; repeat with `force` to overwrite them"},
		{Unprotected, 3005, "undo", "not all of the step could be recorded, and it cannot be undone"},
		{Damaged, 3006, "undo", "the step's record is damaged and it cannot be undone"},
		{UndoVersionMismatch, 3007, "undo", "the undo log has another format; undo.discard gives it up"},
		{UndoUnavailable, 3008, "undo", "the undo directory cannot be used"},
		{OutsideWorkingDirectory, 4001, "filesystem", "the path leads out of the working directory"},
		{NotFound, 4002, "filesystem", "no such file, directory, request or service"},
		{AlreadyExists, 4003, "filesystem", "the file is there already"},
		{PermissionDenied, 4004, "filesystem", "the file may not be read, or is hidden"},
		{NotAFile, 4005, "filesystem", "the path is not a regular file (or not a directory, where one is meant)"},
		{TooLarge, 4006, "filesystem", "the content is above the limit"},
		{EditFailed, 4007, "filesystem", "the text to replace is not there, or is there more than once"},
		{Conflict, 4008, "filesystem", "somebody else changed the file at the same time"},
		{UnknownSafeguard, 5001, "safeguard", "nothing of this id waits for a decision"},
		{AlreadyDecided, 5002, "safeguard", "somebody decided first; `data` says who and how. `by` is `withdrawn` if nobody did: the program that asked has ended"},
		{Denied, 5003, "safeguard", "a safeguard was denied and the step rolled back, or a command was not allowed and did not run; `data` is the result"},
		{Cancelled, 6001, "agent", "the command was cancelled; what it did is kept as a step; `data` is the result"},
		{Timeout, 6002, "agent", "the command ran longer than `timeout_seconds` and was cancelled; `data` is the result"},
		{CommandNotFound, 6003, "agent", "the program was not found (`data.exit_code` 127) or cannot be executed (126)"},
		{StepFailed, 6004, "agent", "the step failed and was rolled back; `data` is the result"},
		{NoAgent, 6005, "agent", "no agent command is configured"},
		{Internal, 9001, "internal", "something that should not happen; the log on stderr says more"},
	}
}

// Error is a failure as it crosses the wire. Start functions may return one to
// choose the code.
type Error struct {
	Code     Code   `json:"code" jsonschema:"stable word"`
	Number   int    `json:"number" jsonschema:"stable number; thousands are the category"`
	Category string `json:"category"`
	Message  string `json:"message" jsonschema:"for people; may change"`
	Field    string `json:"field,omitempty" jsonschema:"the field that is wrong"`
	Data     any    `json:"data,omitempty" jsonschema:"depends on the code"`
}

func (e *Error) Error() string { return e.Message }

// fieldError is about one field.
func fieldError(code Code, field, format string, a ...any) *Error {
	return &Error{Code: code, Field: field, Message: field + ": " + fmt.Sprintf(format, a...)}
}

// versionData is the data of undo_version_mismatch.
type versionData struct {
	UndoDir  string `json:"undo_dir"`
	Found    int    `json:"found_version"`
	Expected int    `json:"expected_version"`
}

// toError gives an error its code, and the data of those that carry some.
func toError(err error) *Error {
	var (
		e       *Error
		barrier *undolog.BarrierError
		decided *messages.DecidedError
		version *undolog.VersionError
		locked  *undolog.LockedError
		start   *hypervisor.StartError
		field   *api.FieldError
	)
	switch {
	case errors.As(err, &e):
		clone := *e
		e = &clone
	case errors.As(err, &field):
		e = fieldError(InvalidField, field.Field, "%s", field.Problem)
	case errors.As(err, &barrier):
		e = &Error{Code: Barrier, Message: barrierText(barrier), Data: barrierInfos(barrier.Barriers)}
	case errors.As(err, &decided):
		e = &Error{Code: AlreadyDecided, Message: err.Error(), Data: decided}
	case errors.As(err, &version):
		e = &Error{Code: UndoVersionMismatch, Message: versionText(version), Data: versionData{version.Dir, version.Found, version.Want}}
	case errors.As(err, &locked):
		e = &Error{Code: SessionLocked, Message: err.Error(), Data: locked.Owner}
	case errors.Is(err, messages.ErrBusy):
		e = &Error{Code: Busy, Message: "busy: a command is running; wait for its end, or end it: agent.cancel, or undo.rollback with abort_open"}
	case errors.As(err, &start):
		e = &Error{Code: CommandNotFound, Message: err.Error(), Data: map[string]int{"exit_code": start.ExitCode}}
	default:
		e = &Error{Code: Internal, Message: err.Error()}
		if f, ok := frontend.FailureOf(err); ok {
			e.Code = Code(f.Code)
		}
		if e.Code == UnknownDirectory {
			e.Field = "directory"
		}
	}
	for _, c := range Codes() {
		if c.Code == e.Code {
			e.Number, e.Category = c.Number, c.Category
		}
	}
	return e
}

// barrierText and versionText say by what fields and requests a frontend can go
// on; the errors' own texts name the flags of the command line.
func barrierText(e *undolog.BarrierError) string {
	paths, first := frontend.BlockedBy(e), ""
	if len(paths) > 0 {
		first = fmt.Sprintf(" (first: %q)", paths[0])
	}
	return fmt.Sprintf("%d path(s) changed outside the sandbox since%s; nothing was done; with \"force\" they are overwritten", len(paths), first)
}

func versionText(e *undolog.VersionError) string {
	return fmt.Sprintf("undo directory %s has format %d, this program writes %d: its history cannot be used; undo.discard throws it away; with another undo_dir for the folder, session.start leaves it alone and begins a new one", e.Dir, e.Found, e.Want)
}

// encodeError cannot fail: data that cannot be encoded is left out. The text is as [frontend.Told] has it.
func encodeError(e *Error) json.RawMessage {
	told := *e
	told.Message = frontend.Told(e.Message)
	b, err := marshal(&told)
	if err != nil {
		told.Data = nil
		b, _ = marshal(&told)
	}
	return b
}
