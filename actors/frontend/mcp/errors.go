package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// explain turns an error into what the model is told. A path outside of the
// working folder is an error of the request (a JSON-RPC error, as the test plan
// has it); everything else a model can react to is a tool error.
func explain(err error, directory, path string) error {
	var wire *jsonrpc.Error
	if err == nil || errors.As(err, &wire) {
		return err
	}
	if errors.Is(err, api.ErrOutside) {
		data, _ := json.Marshal(map[string]string{"path": frontend.Told(path), "directory": frontend.Told(directory)})
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
	if f, ok := frontend.FailureOf(err); ok && f.Advice != "" {
		return fmt.Errorf("%w: %s", err, f.Advice)
	}
	return err
}

// barrierError lists what somebody else changed.
func barrierError(e *undolog.BarrierError) error {
	paths := frontend.BlockedBy(e)
	list := strings.Join(paths[:min(len(paths), 10)], ", ")
	if len(paths) > 10 {
		list += fmt.Sprintf(" and %d more", len(paths)-10)
	}
	return fmt.Errorf("blocked: files were changed from outside the sandbox since (%s), and the undo would overwrite that. Nothing was done. Ask the user; only if they agree, call again with force: true", list)
}
