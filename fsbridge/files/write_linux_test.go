package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// hooks captures as a bridge's Interceptor does, without actors.
type hooks struct {
	guard fsbridge.Guard
	log   *undolog.Log
	// before, if set, is called before an operation is admitted, without the
	// guard: while it waits, so to speak.
	before func(op *fsbridge.Op) error
}

func (h *hooks) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	if h.before != nil {
		if err := h.before(op); err != nil {
			return fsbridge.Ticket{}, err
		}
	}
	key := op.Node
	if key == nil {
		key = op.Dir
	}
	t := h.guard.Enter(key.ID.Ino)
	err := op.Validate(t.Epoch)
	if err == nil && !h.log.Protected(t.Epoch, op) {
		t.Performed, err = h.log.Capture(t.Epoch, op)
	}
	if err != nil {
		h.guard.Exit(t)
		return fsbridge.Ticket{}, err
	}
	return t, nil
}

func (h *hooks) End(t fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	h.log.Done(t.Epoch, op, created, err)
	h.guard.Exit(t)
}

// desk is a folder with a log that is written to.
type desk struct {
	t     testing.TB
	dir   string
	root  *hostfs.Root
	log   *undolog.Log
	hooks *hooks
	w     *Writer
}

func newDesk(t testing.TB, hidden ...string) *desk {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, dir: filepath.Join(base, "work")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if d.root, err = hostfs.OpenRoot(d.dir); err != nil {
		t.Fatal(err)
	}
	d.log, err = undolog.Open(t.Context(), undolog.Options{Dir: filepath.Join(base, "undo"), Root: d.root})
	if err == nil {
		_, err = d.log.Recover(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Options{Root: d.root, Hidden: hidden})
	if err != nil {
		t.Fatal(err)
	}
	d.hooks = &hooks{log: d.log}
	d.w = &Writer{Folder: f, Hooks: d.hooks, Umask: 0o022}
	t.Cleanup(func() {
		f.Close()
		if err := errors.Join(d.log.Close(), d.root.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *desk) put(path, content string) {
	d.t.Helper()
	path = filepath.Join(d.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) get(path string) string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, path))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

func (d *desk) drained(f func() error) {
	d.t.Helper()
	var err error
	d.hooks.guard.Drain(func() bool { err = f(); return true })
	if err != nil {
		d.t.Fatal(err)
	}
}

// step runs f as one step.
func (d *desk) step(f func()) {
	d.t.Helper()
	d.drained(func() error {
		return d.log.Begin(d.log.NextID(undolog.TypeAPI), undolog.StepInfo{Type: undolog.TypeAPI, Command: "test"})
	})
	f()
	d.drained(func() error {
		_, err := d.log.Commit(context.Background(), undolog.StepResult{Status: "completed"})
		return err
	})
}

func (d *desk) undo() {
	d.t.Helper()
	d.drained(func() error { _, err := d.log.Undo(context.Background(), undolog.UndoOptions{}); return err })
}

func (d *desk) redo() {
	d.t.Helper()
	d.drained(func() error { _, err := d.log.Redo(context.Background(), undolog.UndoOptions{}); return err })
}

func (d *desk) write(path, content string) (WriteResult, error) {
	return d.w.Write(context.Background(), path, WriteOptions{Data: []byte(content), Parents: true})
}

// Random writes and edits, in steps of several, agree with a map of contents;
// undoing all of them gives back every tree on the way, and redoing too.
func TestWriteModel(t *testing.T) {
	testWriteModel(t, rand.Uint64())
}

// With this seed one file grows until an edit of it is refused.
func TestWriteModelTooLarge(t *testing.T) { testWriteModel(t, 158) }

func testWriteModel(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	d := newDesk(t)
	model := map[string]string{}
	for i := range 6 {
		path := fmt.Sprintf("dir%d/old%d", i%2, i)
		model[path] = strings.Repeat(fmt.Sprintf("line %d\n", i), 1+r.IntN(2_000))
		d.put(path, model[path])
	}
	snaps := []*treesnap.Snapshot{treesnap.MustTake(t, d.dir)}
	for range 25 {
		d.step(func() {
			for range 1 + r.IntN(4) {
				d.random(r, model)
			}
			// At least one change, so that there is a step.
			if _, err := d.write("counter", fmt.Sprint(len(snaps))); err != nil {
				t.Fatal(err)
			}
		})
		for path, want := range model {
			if got := d.get(path); got != want {
				t.Fatalf("%s: %d bytes, want %d", path, len(got), len(want))
			}
		}
		snaps = append(snaps, treesnap.MustTake(t, d.dir))
	}
	for i := len(snaps) - 2; i >= 0; i-- {
		d.undo()
		treesnap.AssertEqual(t, snaps[i], treesnap.MustTake(t, d.dir))
	}
	for i := 1; i < len(snaps); i++ {
		d.redo()
		treesnap.AssertEqual(t, snaps[i], treesnap.MustTake(t, d.dir))
	}
}

// random performs one operation on the folder and on the model.
func (d *desk) random(r *rand.Rand, model map[string]string) {
	paths := slices.Sorted(maps.Keys(model)) // so that a seed says all
	path := paths[r.IntN(len(paths))]
	content := strings.Repeat(fmt.Sprintf("%d\n", r.IntN(1000)), r.IntN(3_000))
	switch r.IntN(4) {
	case 0:
		path = fmt.Sprintf("dir%d/new%d/file%d", r.IntN(3), r.IntN(3), r.IntN(5))
		fallthrough
	case 1:
		if _, err := d.write(path, content); err != nil {
			d.t.Fatal(err)
		}
		model[path] = content
	default:
		old := model[path]
		if len(old) < 10 {
			return
		}
		at := r.IntN(len(old) - 5)
		e := Edit{Old: old[at : at+5], New: content[:min(len(content), r.IntN(50))], All: true}
		now := strings.ReplaceAll(old, e.Old, e.New)
		res, err := d.w.Edit(context.Background(), path, EditOptions{Edits: []Edit{e}})
		if len(now) > MaxEditBytes { // refused: all that the edits make of a file grows
			if !errors.Is(err, ErrTooLarge) {
				d.t.Fatalf("%d bytes: %v", len(now), err)
			}
			return
		}
		if err != nil {
			d.t.Fatal(err)
		}
		model[path] = now
		if n := strings.Count(old, e.Old); res.Replacements != n {
			d.t.Fatalf("%d replacements of %d", res.Replacements, n)
		}
	}
}

// A write keeps what belongs to the file and not to its content, and takes away
// what must not outlive a change of it.
func TestWriteKeepsInode(t *testing.T) {
	d := newDesk(t)
	d.put("file", "old content")
	path := filepath.Join(d.dir, "file")
	if err := errors.Join(os.Link(path, filepath.Join(d.dir, "other name")), os.Chmod(path, 0o754|fs.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	xattr := unix.Setxattr(path, "user.note", []byte("kept"), 0) == nil
	held, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	before := treesnap.MustTake(t, d.dir)
	d.step(func() {
		if res, err := d.write("file", "new"); err != nil || res.Created || !res.Changed {
			t.Fatalf("%+v, %v", res, err)
		}
	})
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o754 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if got := d.get("other name"); got != "new" {
		t.Errorf("the other name has %q", got)
	}
	if b := make([]byte, 20); true {
		if n, _ := held.ReadAt(b, 0); string(b[:n]) != "new" {
			t.Errorf("an open file has %q", b[:n])
		}
	}
	if b := make([]byte, 10); xattr {
		if n, err := unix.Getxattr(path, "user.note", b); err != nil || string(b[:n]) != "kept" {
			t.Errorf("xattr %q, %v", b[:max(n, 0)], err)
		}
	}
	d.undo()
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, d.dir))
}

// Modes of new files and directories are less the umask and have no special
// bits; symlinks are followed as far as they stay inside.
func TestWriteNewAndLinks(t *testing.T) {
	d := newDesk(t)
	d.put("real/file", "x")
	for name, target := range map[string]string{
		"link": "real", "abs": d.dir + "/real/file", "up": "real/../real/./file", "out": "..", "far": "/etc", "chain": "link/file", "back": "real/../../work/real/file",
	} {
		if err := os.Symlink(target, filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	d.step(func() {
		for i, p := range []string{"link/file", "abs", "up", "chain"} {
			if res, err := d.write(p, fmt.Sprint(i)); err != nil || res.Path != "real/file" || d.get("real/file") != fmt.Sprint(i) {
				t.Errorf("%s: %+v, %v", p, res, err)
			}
		}
		for _, p := range []string{"out/x", "far/x", "back", "out"} {
			if _, err := d.write(p, "no"); !errors.Is(err, ErrOutside) {
				t.Errorf("%s: %v", p, err)
			}
		}
		res, err := d.w.Write(context.Background(), "link/a/b", WriteOptions{Parents: true, Mode: 0o6777})
		if err != nil || res.Path != "real/a/b" || !res.Created {
			t.Errorf("%+v, %v", res, err)
		}
		if _, err := d.w.Write(context.Background(), "c/d", WriteOptions{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without parents: %v", err)
		}
		if _, err := d.w.Write(context.Background(), "real/a/b", WriteOptions{Create: true}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("create: %v", err)
		}
		if _, err := d.write("real", "x"); !errors.Is(err, ErrNotRegular) {
			t.Errorf("a directory: %v", err)
		}
	})
	for path, want := range map[string]fs.FileMode{"real/a": fs.ModeDir | 0o755, "real/a/b": 0o755} {
		if st, err := os.Stat(filepath.Join(d.dir, path)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
}

// What is hidden from commands can be neither changed nor made, by any name.
func TestWriteHidden(t *testing.T) {
	d := newDesk(t, "secret", "dir/key", "later/key")
	d.put("dir/key", "k")
	if err := errors.Join(os.Mkdir(filepath.Join(d.dir, "secret"), 0o755), os.Symlink("dir/key", filepath.Join(d.dir, "link"))); err != nil {
		t.Fatal(err)
	}
	before := treesnap.MustTake(t, d.dir)
	d.step(func() {
		for _, p := range []string{"secret/x", "secret/a/b", "dir/key", "link", "dir/key/below"} {
			if _, err := d.write(p, "no"); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", p, err)
			}
		}
	})
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, d.dir))
	d.step(func() {
		if _, err := d.write("later/key", "no"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("below a directory that the write makes: %v", err)
		}
	})
}

// Somebody swaps a directory of the path for a symlink that leads out, again and
// again: nothing outside is ever written.
func TestWriteSwapRace(t *testing.T) {
	d := newDesk(t)
	outside := filepath.Join(filepath.Dir(d.dir), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	d.put("dir/file", "x")
	if err := os.Symlink(outside, filepath.Join(d.dir, "trap")); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		dir, trap := filepath.Join(d.dir, "dir"), filepath.Join(d.dir, "trap")
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, trap, unix.RENAME_EXCHANGE)
		}
	})
	d.step(func() {
		for i := range require.Tries(t, 400) {
			_, _ = d.write("dir/file", fmt.Sprint(i))
			_, _ = d.write(fmt.Sprintf("dir/new%d/file", i), "x")
		}
	})
	stop.Store(true)
	wg.Wait()
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// What a write was about may be replaced while somebody decides about it: it is
// looked at again, and an edit of another content than it saw is refused.
func TestWriteChangedMeanwhile(t *testing.T) {
	d := newDesk(t)
	d.put("file", "one")
	d.put("edited", "one")
	replaced := false
	d.hooks.before = func(op *fsbridge.Op) error {
		if replaced {
			return nil
		}
		replaced = true
		d.put("next", "another")
		return errors.Join(os.Rename(filepath.Join(d.dir, "next"), filepath.Join(d.dir, "file")), os.WriteFile(filepath.Join(d.dir, "edited"), []byte("two"), 0o644))
	}
	d.step(func() {
		if _, err := d.write("file", "written"); err != nil || d.get("file") != "written" {
			t.Errorf("%q, %v", d.get("file"), err)
		}
		replaced = false
		d.put("edited", "one")
		_, err := d.w.Edit(context.Background(), "edited", EditOptions{Edits: []Edit{{Old: "one", New: "three"}}})
		if !errors.Is(err, ErrConflict) || d.get("edited") != "two" {
			t.Errorf("%q, %v", d.get("edited"), err)
		}
	})
}

// A command that writes the same file by a descriptor of its own, as over the mediated
// bridge, may shorten it at any moment: a write of the whole content is then repeated.
func TestWriteWhileItIsShortened(t *testing.T) {
	d := newDesk(t)
	d.put("file", "")
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		f, err := os.OpenFile(filepath.Join(d.dir, "file"), os.O_WRONLY, 0)
		for err == nil {
			select {
			case <-stop:
				stopped <- f.Close()
				return
			default:
			}
			_, werr := f.WriteAt([]byte("a command's"), 0)
			err = errors.Join(werr, f.Truncate(0))
		}
		stopped <- err
	}()
	d.step(func() {
		for n := range 10000 {
			if _, err := d.write("file", fmt.Sprintf("%012d", n)); err != nil {
				t.Errorf("write %d: %v", n, err)
				break
			}
		}
	})
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A disk that is full leaves the old content, whatever the order of sizes.
func TestWriteNoSpace(t *testing.T) {
	require.Root(t)
	d := newDesk(t)
	small := filepath.Join(d.dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	old := strings.Repeat("old content\n", 1000)
	d.put("small/file", old)
	d.step(func() {
		big := string(bytes.Repeat([]byte{'x'}, 1<<20))
		if _, err := d.write("small/file", big); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v", err)
		}
		if _, err := d.write("small/new", big); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v", err)
		}
		if got := d.get("small/file"); got != old {
			t.Errorf("the old file has %d bytes now", len(got))
		}
		if _, err := os.Lstat(filepath.Join(small, "new")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a file is there: %v", err)
		}
	})
}

func TestApplyEdits(t *testing.T) {
	for _, c := range []struct {
		content, want string
		edits         []Edit
		n             int
		err           string
	}{
		{"a b c", "x b c", []Edit{{Old: "a", New: "x"}}, 1, ""},
		{"a a", "b b", []Edit{{Old: "a", New: "b", All: true}}, 2, ""},
		{"one\ntwo\n", "ONE\n2\n", []Edit{{Old: "one", New: "ONE"}, {Old: "two", New: "2"}}, 2, ""},
		{"abc", "c", []Edit{{Old: "ab", New: ""}}, 1, ""},
		{"ab", "cb", []Edit{{Old: "a", New: "aa"}, {Old: "aa", New: "c"}}, 2, ""},
		{"a a", "", []Edit{{Old: "a", New: "b"}}, 0, "occurs 2 times"},
		{"a", "", []Edit{{Old: "a", New: "b"}, {Old: "z", New: "b"}}, 0, "edit 2 of 2: the text to replace does not occur"},
		{"a\r\nb", "", []Edit{{Old: "a\nb", New: "b"}}, 0, "CRLF"},
		{"a", "", []Edit{{}}, 0, "empty"},
		{"a", "", nil, 0, "none"},
	} {
		got, n, err := apply([]byte(c.content), c.edits)
		switch {
		case c.err != "":
			if !errors.Is(err, ErrEdit) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q %+v: %v", c.content, c.edits, err)
			}
		case err != nil || string(got) != c.want || n != c.n:
			t.Errorf("%q %+v: %q %d %v", c.content, c.edits, got, n, err)
		}
	}
}
