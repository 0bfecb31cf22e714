package undolog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	asuser "github.com/codeagent/sandbox/tests/cmd/asuser/user"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// Flags of inodes, as chattr +i and +a set them.
const (
	flagImmutable = 0x10
	flagAppend    = 0x20
)

// setFlags adds inode flags, as chattr does, until lift is called.
func setFlags(t *testing.T, path string, flags int) (lift func()) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	was, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, was|flags)
	}
	if err != nil {
		_ = unix.Close(fd)
		t.Skipf("the file system of %s has no such flags: %v", path, err)
	}
	lifted := false
	lift = func() {
		if !lifted {
			lifted = true
			_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, was)
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(lift)
	return lift
}

// bindReadOnly mounts the directory path onto itself, read-only.
func bindReadOnly(t *testing.T, path string) (lift func()) {
	t.Helper()
	require.Mount(t)
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	lifted := false
	lift = func() {
		if !lifted {
			lifted = true
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	}
	t.Cleanup(lift)
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return lift
}

// executes runs a copy of the program cat at path until it is lifted.
func executes(t *testing.T, path string) (lift func()) {
	t.Helper()
	c := exec.Command(path)
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lifted := false
	lift = func() {
		if !lifted {
			lifted = true
			_ = in.Close()
			_ = c.Wait()
		}
	}
	t.Cleanup(lift)
	return lift
}

// leftPaths are the paths that are left, without those that only times are left of.
func leftPaths(list []Left) (out []string) {
	for _, x := range list {
		if x.What != "times" && !slices.Contains(out, x.Path) {
			out = append(out, x.Path)
		}
	}
	slices.Sort(out)
	return out
}

// differing are the paths at which two trees differ in more than the times of directories.
func differing(a, b *treesnap.Snapshot) (out []string) {
	plain := func(e treesnap.Entry) string {
		if e.Type.IsDir() {
			e.MtimeNS = 0
		}
		e.Links, e.Group = 0, ""
		return fmt.Sprint(e)
	}
	for p, x := range a.Entries {
		if y, ok := b.Entries[p]; !ok || plain(x) != plain(y) {
			out = append(out, p)
		}
	}
	for p := range b.Entries {
		if _, ok := a.Entries[p]; !ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// hinderCase is something that an undo meets.
type hinderCase struct {
	hinder func(t *testing.T, work string) (lift func())
	// left are the paths that cannot be put back, of the changes that everyChange makes.
	left []string
	why  string // a part of each reason
}

func hindrances() map[string]hinderCase {
	at := func(name string, f func(*testing.T, string) func()) func(*testing.T, string) func() {
		return func(t *testing.T, work string) func() { return f(t, filepath.Join(work, name)) }
	}
	immutable := func(t *testing.T, p string) func() { return setFlags(t, p, flagImmutable) }
	appendOnly := func(t *testing.T, p string) func() { return setFlags(t, p, flagAppend) }
	inDir := []string{"d/edited", "d/gone", "d/moved", "d/new", "moved"}
	inMount := append([]string{"d/mode"}, inDir...)
	slices.Sort(inMount)
	return map[string]hinderCase{
		"immutable file":       {at("edited", immutable), []string{"edited"}, "immutable"},
		"immutable mode":       {at("mode", immutable), []string{"mode"}, "immutable"},
		"immutable new file":   {at("new", immutable), []string{"new"}, "immutable"},
		"immutable renamed":    {at("renamed2", immutable), []string{"renamed", "renamed2"}, "immutable"},
		"append-only file":     {at("edited", appendOnly), []string{"edited"}, "append-only"},
		"immutable directory":  {at("d", immutable), []string{"d/gone", "d/moved", "d/new", "moved"}, "immutable"},
		"append-only dir":      {at("d", appendOnly), []string{"d/new"}, "append-only"},
		"read-only mount":      {at("d", bindReadOnly), inMount, "read-only"},
		"a program that runs":  {at("program", executes), []string{"program"}, "runs"},
		"a program's writer":   {at("armed", writes), []string{"armed"}, "open for writing"},
		"immutable root":       {at(".", immutable), []string{"gone", "moved", "new", "d/moved", "renamed", "renamed2", "created"}, "immutable"},
		"nothing in the way":   {func(*testing.T, string) func() { return func() {} }, nil, ""},
		"immutable, untouched": {at("still", immutable), nil, ""},
	}
}

// writes has a file open for writing, which is a setuid program when the step is undone.
func writes(t *testing.T, path string) func() {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

func everyChangeFolder(t testing.TB) func(work string) {
	return func(work string) {
		mustWrite(t, filepath.Join(work, "armed"), "armed as it was")
		mode := uint32(0o755)
		if undologtest.TellsWriters(t, work) {
			mode = 0o6755
		}
		if err := unix.Chmod(filepath.Join(work, "armed"), mode); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"edited", "mode", "gone", "renamed", "still", "d/edited", "d/mode", "d/gone", "d/moved"} {
			mustWrite(t, filepath.Join(work, p), p+" as it was")
		}
		in, err := os.Open("/bin/cat")
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := os.OpenFile(filepath.Join(work, "program"), os.O_CREATE|os.O_WRONLY, 0o755)
		if err == nil {
			_, err = io.Copy(out, in)
			err = errors.Join(err, out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// everyChange is a step that does something of each kind.
func everyChange(a *undologtest.Applier) error {
	return run(
		func() error { return a.WriteAt("edited", []byte("EDITED"), 0) },
		func() error { return a.WriteAt("d/edited", []byte("EDITED"), 0) },
		func() error { return a.WriteAt("program", []byte("x"), 1<<20) },
		func() error { return a.Chmod("mode", 0o600) },
		func() error { return a.Chmod("armed", 0o755) },
		func() error { return a.Chmod("d/mode", 0o600) },
		func() error { return a.Unlink("gone") },
		func() error { return a.Unlink("d/gone") },
		func() error { return a.Rename("renamed", "renamed2", 0) },
		func() error { return a.Rename("d/moved", "moved", 0) },
		func() error { return a.WriteFile("new", []byte("new")) },
		func() error { return a.WriteFile("d/new", []byte("new")) },
		func() error { return a.Mkdir("created", 0o755) },
		func() error { return a.WriteFile("created/in", []byte("in")) },
	)
}

// TestU5UndoLeavesWhatItMust: whatever the folder refuses is left, by name, and all else is put back; when it
// refuses no more the next undo does the rest, and a redo leads back to where it began.
func TestU5UndoLeavesWhatItMust(t *testing.T) {
	require.Root(t)
	all := hindrances()
	if !undologtest.TellsWriters(t, t.TempDir()) {
		delete(all, "a program's writer") // there is no such program then
	}
	for name, c := range all {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, packed %v", name, packed), func(t *testing.T) { leaves(t, c, packed) })
		}
	}
}

func leaves(t *testing.T, c hinderCase, packed bool) {
	ctx := context.Background()
	e := newSession(t, everyChangeFolder(t), func(o *Options) { o.Barriers = PolicyWarn }) // flags change ctimes
	e.step(func(a *applier) error { return a.WriteFile("older", []byte("older")) })
	before := e.snap()
	e.step(everyChange)
	after := e.snap()
	if packed {
		_, err := e.log.GC(ctx, GCOptions{CompressAll: true})
		e.must(err)
	}
	lift := c.hinder(t, e.work)
	slices.Sort(c.left)

	foretold, err := e.log.Undo(ctx, UndoOptions{DryRun: true})
	e.must(err)
	res, err := e.log.Undo(ctx, UndoOptions{})
	e.must(err)
	if got := leftPaths(res.Left); !slices.Equal(got, c.left) {
		t.Errorf("left %q, want %q: %+v", got, c.left, res.Left)
	}
	for _, x := range foretold.Left {
		if !slices.Contains(res.Left, x) {
			t.Errorf("foretold, and not left: %+v", x)
		}
	}
	for _, x := range res.Left {
		if x.What != "times" && !strings.Contains(x.Reason, c.why) {
			t.Errorf("the reason does not say %q: %+v", c.why, x)
		}
	}
	now := e.snap()
	for _, p := range differing(before, now) {
		if !slices.ContainsFunc(c.left, func(l string) bool { return p == l || strings.HasPrefix(p, l+"/") }) {
			t.Errorf("%s is not as it was, and was not named", p)
		}
	}
	e.crash()
	if r, err := e.log.Recover(ctx); err != nil || r != nil {
		t.Fatalf("the undo is not over: %+v, %v", r, err)
	}
	lift()
	if len(c.left) > 0 {
		res, err = e.log.Undo(ctx, UndoOptions{})
		e.must(err)
		if len(res.Left) > 0 || len(res.Steps) != 1 {
			t.Errorf("nothing hinders any more: %+v", res)
		}
	}
	e.equalButLinks(before)
	for range e.log.Status().Redoable {
		e.redoN(1)
	}
	if d := differing(after, e.snap()); len(d) > 0 {
		t.Errorf("done again, and different: %q", d)
	}
	for len(e.history()) > 1 {
		e.undoN(1)
	}
	if d := differing(before, e.snap()); len(d) > 0 {
		t.Errorf("undone again, and different: %q", d)
	}
	e.step(func(a *applier) error { return a.WriteFile("next", []byte("next")) })
	e.undoN(1)
}

// TestU5ForcePassesWhatIsLeft: what is left of a step stands in the way of older ones only as long as nobody
// says otherwise, and stays.
// TestU5ForceCountsWhatItOverwrote: of two files that were edited outside one cannot be put back. Force says that it has
// overwritten the other one alone, also where it only says what it would do.
func TestU5ForceCountsWhatItOverwrote(t *testing.T) {
	require.Root(t)
	ctx := context.Background()
	e := newSession(t, everyChangeFolder(t))
	e.step(func(a *applier) error {
		return errors.Join(a.WriteFile("still", []byte("changed")), a.WriteAt("edited", []byte("EDITED"), 0))
	})
	for _, name := range []string{"still", "edited"} {
		e.must(os.WriteFile(filepath.Join(e.work, name), []byte("by hand, "+name), 0o644))
	}
	setFlags(t, filepath.Join(e.work, "edited"), flagImmutable)
	for _, dry := range []bool{true, false} {
		res, err := e.log.Undo(ctx, UndoOptions{Force: true, DryRun: dry})
		e.must(err)
		if got := leftPaths(res.Left); !slices.Equal(got, []string{"edited"}) {
			t.Errorf("dry %v: left %q", dry, got)
		}
		if len(res.Warnings) != 1 || !strings.HasPrefix(res.Warnings[0], "1 path(s)") {
			t.Errorf("dry %v: %q", dry, res.Warnings)
		}
	}
}

func TestU5ForcePassesWhatIsLeft(t *testing.T) {
	require.Root(t)
	ctx := context.Background()
	e := newSession(t, everyChangeFolder(t), func(o *Options) { o.Barriers = PolicyWarn }) // flags change ctimes
	first := e.snap()
	e.step(func(a *applier) error { return a.WriteFile("still", []byte("changed")) })
	e.step(func(a *applier) error { return a.WriteAt("edited", []byte("EDITED"), 0) })
	lift := setFlags(t, filepath.Join(e.work, "edited"), flagImmutable)
	for _, force := range []bool{false, false, true} {
		res, err := e.log.Undo(ctx, UndoOptions{Force: force})
		e.must(err)
		if got := leftPaths(res.Left); !slices.Equal(got, []string{"edited"}) {
			t.Fatalf("force %v: left %q", force, got)
		}
	}
	res, err := e.log.Undo(ctx, UndoOptions{Force: true})
	e.must(err)
	if len(res.Steps) != 1 || res.Steps[0].StepID != 1 {
		t.Fatalf("the older step: %+v", res)
	}
	lift()
	if h := e.history(); len(h) != 1 || h[0].RestOf != 2 || len(h[0].Left) != 1 {
		t.Fatalf("history: %+v", h)
	}
	e.undoN(1)
	e.equalButLinks(first)
}

// TestU5LiftedHindranceIsNoEdit: whoever lifts what hindered an undo has not edited the file; whoever writes to
// it has.
func TestU5LiftedHindranceIsNoEdit(t *testing.T) {
	require.Root(t)
	ctx := context.Background()
	for _, edit := range []bool{false, true} {
		e := newSession(t, func(work string) { mustWrite(t, filepath.Join(work, "log"), "one\n") })
		before := e.snap()
		lift := setFlags(t, filepath.Join(e.work, "log"), flagAppend)
		e.step(func(a *applier) error { return e.appendVia("log", "two\n") })
		res, err := e.log.Undo(ctx, UndoOptions{})
		e.must(err)
		if len(leftPaths(res.Left)) != 1 {
			t.Fatalf("left: %+v", res.Left)
		}
		lift()
		if edit {
			mustWrite(t, filepath.Join(e.work, "log"), "mine\n")
		}
		_, err = e.log.External(ctx, []string{"log"}, Inside{}) // the watcher has seen it
		e.must(err)
		_, err = e.log.Undo(ctx, UndoOptions{})
		var barrier *BarrierError
		switch {
		case edit && !errors.As(err, &barrier):
			t.Errorf("an edit is overwritten: %v", err)
		case !edit && err != nil:
			t.Errorf("nobody has edited it: %v", err)
		case !edit:
			e.equalButLinks(before)
		}
	}
}

// appendVia appends to a file as a bridge would for whoever has opened it with O_APPEND.
func (e *session) appendVia(path, text string) error {
	h, err := e.a.OpenFor(path, unix.O_RDWR|unix.O_APPEND)
	if err != nil {
		return err
	}
	defer h.Close()
	st, err := os.Stat(filepath.Join(e.work, path))
	if err != nil {
		return err
	}
	return h.WriteAt([]byte(text), st.Size())
}

// TestU5RollbackIsOver: a step that is rolled back, by a refusal or after a kill, is over as well; what it could not
// put back is a step of the history, and the log goes on.
func TestU5RollbackIsOver(t *testing.T) {
	require.Root(t)
	ctx := context.Background()
	for _, killed := range []bool{false, true} {
		e := newSession(t, everyChangeFolder(t), func(o *Options) { o.Barriers = PolicyWarn })
		before := e.snap()
		e.begin()
		e.must(everyChange(e.a))
		lift := setFlags(t, filepath.Join(e.work, "d"), flagImmutable)
		lift2 := setFlags(t, filepath.Join(e.work, "mode"), flagImmutable)
		if killed {
			e.crash()
			_, err := e.log.Recover(ctx)
			e.must(err)
		} else {
			_, err := e.log.Abort(ctx)
			e.must(err)
			if !e.warned(WarnLeft) {
				t.Error("nobody was told")
			}
		}
		e.a.NewEpoch()
		e.a.Forget()
		if h := e.history(); len(h) != 1 || h[0].RestOf == 0 {
			t.Fatalf("killed %v: %+v", killed, h)
		}
		e.step(func(a *applier) error { return a.WriteFile("next", []byte("next")) })
		e.undoN(1)
		lift()
		lift2()
		e.crash()
		res := e.undoN(1)
		if len(res.Left) > 0 {
			t.Errorf("killed %v: %+v", killed, res.Left)
		}
		e.equalButLinks(before)
	}
}

// TestU6FailedChangeIsNone: what was captured and then refused is no change that an undo has to put back.
func TestU6FailedChangeIsNone(t *testing.T) {
	require.Root(t)
	e := newSession(t, everyChangeFolder(t), func(o *Options) { o.Barriers = PolicyWarn }) // flags change ctimes
	lift := setFlags(t, filepath.Join(e.work, "mode"), flagImmutable)
	lift2 := setFlags(t, filepath.Join(e.work, "edited"), flagAppend)
	before := e.snap()
	e.step(func(a *applier) error {
		for _, f := range []func() error{
			func() error { return a.Chmod("mode", 0o600) },
			func() error { return a.Unlink("mode") },
			func() error { return a.Utimes("mode", 7) },
			func() error { return a.WriteAt("mode", []byte("X"), 0) },
			func() error { return a.SetXattr("mode", "user.x", []byte("X")) },
			func() error { return a.Truncate("edited", 0) },
			func() error { return a.Chmod("edited", 0o600) },
		} {
			if f() == nil {
				return errors.New("the file system did not refuse that")
			}
		}
		return a.WriteFile("new", nil)
	})
	res, err := e.log.Undo(context.Background(), UndoOptions{})
	e.must(err)
	if len(res.Left) > 0 {
		t.Errorf("left: %+v", res.Left)
	}
	lift()
	lift2()
	e.equalButLinks(before)
}

// foreignEnv names the folder that root has made for the test's second run.
const foreignEnv = "SANDBOX_TEST_FOREIGN"

// TestU5SomebodyElsesFiles: an ordinary user's undo in directories and files of somebody else, whom they may
// write for, puts back all but what only the owner may set.
func TestU5SomebodyElsesFiles(t *testing.T) {
	base := os.Getenv(foreignEnv)
	if base == "" {
		require.Root(t)
		base = t.TempDir()
		for p := base; p != "/"; p = filepath.Dir(p) {
			if err := os.Chmod(p, 0o777); p == base && err != nil {
				t.Fatal(err)
			}
			if p == os.TempDir() {
				break
			}
		}
		work := filepath.Join(base, "work")
		mustWrite(t, filepath.Join(work, "theirs"), "theirs")
		mustWrite(t, filepath.Join(work, "data/old"), "old")
		for _, p := range []string{"", "theirs", "data", "data/old"} {
			if err := os.Chmod(filepath.Join(work, p), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv(foreignEnv, base)
		out, err := asuser.CombinedOutput(os.Args[0], "-test.run=^TestU5SomebodyElsesFiles$", "-test.v", "-test.count=1")
		if t.Logf("%s", out); err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatal(err)
		}
		return
	}
	somebodyElses(t, filepath.Join(base, "work"), filepath.Join(base, "undo"))
}

func somebodyElses(t *testing.T, work, undo string) {
	ctx := context.Background()
	e := openSession(t, work, undo)
	before := e.snap()
	e.step(func(a *applier) error {
		return run(
			func() error { return a.WriteAt("theirs", []byte("EDIT"), 0) },
			func() error { return a.WriteFile("data/new", []byte("new")) },
			func() error { return a.Unlink("data/old") },
		)
	})
	res, err := e.log.Undo(ctx, UndoOptions{})
	e.must(err)
	if d := leftPaths(res.Left); len(d) > 0 {
		t.Errorf("left %q: %+v", d, res.Left)
	}
	if !slices.ContainsFunc(res.Left, func(x Left) bool {
		return x.Path == "theirs" && x.What == "times" && strings.Contains(x.Reason, "another user")
	}) {
		t.Errorf("the time of a file of somebody else's is not named: %+v", res.Left)
	}
	now := e.snap()
	for p, x := range now.Entries {
		was := before.Entries[p]
		was.MtimeNS, x.MtimeNS = 0, 0
		if fmt.Sprint(was) != fmt.Sprint(x) {
			t.Errorf("%s: %+v, was %+v", p, x, was)
		}
	}
	if h := e.history(); len(h) != 0 {
		t.Errorf("history: %+v", h)
	}
	e.redoN(1)
	e.undoN(1)
	e.step(func(a *applier) error { return a.WriteFile("mine", []byte("mine")) })
	e.undoN(1)
}

// TestU5DiscardAlwaysWorks: whatever state a log is in, it can be dropped, and the folder is used again; what somebody
// has nailed down in it is set aside.
func TestU5DiscardAlwaysWorks(t *testing.T) {
	require.Root(t)
	ctx := context.Background()
	for name, hurt := range map[string]func(t *testing.T, undo string){
		"half undone": func(t *testing.T, undo string) {
			mustWrite(t, filepath.Join(undo, "rollback/plan"), `{"kind":"undo","step":1,"name":"1","tick":9}`)
		},
		"plan damaged":    func(t *testing.T, undo string) { mustWrite(t, filepath.Join(undo, "rollback/plan"), "garbage") },
		"journal damaged": func(t *testing.T, undo string) { mustWrite(t, filepath.Join(undo, "steps/1/journal"), "garbage") },
		"step open": func(t *testing.T, undo string) {
			mustWrite(t, filepath.Join(undo, "wal/in_progress/journal"), "garbage")
		},
		"nailed down": func(t *testing.T, undo string) {
			setFlags(t, filepath.Join(undo, "steps/1/journal"), flagImmutable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newSession(t, everyChangeFolder(t))
			e.step(everyChange)
			after := e.snap()
			e.must(e.log.Close())
			hurt(t, e.undo)
			s, err := Inspect(e.undo)
			e.must(err)
			if !s.Exists || s.InUse || s.Steps != 1 || (s.Half != "") != strings.HasPrefix(name, "half") && name != "plan damaged" || (s.Open != 0) != (name == "step open") {
				t.Errorf("inspected: %+v", s)
			}
			e.must(Discard(ctx, e.undo))
			e.open()
			if s, err := Inspect(e.undo); err != nil || !s.InUse || s.Steps != 0 || s.Half != "" {
				t.Errorf("inspected afterwards: %+v, %v", s, err)
			}
			if d := differing(after, e.snap()); len(d) > 0 {
				t.Errorf("the folder was changed: %q", d)
			}
			e.step(func(a *applier) error { return a.WriteFile("next", []byte("next")) })
			e.undoN(1)
		})
	}
}
