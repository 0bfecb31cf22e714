package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// alter changes members of the log's file identity.
func (e *session) alter(change map[string]any) {
	e.t.Helper()
	path := filepath.Join(e.undo, "identity")
	b, err := os.ReadFile(path)
	e.must(err)
	var id map[string]any
	e.must(json.Unmarshal(b, &id))
	for k, v := range change {
		id[k] = v
	}
	b, err = json.Marshal(id)
	e.must(err)
	e.must(os.WriteFile(path, b, 0o600))
}

// tryOpen opens the log for the folder work, and says what came of it.
func (e *session) tryOpen(work string) error {
	e.t.Helper()
	root, err := hostfs.OpenRoot(work)
	e.must(err)
	defer root.Close()
	l, err := Open(context.Background(), Options{Dir: e.undo, Root: root, Owner: Owner{PID: 1, WorkDir: work}})
	if err == nil {
		e.must(l.Close())
	}
	return err
}

// A log is its own folder's, wherever that is, and refuses every other, unchanged.
func TestU3LogOfOneFolder(t *testing.T) {
	e := newSession(t, small(t))
	e.step(func(a *applier) error { return a.Unlink("b.txt") })
	e.must(e.log.Close())
	if FolderKey(e.work) == "" {
		t.Skip("no lasting file handles here")
	}
	moved, other := e.work+".moved", e.work+".other"
	e.must(os.Mkdir(other, 0o700))
	refused := func(work, why string) {
		t.Helper()
		before := treesnap.Contents(t, e.undo)
		var foreign *ForeignError
		err := e.tryOpen(work)
		if !errors.As(err, &foreign) || !errors.Is(err, ErrUndoDir) || !strings.Contains(err.Error(), "sandbox history new") {
			t.Errorf("%s: %v", why, err)
		}
		now := treesnap.Contents(t, e.undo)
		for p, was := range before {
			if now[p] != was {
				t.Errorf("%s: %s was changed", why, p)
			}
		}
	}
	refused(other, "another folder")
	e.must(os.Rename(e.work, moved))
	e.must(e.tryOpen(moved))
	e.must(os.Rename(other, e.work))
	refused(e.work, "another folder at the first path")
	e.must(e.tryOpen(moved))
	key, folder, err := Whose(e.undo)
	if err != nil || key != FolderKey(moved) || folder != moved {
		t.Errorf("whose: %q, %q, %v", key, folder, err)
	}

	e.alter(map[string]any{"handle": "1:00"})
	refused(moved, "a later inode of that number")
	e.alter(map[string]any{"handle": ""})
	e.must(e.tryOpen(moved)) // by number and path, and takes the handle down
	e.alter(map[string]any{"handle": "", "folder": []byte("/elsewhere")})
	refused(moved, "a number at another path")
	e.alter(map[string]any{"handle": "", "folder": []byte(moved), "file_system": "1:0"})
	refused(moved, "another file system")
	e.must(os.WriteFile(filepath.Join(e.undo, "identity"), []byte("{}"), 0o600))
	if err := e.tryOpen(moved); !errors.Is(err, ErrUndoDir) {
		t.Errorf("damaged: %v", err)
	}
	e.must(os.Remove(filepath.Join(e.undo, "identity"))) // of an older version
	refused(e.work, "another folder than that of the steps")
	e.must(e.tryOpen(moved))
}

// A log is not taken from where somebody else could have written it.
func TestW9LogDirOfOthers(t *testing.T) {
	needs(t, "modes")
	e := newSession(t, nil)
	e.must(e.log.Close())
	for _, c := range []struct {
		why, want string
		do, back  func() error
	}{
		{"group", "others may write", func() error { return os.Chmod(e.undo, 0o770) }, func() error { return os.Chmod(e.undo, 0o700) }},
		{"world", "others may write", func() error { return os.Chmod(e.undo, 0o702) }, func() error { return os.Chmod(e.undo, 0o700) }},
		{"symlink", "is a symlink",
			func() error {
				return errors.Join(os.Rename(e.undo, e.undo+".real"), os.Symlink(e.undo+".real", e.undo))
			},
			func() error { return errors.Join(os.Remove(e.undo), os.Rename(e.undo+".real", e.undo)) }},
		{"owner", "belongs to user 12345", func() error { return os.Chown(e.undo, 12345, -1) }, func() error { return os.Chown(e.undo, os.Geteuid(), -1) }},
	} {
		if c.why == "owner" && os.Geteuid() != 0 {
			continue
		}
		e.must(c.do())
		for what, err := range map[string]error{"open": e.tryOpen(e.work), "check": CheckDir(e.undo), "discard": Discard(t.Context(), e.undo)} {
			if !errors.Is(err, ErrUndoDir) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v", c.why, what, err)
			}
		}
		e.must(c.back())
		e.must(e.tryOpen(e.work))
	}
}

// What is put aside can be used where it is, and its place is free.
func TestU3PutAside(t *testing.T) {
	e := newSession(t, small(t))
	if _, err := PutAside(t.Context(), e.undo); err == nil {
		t.Error("a log that is open was put aside")
	}
	e.step(func(a *applier) error { return a.Unlink("b.txt") })
	e.must(e.log.Close())
	aside, err := PutAside(t.Context(), e.undo)
	e.must(err)
	if _, err := os.Stat(e.undo); err == nil || !strings.Contains(aside, AsideMark) {
		t.Errorf("put aside to %s: %v", aside, err)
	}
	e.must(e.tryOpen(e.work)) // a new one
	if err := Rename(t.Context(), aside, e.undo); err == nil {
		t.Error("a log was renamed over another")
	}
	e.undo, e.opts.Dir = aside, aside
	e.open()
	if h := e.history(); len(h) != 1 {
		t.Errorf("history %+v", h)
	}
	e.undoN(1)
}
