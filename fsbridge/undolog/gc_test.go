//go:build linux

package undolog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestUI18CountEviction: the oldest steps go when there are too many, with a
// warning, and what they guarded goes with them.
func TestUI18CountEviction(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil, func(o *Options) {
		o.StepCount = 3
		o.Warn = func(w Warning) { warned = append(warned, w) }
	})
	var ids []StepID
	for i := range 5 {
		ids = append(ids, s.step(func(a *undologtest.Applier) error { return writeFileVia(a, fmt.Sprint("f", i), "x") }).StepID)
	}
	if got := keptSteps(s.log); !slices.Equal(got, ids[2:]) {
		t.Errorf("kept %v, want %v", got, ids[2:])
	}
	want := []Warning{{Code: WarnNearLimit, Steps: ids[2:3]}, {Code: WarnEvicted, Steps: ids[:1], Usual: true}, {Code: WarnEvicted, Steps: ids[1:2], Usual: true}}
	if got := withoutTexts(warned); !reflect.DeepEqual(got, want) {
		t.Errorf("warnings: %+v, want %+v", got, want)
	}
	if _, err := s.log.Step(ids[0]); !errors.Is(err, ErrNoStep) {
		t.Errorf("an evicted step is still there: %v", err)
	}
	if _, err := s.log.Undo(context.Background(), UndoOptions{Count: 3}); err != nil {
		t.Fatal(err)
	}
	if got := treesnap.MustTake(t, s.work); len(got.Entries) != 3 {
		t.Errorf("after undoing what is kept: %v", got)
	}
}

func withoutTexts(warned []Warning) (out []Warning) {
	for _, w := range warned {
		out = append(out, Warning{Code: w.Code, Steps: w.Steps, Usual: w.Usual})
	}
	return out
}

// TestNearLimits: a person hears once that a limit is near, again when the log has been away from it, and of each loss that nobody had announced.
func TestNearLimits(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil, func(o *Options) {
		o.StepCount, o.LogBytes, o.AdoptedRaw, o.StepBytes = 10, 1<<20, -1, 500<<10
		o.Warn = func(w Warning) { warned = append(warned, w) }
	})
	told := func(what string, want ...Warning) {
		t.Helper()
		if got := withoutTexts(warned); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", what, warned, want)
		}
		warned = nil
	}
	s.outside("big", strings.Repeat("x", 900<<10))
	noise := make([]byte, 450<<10) // it cannot be compressed
	rand.NewChaCha8([32]byte{}).Read(noise)
	s.outside("f", string(noise))
	change := func(text string) StepID {
		return s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "small", text) }).StepID
	}
	var ids []StepID
	for i := range 7 {
		ids = append(ids, change(fmt.Sprint(i)))
	}
	told("7 of 10 steps")
	if near := s.log.Status().Near; near != nil {
		t.Errorf("7 of 10 steps: %q", near)
	}
	eighth := change("8")
	told("8 of 10 steps", Warning{Code: WarnNearLimit, Steps: []StepID{eighth}})
	if near := s.log.Status().Near; len(near) != 1 || !strings.Contains(near[0], "8 of 10 steps (undo.max_steps)") {
		t.Errorf("8 of 10 steps: %q", near)
	}
	change("9")
	told("9 of 10 steps")
	if _, err := s.log.Undo(context.Background(), UndoOptions{Count: 2}); err != nil {
		t.Fatal(err)
	}
	again := change("again")
	told("8 of 10 steps again", Warning{Code: WarnNearLimit, Steps: []StepID{again}})
	part := s.step(func(a *undologtest.Applier) error { return a.Truncate("f", 5) }).StepID
	told("a step of 450 of 500 KiB", Warning{Code: WarnNearLimit, Steps: []StepID{part}})
	s.log.quiet()
	large := s.step(func(a *undologtest.Applier) error { return a.Unlink("big") }).StepID
	s.log.quiet()
	told("1350 KiB of 1 MiB", Warning{Code: WarnEvicted, Steps: append(append([]StepID{}, ids...), again, part)},
		Warning{Code: WarnNearLimit, Steps: []StepID{large}})
	if near := s.log.Status().Near; len(near) != 1 || !strings.Contains(near[0], "undo.max_bytes") {
		t.Errorf("900 KiB of 1 MiB: %q", near)
	}
}

