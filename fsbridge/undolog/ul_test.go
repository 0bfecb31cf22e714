package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

func TestUL03_Promotion(t *testing.T) {
	e := newSession(t, small(t))
	wal := filepath.Join(e.undo, "wal/in_progress")
	id := e.begin()
	if _, err := os.Stat(wal); err == nil {
		t.Error("a step that changed nothing has a directory")
	}
	e.must(e.a.Unlink("b.txt"))
	if _, err := os.Stat(filepath.Join(wal, "journal")); err != nil {
		t.Error(err)
	}
	entry := e.commit()
	if entry.StepID != id {
		t.Errorf("step %d became %d", id, entry.StepID)
	}
	for _, name := range []string{"journal", "summary.json", "paths"} {
		if _, err := os.Stat(filepath.Join(e.undo, "steps", strconv.Itoa(int(id)), name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(wal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("wal after commit: %v", err)
	}
}

func TestEmptyStepLeavesNothing(t *testing.T) {
	e := newSession(t, small(t))
	e.begin()
	if entry := e.commit(); entry != nil {
		t.Errorf("entry %+v", entry)
	}
	e.begin()
	if err := e.a.Rmdir("dir"); !errors.Is(err, posix.ENOTEMPTY) {
		t.Errorf("rmdir of a full directory: %v", err)
	}
	if err := e.log.Begin(7, StepInfo{Type: TypeAPI}); !errors.Is(err, ErrBusy) {
		t.Errorf("begin in an open step: %v", err)
	}
	if e.commit() != nil || len(e.history()) != 0 {
		t.Errorf("a step with only a failed operation left %+v", e.history())
	}
}

func TestIDsAreNeverReused(t *testing.T) {
	e := newSession(t, nil)
	seen := map[StepID]bool{}
	next := func(typ StepType) {
		t.Helper()
		id := e.log.NextID(typ)
		if seen[id] || (id < 0) != (typ == TypeAmbient) {
			t.Fatalf("id %d for %s; seen %v", id, typ, seen)
		}
		seen[id] = true
	}
	for range 3 {
		next(TypeCommand)
		next(TypeAmbient)
		next(TypeAPI)
		e.crash()
	}
	id := StepID(1000) // another folder's log chose it
	e.must(e.log.Begin(id, StepInfo{Type: TypeCommand}))
	e.commit()
	if got := e.log.NextID(TypeCommand); got <= id {
		t.Errorf("id %d after %d", got, id)
	}
	e.step(func(a *applier) error { return a.WriteFile("x", nil) })
	used := e.history()[0]
	e.must(e.log.Close())
	e.must(os.WriteFile(filepath.Join(e.undo, "ids"), []byte("garbage"), 0o600))
	e.open()
	if got := e.log.NextID(TypeCommand); got <= used.StepID {
		t.Errorf("id %d after the counters were damaged; %d was used", got, used.StepID)
	}
}

func TestUL04_VersionMismatch(t *testing.T) {
	for _, c := range []struct {
		content string
		found   int
	}{{"1\n", 1}, {"", 0}, {"one", 0}, {"-1\n", 0}, {"1000000000\n", 1e9}} {
		e := newSession(t, small(t))
		e.step(func(a *applier) error { return a.Unlink("b.txt") })
		e.must(e.log.Close())
		e.must(os.WriteFile(filepath.Join(e.undo, "version"), []byte(c.content), 0o600))
		_, err := Open(context.Background(), e.opts)
		var v *VersionError
		if !errors.As(err, &v) || v.Found != c.found || v.Want != 3 {
			t.Errorf("version %q: %v", c.content, err)
		}
		if _, err := os.Stat(filepath.Join(e.undo, "steps/1/journal")); err != nil {
			t.Errorf("the old history was touched: %v", err)
		}
		e.log = nil
	}
}

func TestUL05_Discard(t *testing.T) {
	e := newSession(t, small(t))
	e.step(func(a *applier) error { return a.RemoveAll("dir") })
	keep := filepath.Join(e.undo, "not-ours")
	e.must(os.WriteFile(keep, nil, 0o600))
	outside := filepath.Join(filepath.Dir(e.undo), "outside")
	mustWrite(t, filepath.Join(outside, "precious"), "x")
	e.must(symlink(outside, filepath.Join(e.undo, "steps", "link")))
	var locked *LockedError
	if err := Discard(context.Background(), e.undo); !errors.As(err, &locked) {
		t.Fatalf("discard of a log in use: %v", err)
	}
	e.must(e.log.Close())
	e.must(os.WriteFile(filepath.Join(e.undo, "version"), []byte("9\n"), 0o600))
	e.must(Discard(context.Background(), e.undo))
	e.open()
	if h := e.history(); len(h) != 0 {
		t.Errorf("history after discard: %+v", h)
	}
	for _, p := range []string{keep, filepath.Join(outside, "precious")} {
		if _, err := os.Stat(p); err != nil {
			t.Errorf("discard removed what no log owns: %v", err)
		}
	}
	before := e.snap()
	e.step(func(a *applier) error { return a.Unlink("b.txt") })
	e.undoN(1)
	e.equal(before)
}

func TestUL06_CorruptSummary(t *testing.T) {
	e := newSession(t, small(t))
	e.step(func(a *applier) error { return a.Unlink("b.txt") })
	e.step(func(a *applier) error { return a.Unlink("a.txt") })
	e.must(e.log.Close())
	e.must(os.Truncate(filepath.Join(e.undo, "steps/1/summary.json"), 20))
	e.open()
	h := e.history()
	if len(h) != 2 || h[0].Damaged != "" || h[1].Damaged == "" || h[1].StepID != 1 || h[1].Command != "test" {
		t.Errorf("history %+v", h)
	}
	if !e.warned(WarnDamaged) {
		t.Error("no warning")
	}
	e.must(e.log.Close())
	e.must(os.RemoveAll(filepath.Join(e.undo, "steps/1/journal")))
	e.must(os.WriteFile(filepath.Join(e.undo, "steps/nonsense"), nil, 0o600))
	e.open()
	if h := e.history(); len(h) != 2 || h[1].Damaged == "" {
		t.Errorf("history without journal %+v", h)
	}
}

func TestUL08_FlippedBytes(t *testing.T) {
	e := newSession(t, small(t))
	e.step(func(a *applier) error { return a.WriteAt("b.txt", []byte("changed"), 0) })
	after := e.snap()
	path := filepath.Join(e.undo, "steps/1/journal")
	good, err := os.ReadFile(path)
	e.must(err)
	for i := 0; i < len(good); i += 7 {
		bad := slices.Clone(good)
		bad[i] ^= 0x40
		e.must(os.WriteFile(path, bad, 0o600))
		if _, err := e.log.Undo(context.Background(), UndoOptions{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
		e.equal(after)
	}
	e.must(os.WriteFile(path, good, 0o600))
	e.undoN(1)
}

func TestLockAndOwner(t *testing.T) {
	e := newSession(t, nil, func(o *Options) { o.Owner = Owner{PID: 42, Session: "s1"} })
	_, err := Open(context.Background(), e.opts)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Owner.PID != 42 || locked.Owner.Session != "s1" {
		t.Errorf("second open: %v", err)
	}
	want := Owner{PID: 43, Session: "s", Socket: "/x"}
	e.must(e.log.SetOwner(want))
	if _, err := Open(context.Background(), e.opts); !errors.As(err, &locked) || locked.Owner != want {
		t.Errorf("owner %+v, %v", locked.Owner, err)
	}
	st, err := os.Stat(e.undo)
	e.must(err)
	if st.Mode().Perm() != 0o700 && !undologtest.Plain {
		t.Errorf("undo directory has mode %v", st.Mode())
	}
	e.must(e.log.Close())
	if err := e.log.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	e.open()
}

func TestUnusableUndoDirs(t *testing.T) {
	e := newSession(t, small(t))
	base := filepath.Dir(e.undo)
	e.must(os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	inside, err := hostfs.OpenRoot(filepath.Join(e.undo, "steps"))
	e.must(err)
	defer inside.Close()
	dirs := map[string]Options{
		"empty path":            {Root: e.root},
		"a file":                {Dir: filepath.Join(base, "file"), Root: e.root},
		"below a file":          {Dir: filepath.Join(base, "file/x"), Root: e.root},
		"inside the folder":     {Dir: filepath.Join(e.work, "dir/undo"), Root: e.root},
		"the folder itself":     {Dir: e.work, Root: e.root},
		"around the folder":     {Dir: filepath.Join(base, "other"), Root: inside},
		"a name that is a trap": {Dir: filepath.Join(base, "nul\x00"), Root: e.root},
	}
	if !undologtest.Plain {
		e.must(os.Symlink(e.work, filepath.Join(base, "tunnel")))
		dirs["inside, by a symlink"] = Options{Dir: filepath.Join(base, "tunnel/undo"), Root: e.root}
	}
	for name, o := range dirs {
		if _, err := Open(context.Background(), o); !errors.Is(err, ErrUndoDir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(e.work, "dir/undo")); err == nil {
		t.Error("something was made inside the working folder")
	}
	if os.Geteuid() != 0 && !undologtest.Plain {
		ro := filepath.Join(base, "ro")
		e.must(os.Mkdir(ro, 0o500))
		_, err := Open(context.Background(), Options{Dir: ro, Root: e.root})
		if !errors.Is(err, ErrUndoDir) || !strings.Contains(err.Error(), "not writable") {
			t.Errorf("read-only: %v", err)
		}
	}
}

func TestHostileLogFiles(t *testing.T) {
	needs(t, "symlinks")
	for _, name := range []string{"version", "lock", "ids"} {
		e := newSession(t, nil)
		e.must(e.log.Close())
		target := filepath.Join(e.work, "target")
		e.must(os.WriteFile(target, []byte("mine"), 0o600))
		p := filepath.Join(e.undo, name)
		e.must(os.Remove(p))
		e.must(os.Symlink(target, p))
		if l, err := Open(context.Background(), e.opts); err == nil {
			t.Errorf("%s: a symlink is followed", name)
			_ = l.Close()
		}
		if b, err := os.ReadFile(target); err != nil || string(b) != "mine" {
			t.Errorf("%s: the target was changed: %q", name, b)
		}
		e.log = nil
	}
}
