package directory

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/lexical"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// tree makes directories with modes below a new one.
func tree(t *testing.T, modes map[string]os.FileMode) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p", "p/" + work, "p/" + work + "/home", "p/" + work + "/home/state", "state"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(base, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for name := range modes {
			_ = os.Chmod(filepath.Join(base, name), 0o700)
		}
	})
	return base
}

const work = "work"

// The log finds a place that is this user's alone, outside of the folder.
func TestU17Places(t *testing.T) {
	sticky := os.ModeSticky | 0o777
	for name, c := range map[string]struct {
		modes map[string]os.FileMode
		state string // below the base; empty: there is no state directory
		want  string // below the base; empty: above it
		user  bool   // root may write where this user may not
	}{
		"state directory":                       {nil, "state", "state/sandbox/undo", false},
		"state directory inside the folder":     {nil, "p/work/home/state", "p/.work.sandbox-undo", false},
		"nothing but the parent":                {nil, "", "p/.work.sandbox-undo", false},
		"a parent for all":                      {map[string]os.FileMode{"p": sticky}, "", "p/.work.sandbox-undo", false},
		"a parent for all without sticky bit":   {map[string]os.FileMode{"p": os.ModePerm}, "", ".sandbox-undo", false},
		"a state directory for all":             {map[string]os.FileMode{"state": os.ModePerm}, "state", "p/.work.sandbox-undo", false},
		"a parent that cannot be written":       {map[string]os.FileMode{"p": 0o500}, "", ".sandbox-undo", true},
		"nothing above that can be written":     {map[string]os.FileMode{"p": 0o500, ".": 0o500}, "p/work/home/state", "", true},
		"no place above, but a state elsewhere": {map[string]os.FileMode{"p": 0o500, ".": 0o500}, "state", "state/sandbox/undo", true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.user { // root may write everywhere
				require.Ordinary(t)
			}
			base := tree(t, c.modes)
			t.Setenv("HOME", "")
			t.Setenv("XDG_STATE_HOME", "")
			if c.state != "" {
				t.Setenv("XDG_STATE_HOME", filepath.Join(base, c.state))
			}
			p, err := DefaultPlace(filepath.Join(base, "p", work))
			if err != nil {
				t.Fatal(err)
			}
			if in := filepath.Join(base, c.want); c.want != "" && !lexical.Within(p.Dir, in) || c.want == "" && lexical.Within(p.Dir, base) || p.Why == "" {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A place that somebody else has prepared is passed over, and that is said.
func TestU17PreparedByOthers(t *testing.T) {
	require.Root(t)
	base := tree(t, nil)
	t.Setenv("XDG_STATE_HOME", filepath.Join(base, "p", work, "home"))
	trap := filepath.Join(base, "p", ".work.sandbox-undo")
	for _, name := range []string{"", "steps", "wal"} {
		if err := os.Mkdir(filepath.Join(trap, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"version", "lock"} {
		if err := os.WriteFile(filepath.Join(trap, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func() Place {
		t.Helper()
		p, err := DefaultPlace(filepath.Join(base, "p", work))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := at(); p.Dir != trap {
		t.Errorf("a log of our own is passed over: %+v", p)
	}
	if err := os.Chown(trap, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if p := at(); p.Dir == trap || !strings.Contains(strings.Join(p.Passed, " "), "belongs to user 12345") {
		t.Errorf("%+v", p)
	}
	if err := os.MkdirAll(filepath.Join(base, aboveName), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(base, aboveName), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if p := at(); lexical.Within(p.Dir, base) && lexical.Within(p.Dir, filepath.Join(base, aboveName)) {
		t.Errorf("in a directory of logs that others may write to: %+v", p)
	}
}

// A log's name fits, however long the folder's is.
func TestU17LongNames(t *testing.T) {
	for _, n := range []int{2, 238, 239, 240, 241, 242, 255} {
		for _, letter := range []string{"a", "ä"} {
			path := "/x/" + strings.Repeat(letter, n/len(letter))
			for what, name := range map[string]string{"beside": sibling(path), "keyed": keyed(path)} {
				if len(name) > nameMax || strings.ToValidUTF8(name, "?") != name {
					t.Errorf("%d bytes of %s, %s: %q", n, letter, what, name)
				}
			}
			if sibling(path) == sibling("/y"+path[2:]+"b") {
				t.Errorf("%d: two folders have one log", n)
			}
		}
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{long, t.TempDir()} {
		t.Setenv("XDG_STATE_HOME", state)
		p, err := DefaultPlace(long)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(p.Dir, 0o700); err != nil {
			t.Error(err)
		}
	}
}

// TestLogIsASymlink: a log that has become a symlink is not followed, wherever it leads: what is opened is the name itself, which is refused.
func TestLogIsASymlink(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder, logs, victim := filepath.Join(base, "folder"), filepath.Join(base, "logs"), filepath.Join(base, "victim")
	for _, dir := range []string{folder, logs, victim} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(logs, filepath.Join(base, "led")); err != nil {
		t.Fatal(err)
	}
	log, err := LogIn(logs, folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, log); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{log, filepath.Join(base, "led", filepath.Base(log))} { // a directory above may be one
		d, err := Validate(api.Directory{Path: folder, UndoDir: named}, nil)
		if err != nil || d.UndoDir != log {
			t.Errorf("%s: %s %v", named, d.UndoDir, err)
		}
		if err := undolog.CheckDir(d.UndoDir); !errors.Is(err, undolog.ErrUndoDir) {
			t.Errorf("%s: %v", d.UndoDir, err)
		}
	}
}