func keptSteps(l *Log) (ids []StepID) {
	for _, e := range l.stepEntries() {
		ids = append(ids, e.StepID)
	}
	return ids
}

// TestUI19SizeEviction: the oldest steps go until the log is within its size,
// the newest never.
func TestUI19SizeEviction(t *testing.T) {
	s := newSession(t, nil, func(o *Options) { o.LogBytes, o.AdoptedRaw = 300<<10, -1 })
	for i := range 4 {
		s.outside(fmt.Sprint("f", i), strings.Repeat("x", 120<<10))
	}
	s.outside("huge", strings.Repeat("x", 900<<10))
	var ids []StepID
	for i := range 4 {
		ids = append(ids, s.step(func(a *undologtest.Applier) error { return a.Unlink(fmt.Sprint("f", i)) }).StepID)
		s.log.quiet() // no compression between
	}
	kept := keptSteps(s.log)
	if len(kept) == 0 || kept[len(kept)-1] != ids[3] || s.log.storedBytes() > 300<<10 {
		t.Errorf("kept %v, %d bytes", kept, s.log.storedBytes())
	}
	last := s.step(func(a *undologtest.Applier) error { return a.Unlink("huge") })
	if got := keptSteps(s.log); !slices.Equal(got, []StepID{last.StepID}) {
		t.Errorf("kept %v, want only the newest, %d", got, last.StepID)
	}
	s.log.quiet()
	if err := s.log.emptyTrash(context.Background()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.log.o.Dir, "trash")); len(left) != 0 {
		t.Errorf("trash holds %v", left)
	}
}

// TestAgeEviction: old steps go when the log is opened.
func TestAgeEviction(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	set := func(o *Options) { o.Now, o.Age = func() time.Time { return now }, time.Hour }
	s := newSession(t, nil, set)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	now = now.Add(50 * time.Minute)
	young := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "2") })
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(20 * time.Minute)
	l := reopenLog(t, filepath.Dir(s.work), set)
	if got := keptSteps(l); !slices.Equal(got, []StepID{young.StepID}) {
		t.Errorf("kept %v", got)
	}
}

// TestBackgroundCompression: what exceeds the raw budget is packed without
// being asked for, the oldest step first and never the newest.
func TestBackgroundCompression(t *testing.T) {
	s := newSession(t, nil, func(o *Options) { o.AdoptedRaw = 150 << 10 })
	for i := range 3 {
		s.outside(fmt.Sprint("f", i), strings.Repeat(fmt.Sprint(i), 100<<10))
	}
	want := treesnap.MustTake(t, s.work)
	for i := range 3 {
		s.step(func(a *undologtest.Applier) error { return a.Unlink(fmt.Sprint("f", i)) })
	}
	s.log.worker.wait()
	s.log.tidy() // what was committed while the worker ran
	s.log.worker.wait()
	var packed []bool
	for _, e := range s.log.stepEntries() {
		packed = append(packed, e.Compressed)
	}
	if !slices.Equal(packed, []bool{true, true, false}) {
		t.Errorf("compressed: %v", packed)
	}
	if _, err := s.log.Undo(context.Background(), UndoOptions{Count: 3}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "tree", want, treesnap.MustTake(t, s.work))
}

