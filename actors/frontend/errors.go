package frontend

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// Failure is an error that callers test for, as frontends know it.
type Failure struct {
	// Err is the sentinel.
	Err error
	// Code is its word in the STDIO API, which several may share.
	Code string
	// Name is its own word, by which the control socket gives it its identity
	// back on the other side.
	Name string
	// Advice says what a model can do about it; empty where nothing helps that the
	// error does not say itself.
	Advice string
}

// failures is the one table of errors. The first that matches counts, so what
// is wrapped by others comes last.
var failures = []Failure{
	{messages.ErrNotRolledBack, "internal", "not_rolled_back", "a part of what it did is still in the folder: get_undo_history shows it; tell the user"},
	{messages.ErrBusy, "busy", "busy", "wait for the end of the command that runs and try again (get_session_status shows the open step)"},
	{undolog.ErrInterrupted, "busy", "interrupted", "undo or redo completes what was interrupted; ask the user which"},
	{undolog.ErrBusy, "busy", "step_open", "wait for the end of the command that runs and try again (get_session_status shows the open step)"},
	{messages.ErrStopped, "session_ended", "stopped", "the session has ended: tell the user"},
	{messages.ErrEnding, "session_ended", "ending", "the session has ended: tell the user"},
	{messages.ErrCrashed, "internal", "crashed", "get_undo_history shows what was done; try again"},
	{messages.ErrReset, "session_reset", "reset", "the session was reset while this ran; what it did was kept or rolled back as get_undo_history shows"},
	{messages.ErrKilled, "cancelled", "killed", "a person ended all commands of the session; ask before you go on"},
	{messages.ErrDenied, "denied", "denied", "a person refused it, or nobody decided in time; nothing was changed. Do not try again without asking the user"},
	{messages.ErrNoDirectory, "unknown_directory", "no_directory", "get_session_status lists the working folders"},
	{messages.ErrReadOnlyDirectory, "read_only_directory", "read_only_directory", "write to another working folder; get_session_status lists them"},
	{messages.ErrNoMachine, "unavailable", "no_machine", "commands cannot run in this session; the file tools and undo still work"},
	{messages.ErrNoSafeguard, "unknown_safeguard", "no_safeguard", "get_session_status lists what waits for a decision"},
	{messages.ErrDecided, "already_decided", "already_decided", "go on: get_result tells how it went"},
	{undolog.ErrNoStep, "no_such_step", "no_step", "get_undo_history lists the steps"},
	{undolog.ErrNothing, "nothing_to_undo", "nothing_to_undo", "get_undo_history lists what is left to undo"},
	{undolog.ErrNoRedo, "nothing_to_redo", "nothing_to_redo", "redo works only directly after an undo"},
	{undolog.ErrGroup, "conflict", "group", "get_undo_history lists the steps: undo those that come first"},
	{undolog.ErrMark, "conflict", "mark", "get_undo_history lists the steps"},
	{undolog.ErrUnprotected, "unprotected", "unprotected", "this step is too large to be undone; tell the user"},
	{undolog.ErrEdited, "conflict", "edited", "the user has changed the file since, and what it was then is not known: ask the user"},
	{undolog.ErrElsewhere, "conflict", "elsewhere", "restore the path that it had then, too, and this one after that; or ask the user"},
	{undolog.ErrDamaged, "damaged", "damaged", "its record on disk is damaged; tell the user"},
	{undolog.ErrClosed, "session_ended", "closed", "the session has ended: tell the user"},
	{undolog.ErrUndoDir, "undo_unavailable", "undo_dir", "nothing can be undone here; tell the user"},
	{hypervisor.ErrUnavailable, "unavailable", "unavailable", "commands cannot run in this session; the file tools and undo still work"},
	{hypervisor.ErrNetwork, "unsupported", "network", "tell the user"},
	{api.ErrDirectory, "invalid_working_directory", "directory", "tell the user"},
	{api.ErrNotGiven, "unsupported", "not_given", "tell the user"},
	{api.ErrSetting, "invalid_field", "setting", "tell the user"},
	{api.ErrNoService, "not_found", "no_service", "list_services lists them"},
	{api.ErrStands, "conflict", "stands", "tell the user"},
	{api.ErrService, "invalid_field", "service", "mend the name, or stop the service that runs"},
	{api.ErrNoCommand, "not_found", "no_command", "it has ended, and is not kept any more: start it again"},
	{api.ErrCommand, "invalid_field", "command", "mend the arguments"},
	{files.ErrOutside, "outside_working_directory", "outside", "use a path inside the folder, relative to it"},
	{files.ErrTooLarge, "too_large", "too_large", "use execute_command (head, sed, split) for a part of it"},
	{files.ErrEdit, "edit_failed", "edit", "read the file again with read_file and copy old_text exactly, with enough lines around it to be unique, or set replace_all"},
	{files.ErrNotRegular, "not_a_file", "not_regular", "for a directory use list_directory; for anything else execute_command"},
	{files.ErrConflict, "conflict", "conflict", "read the file again and repeat the edit on what it says now"},
	{files.ErrPattern, "invalid_field", "pattern", "mend the pattern; grep takes RE2 regular expressions (no look-around, no back-references) or literal text, glob takes doublestar patterns"},
	{files.ErrPath, "invalid_field", "path", "look for the right path with list_directory or glob"},
	{files.ErrRequest, "invalid_field", "request", "mend the arguments"},
	{files.ErrClosed, "session_ended", "files_closed", "the session has ended: tell the user"},
	{fs.ErrNotExist, "not_found", "not_exist", "look for the right path with list_directory or glob"},
	{fs.ErrExist, "already_exists", "exist", "leave create_only out to replace it, or choose another path"},
	{fs.ErrPermission, "permission_denied", "permission", "it is hidden, or the user may not do that: choose another path"},
	{syscall.ENOTDIR, "not_a_file", "not_directory", "list_directory shows what is a directory"},
	{errors.ErrUnsupported, "unsupported", "unsupported", "this system cannot do that"},
	{context.DeadlineExceeded, "timeout", "deadline", "try again, or allow more time"},
	{context.Canceled, "cancelled", "cancelled", ""},
}

// Failures lists the errors that frontends know. The caller may change the list.
func Failures() []Failure { return slices.Clone(failures) }

// FailureOf finds what err is, by [errors.Is].
func FailureOf(err error) (Failure, bool) {
	for _, f := range failures {
		if errors.Is(err, f.Err) {
			return f, true
		}
	}
	return Failure{}, false
}

// FailureNamed finds the failure of that name.
func FailureNamed(name string) (Failure, bool) {
	for _, f := range failures {
		if f.Name == name {
			return f, true
		}
	}
	return Failure{}, false
}

// maxError is how long the text of an error is that a client gets, in bytes; what is left out of a longer one has a mark. A path fits.
const maxError = 6 << 10

// Told is the text of an error as a client gets it, whatever names the text has in it: these may be of the client itself, which a model drives, or of files. It is not much longer than any of ours
// is, and nothing in it acts on a terminal.
func Told(text string) string { return texts.Message(text, maxError) }

// AllTold is [Told] of each text; nil of none.
func AllTold(texts []string) (told []string) {
	for _, t := range texts {
		told = append(told, Told(t))
	}
	return told
}

// BlockedBy lists the paths that were changed from outside, each once, sorted.
func BlockedBy(e *undolog.BarrierError) []string {
	var paths []string
	for _, b := range e.Barriers {
		paths = append(paths, b.Paths...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
