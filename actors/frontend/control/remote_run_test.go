package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// starting is a session in /work that has not started.
type starting struct{ Session }

func (starting) Status(context.Context) (api.Status, error) {
	return api.Status{Directories: []api.DirectoryStatus{{Path: "/work"}}}, nil
}

// A command that waits for a session's start, and has not run when that ends, may be run in the next
// session: its client is told so, not that somebody cancelled it.
func TestEndsBeforeItStarts(t *testing.T) {
	s := NewServer(SessionOptions{Session: starting{}, Started: make(chan struct{}), Stopped: make(chan struct{})})
	accepted := make(chan struct{})
	c := &Call{Method: "run", Files: make([]*os.File, 3), Emit: func(any, ...*os.File) error {
		close(accepted)
		return nil
	}}
	c.Params, _ = json.Marshal(runParams{Argv: []string{"true"}, Dir: "/work"})
	done := make(chan error, 1)
	go func() {
		_, err := s.Handle(t.Context(), c)
		done <- err
	}()
	<-accepted
	s.End(t.Context())
	if err := <-done; !errors.Is(err, messages.ErrEnding) {
		t.Errorf("%v, want %v", err, messages.ErrEnding)
	}
}