// TestUL07MissingPreimage: a step whose preimage is missing cannot be undone
// and says so; the newer steps can, and nothing else is changed.
func TestUL07MissingPreimage(t *testing.T) {
	for _, name := range []string{"blobs", "pack"} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := newSession(t, nil)
			s.outside("f", "content")
			bad := s.step(func(a *undologtest.Applier) error { return a.Unlink("f") })
			s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "1") })
			if name == "pack" {
				if _, err := s.log.GC(ctx, GCOptions{CompressAll: true}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(filepath.Join(s.log.o.Dir, "steps", store.FormatStepID(bad.StepID), name)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.log.Undo(ctx, UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			before := treesnap.MustTake(t, s.work)
			if _, err := s.log.Undo(ctx, UndoOptions{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("undo without the preimage: %v", err)
			}
			treesnap.Same(t, "tree", before, treesnap.MustTake(t, s.work))
		})
	}
}

// TestPackedAfterGrowth: a file that a step made longer, and so without anything
// to keep of its content, before it removed it, has its old size again.
func TestPackedAfterGrowth(t *testing.T) {
	ctx := context.Background()
	s := newSession(t, nil)
	s.outside("f", strings.Repeat("x", 1<<20)) // not captured as a whole
	before := treesnap.MustTake(t, s.work)
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.WriteAt("f", []byte("more"), 2<<20), a.Unlink("f"))
	})
	if _, err := s.log.GC(ctx, GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Undo(ctx, UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	treesnap.Same(t, "tree", before, treesnap.MustTake(t, s.work))
}

// TestUL08FlippedPack: a flipped byte in a step's pack is found before
// anything is changed.
func TestUL08FlippedPack(t *testing.T) {
	ctx := context.Background()
	s := newSession(t, nil)
	s.outside("f", strings.Repeat("content", 1000))
	bad := s.step(func(a *undologtest.Applier) error { return a.Unlink("f") })
	if _, err := s.log.GC(ctx, GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.log.o.Dir, "steps", store.FormatStepID(bad.StepID), "pack")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[20] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Undo(ctx, UndoOptions{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("undo from a damaged pack: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(s.work, "f")); err == nil && string(got) != strings.Repeat("content", 1000) {
		t.Error("wrong content was restored")
	}
	// The log goes on.
	if e := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "1") }); e == nil {
		t.Error("no step")
	}
}

