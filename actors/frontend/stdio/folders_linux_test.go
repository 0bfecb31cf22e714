package stdio_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

// Every request finds a folder by the same rule: by a link to it, too, and by
// its index before a label that looks like one.
func TestEveryRequestFindsTheSameFolder(t *testing.T) {
	l := newLab(t, labOptions{dirs: 2, noStart: true})
	l.Must("session.start", map[string]any{"working_directories": []any{
		map[string]any{"path": l.dirs[0], "label": "1"}, map[string]any{"path": l.dirs[1]},
	}}, nil)
	link := l.dirs[1] + ".link"
	if err := os.Symlink(l.dirs[1], link); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(l.dirs[1], "here"), "second")
	for _, name := range []any{link, l.dirs[1], "1", 1} {
		for op, payload := range map[string]map[string]any{
			"fs.read":       {"path": "here"},
			"agent.execute": {"command": "test -e here"},
			"undo.history":  {},
			"fs.status":     {},
		} {
			payload["directory"] = name
			m := l.Call(op, payload)
			if !m.OK() || strings.Contains(string(m.Line), `"exit_code":1`) || op == "undo.history" && !strings.Contains(string(m.Line), l.dirs[1]) {
				t.Errorf("%s in %v: %s", op, name, m.Line)
			}
		}
	}
	for op, payload := range map[string]map[string]any{"fs.read": {"path": "here"}, "agent.execute": {"command": "true"}, "undo.history": {}} {
		payload["directory"] = "none"
		if m := l.Call(op, payload); m.Code() != string(stdio.UnknownDirectory) || m.Error.Field != "directory" {
			t.Errorf("%s: %s", op, m.Line)
		}
	}
}

// A command runs in a working directory, and nothing is run if cwd is none.
func TestCommandsRunInTheFolder(t *testing.T) {
	l := newLab(t, labOptions{dirs: 2})
	for _, cwd := range []string{"/", "..", l.dirs[0] + ".undo", filepath.Join("..", filepath.Base(l.dirs[1]))} {
		m := l.Call("agent.execute", map[string]any{"command": "true", "cwd": cwd})
		if m.Code() != string(stdio.OutsideWorkingDirectory) || m.Error.Field != "cwd" {
			t.Errorf("%s: %s", cwd, m.Line)
		}
	}
	for _, cwd := range []string{"", ".", l.dirs[0], l.dirs[1]} {
		if m := l.Call("agent.execute", map[string]any{"command": "test -e f", "cwd": cwd}); !m.OK() || !strings.Contains(string(m.Line), `"exit_code":0`) {
			t.Errorf("%s: %s", cwd, m.Line)
		}
	}
}
