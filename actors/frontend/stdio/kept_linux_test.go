package stdio_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// What a command writes is in the history of the folder that its step has changed, before its end is told.
func TestOutputIsKept(t *testing.T) {
	require.Mount(t)
	mounts := t.TempDir()
	l := newLab(t, labOptions{dirs: 2, config: func(c *api.Config) {
		c.KeepOutput, c.Runtime = true, none.New(none.Options{Dir: mounts, Umask: 0o022})
	}})
	var r stdio.ExecuteResult
	l.Must("agent.execute", map[string]any{"command": "seq 30000; echo err >&2; touch a"}, &r)
	list, err := l.live().Output(t.Context(), api.StepRequest{Directory: l.dirs[0], Step: undolog.StepID(r.StepID)})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	o := list[0]
	if text := string(o.Data); !strings.Contains(text, "err\n") || !strings.Contains(text, "\n30000\n") || !strings.Contains(text, "1\n2\n3\n") || o.Bytes != 168894+4 {
		t.Errorf("%d bytes, %d left out: %.10q ... %.10q", o.Bytes, o.LeftOut, text, text[max(0, len(text)-10):])
	}
	if list, err := l.live().Output(t.Context(), api.StepRequest{Directory: l.dirs[1], Step: undolog.StepID(r.StepID)}); !errors.Is(err, undolog.ErrNoStep) {
		t.Errorf("a folder that was not changed: %+v, %v", list, err)
	}
}