// TestGCDiscard drops the history, not while a step is open.
func TestGCDiscard(t *testing.T) {
	ctx := context.Background()
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "2") })
	if _, err := s.log.Undo(ctx, UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Begin(s.log.NextID(TypeCommand), StepInfo{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.GC(ctx, GCOptions{Discard: true}); !errors.Is(err, ErrBusy) {
		t.Errorf("discard while a step is open: %v", err)
	}
	if _, err := s.log.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	res, err := s.log.GC(ctx, GCOptions{Discard: true})
	if err != nil || len(res.Evicted) != 1 || res.BytesAfter != 0 || res.BytesBefore == 0 {
		t.Errorf("discard: %+v %v", res, err)
	}
	if h, err := s.log.History(); err != nil || len(h) != 0 || s.log.Status().Redoable != 0 {
		t.Errorf("history %v %v, status %+v", h, err, s.log.Status())
	}
	if b, _ := os.ReadFile(filepath.Join(s.work, "f")); string(b) != "1" {
		t.Errorf("the folder changed: %q", b)
	}
}

// TestRemoveAllDeep: a tree deeper than the descriptors that there are, with
// symlinks out of it and directories that deny everything.
func TestRemoveAllDeep(t *testing.T) {
	l, _ := testLog(t, nil)
	l.quiet()
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	mustWrite(t, filepath.Join(outside, "precious"), "x")
	fd, err := unix.Open(filepath.Join(l.o.Dir, "trash"), unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	top := fd
	for i := range 3000 {
		if err := unix.Mkdirat(fd, "d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			if err := errors.Join(unix.Symlinkat(outside, next, "link"), unix.Fchmod(next, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		if fd != top {
			_ = unix.Close(fd)
		}
		fd = next
	}
	_, _ = unix.Close(fd), unix.Close(top)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }()
	if err := l.emptyTrash(context.Background()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(l.o.Dir, "trash")); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error("a symlink was followed:", err)
	}
}

// TestEvictionOfLinkedBlob: when the log drops its name of an inode that lives
// on in the folder, that is no edit.
func TestEvictionOfLinkedBlob(t *testing.T) {
	ctx := context.Background()
	s := newSession(t, nil)
	s.outside("a", "x")
	if err := os.Link(filepath.Join(s.work, "a"), filepath.Join(s.work, "b")); err != nil {
		t.Fatal(err)
	}
	s.step(func(a *undologtest.Applier) error { return a.Unlink("a") })
	s.step(func(a *undologtest.Applier) error { return a.WriteAt("b", []byte("y"), 0) })
	s.log.quiet()
	if _, err := s.log.evict(1); err != nil {
		t.Fatal(err)
	}
	if err := s.log.emptyTrash(ctx); err != nil {
		t.Fatal(err)
	}
	s.wantBlocked(1)
}

// TestU8LimitsCountBlocks: what a step keeps is what it occupies on the disk, to within a tenth:
// for many small files, directories, a long list of paths, what is copied, and what was undone.
func TestU8LimitsCountBlocks(t *testing.T) {
	const files = 2000
	s := newSession(t, nil)
	for i := range files {
		s.outside(fmt.Sprintf("d%d/f%d", i%100, i), "x")
	}
	s.outside("large", strings.Repeat("0123456789abcdef", 256<<10))
	check := func(when string, parent string, id StepID, stored int64) {
		t.Helper()
		out, err := exec.Command("du", "-sk", filepath.Join(s.log.o.Dir, parent, fmt.Sprint(id))).Output()
		if err != nil {
			t.Fatal(err)
		}
		var kib int64
		if _, err := fmt.Sscan(string(out), &kib); err != nil {
			t.Fatal(err)
		}
		if stored < kib<<10*9/10 || stored > kib<<10*11/10+16<<10 {
			t.Errorf("%s: %d bytes, of which the disk has %d", when, stored, kib<<10)
		}
	}
	removed := s.step(func(a *undologtest.Applier) error {
		for i := range 100 {
			if err := a.RemoveAll(fmt.Sprint("d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	check("removed", "steps", removed.StepID, removed.StoredBytes)
	if _, err := s.log.Undo(context.Background(), UndoOptions{Count: 1}); err != nil {
		t.Fatal(err)
	}
	check("removed and undone", "redo", removed.StepID, s.log.redoEntries()[0].StoredBytes)
	s.a.Forget()
	changed := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "large", "short") })
	check("replaced", "steps", changed.StepID, changed.StoredBytes)
	made := s.step(func(a *undologtest.Applier) error {
		for i := range files {
			if err := writeFileVia(a, fmt.Sprint("new", i), "x"); err != nil {
				return err
			}
		}
		return nil
	})
	check("made", "steps", made.StepID, made.StoredBytes)
	if _, err := s.log.Undo(context.Background(), UndoOptions{Count: 1}); err != nil {
		t.Fatal(err)
	}
	undone := s.log.redoEntries()[0]
	check("made and undone", "redo", undone.StepID, undone.StoredBytes)
	if got := s.log.Status().StoredBytes; got < undone.StoredBytes+changed.StoredBytes {
		t.Errorf("kept: %d bytes", got)
	}
	if _, err := s.log.Redo(context.Background(), UndoOptions{Count: 1}); err != nil {
		t.Fatal(err)
	}
	again := s.log.stepEntries()[1]
	check("done again", "steps", again.StepID, again.StoredBytes)
}

// TestU8RedoIsWithinLimits: undone steps count. The one that is next stays until somebody asks to
// tidy up; steps that can be undone never go for them.
func TestU8RedoIsWithinLimits(t *testing.T) {
	var warned []Warning
	set := func(o *Options) {
		o.LogBytes, o.AdoptedRaw = 400<<10, -1
		o.Warn = func(w Warning) { warned = append(warned, w) }
	}
	s := newSession(t, nil, set)
	first := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	var ids []StepID
	for i := range 3 {
		ids = append(ids, s.step(func(a *undologtest.Applier) error {
			return writeFileVia(a, fmt.Sprint("large", i), strings.Repeat("x", 500<<10))
		}).StepID)
	}
	if _, err := s.log.Undo(context.Background(), UndoOptions{Count: 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	l := reopenLog(t, filepath.Dir(s.work), set)
	if got := l.Undone(); !slices.Equal(got, ids[:1]) {
		t.Errorf("can be done again: %v, want %v", got, ids[:1])
	}
	if len(warned) != 1 || warned[0].Code != WarnEvicted || !slices.Equal(warned[0].Steps, []StepID{ids[2], ids[1]}) {
		t.Errorf("warnings: %+v", warned)
	}
	res, err := l.GC(context.Background(), GCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(res.Evicted, ids[:1]) || len(l.Undone()) != 0 || res.BytesAfter > 400<<10 {
		t.Errorf("%+v", res)
	}
	if got := keptSteps(l); !slices.Equal(got, []StepID{first.StepID}) {
		t.Errorf("kept: %v", got)
	}
}
