package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// advice is what a model can do about an error.
var advice = []struct {
	err  error
	text string
}{
	{fs.ErrNotExist, "look for the right path with list_directory or glob"},
	{fs.ErrExist, "leave create_only out to replace it, or choose another path"},
	{actors.ErrEdit, "read the file again with read_file and copy old_text exactly, with enough lines around it to be unique, or set replace_all"},
	{actors.ErrTooLarge, "use execute_command (head, sed, split) for a part of it"},
	{actors.ErrConflict, "read the file again and repeat the edit on what it says now"},
	{actors.ErrPattern, "mend the pattern; grep takes RE2 regular expressions (no look-around, no back-references) or literal text, glob takes doublestar patterns"},
	{messages.ErrDenied, "a person refused it, or nobody decided in time; nothing was changed. Do not try again without asking the user"},
	{messages.ErrReset, "the session was reset while this ran; what it did was kept or rolled back as get_undo_history shows"},
	{syscall.ENOTDIR, "list_directory shows what is a directory"},
	{actors.ErrNotRegular, "for a directory use list_directory; for anything else execute_command"},
	{messages.ErrNoDirectory, "get_session_status lists the working folders"},
	{messages.ErrReadOnlyDirectory, "write to another working folder; get_session_status lists them"},
	{undolog.ErrNoStep, "get_undo_history lists the steps"},
	{undolog.ErrNothing, "get_undo_history lists what is left to undo"},
	{undolog.ErrNoRedo, "redo works only directly after an undo"},
	{undolog.ErrUnprotected, "this step is too large to be undone; tell the user"},
	{messages.ErrStopped, "the session has ended: tell the user"},
	{messages.ErrNoMachine, "commands cannot run in this session; the file tools and undo still work"},
}

// explain turns an error into what the model is told. A path outside of the
// working folder is an error of the request (a JSON-RPC error, as the test plan
// has it); everything else a model can react to is a tool error.
func explain(err error, directory, path string) error {
	var wire *jsonrpc.Error
	if err == nil || errors.As(err, &wire) {
		return err
	}
	if errors.Is(err, actors.ErrOutside) {
		data, _ := json.Marshal(map[string]string{"path": path, "directory": directory})
		return &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("path is outside the working folder: %s (nothing was done; use a path inside the folder, relative to it)", path),
			Data:    data,
		}
	}
	var barrier *undolog.BarrierError
	if errors.As(err, &barrier) {
		return barrierError(barrier)
	}
	var start *hypervisor.StartError
	if errors.As(err, &start) && start.NoDirectory {
		return fmt.Errorf("cwd: %w; nothing was run. list_directory shows what there is", err)
	}
	if errors.As(err, &start) {
		return fmt.Errorf("the command could not be started: %w", err)
	}
	if errors.Is(err, messages.ErrBusy) || errors.Is(err, undolog.ErrBusy) {
		return errors.New("a command is running: wait for its end and try again (get_session_status shows the open step)")
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("cancelled")
	}
	for _, a := range advice {
		if errors.Is(err, a.err) {
			return fmt.Errorf("%w: %s", err, a.text)
		}
	}
	return err
}

// barrierError lists what somebody else changed.
func barrierError(e *undolog.BarrierError) error {
	var paths []string
	for _, b := range e.Barriers {
		paths = append(paths, b.Paths...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	list := strings.Join(paths[:min(len(paths), 10)], ", ")
	if len(paths) > 10 {
		list += fmt.Sprintf(" and %d more", len(paths)-10)
	}
	return fmt.Errorf("blocked: files were changed from outside the sandbox since (%s), and the undo would overwrite that. Nothing was done. Ask the user; only if they agree, call again with force: true", list)
}
