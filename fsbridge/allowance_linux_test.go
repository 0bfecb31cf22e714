package fsbridge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// allower lets everything pass.
type allower struct{ begun, ended int }

func (l *allower) Begin(*fsbridge.Op) (fsbridge.Ticket, error) {
	l.begun++
	return fsbridge.Ticket{}, nil
}
func (l *allower) End(fsbridge.Ticket, *fsbridge.Op, *fsbridge.Object, error) { l.ended++ }
func (*allower) Held(hostfs.ID) int                                           { return 0 }

// folder is a folder with an allowance.
type folder struct {
	t        *testing.T
	dir, log string
	next     allower
	a        *fsbridge.Allowance
	fsbridge.Interceptor

	mu      sync.Mutex // what follows
	reached int
}

func newFolder(t *testing.T, limit int64) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir(), log: t.TempDir()}
	f.write("before", 40<<10) // does not count
	root, err := hostfs.OpenRoot(f.dir)
	check(t, err)
	f.a = fsbridge.NewAllowance(fsbridge.AllowanceOptions{
		Limit: limit, Clock: supervision.RealClock{},
		Reached: func() { f.mu.Lock(); defer f.mu.Unlock(); f.reached++ },
	})
	f.Interceptor = f.a.Add(root, f.dir, f.log).Guard(&f.next)
	t.Cleanup(func() { f.a.Close(); check(t, root.Close()) })
	check(t, f.do(fsbridge.Op{Kind: fsbridge.OpWrite}, func() {})) // the first count is done then
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *folder) write(name string, size int) {
	f.t.Helper()
	check(f.t, os.WriteFile(filepath.Join(f.dir, name), make([]byte, size), 0o600))
}

// do performs an operation if the allowance lets it pass.
func (f *folder) do(op fsbridge.Op, perform func()) error {
	f.t.Helper()
	ticket, err := f.Begin(&op)
	if err != nil {
		if !errors.Is(err, syscall.EDQUOT) || fsbridge.Errno(err) != syscall.EDQUOT {
			f.t.Fatalf("refused with %v, want EDQUOT", err)
		}
		return err
	}
	perform()
	f.End(ticket, &op, nil, nil)
	return nil
}

// TestAllowance fills a folder file by file: what does not fit is refused before it is done, also when
// many write at once, and what was removed or overwritten makes room.
func TestAllowance(t *testing.T) {
	f := newFolder(t, 1<<20)
	file := func(i int) error {
		return f.do(fsbridge.Op{Kind: fsbridge.OpWrite, Len: 64 << 10}, func() { f.write(fmt.Sprint(i), 64<<10) })
	}
	for i := range 16 {
		if err := file(i); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
	}
	for range 100 { // in place: nothing more is taken
		check(t, f.do(fsbridge.Op{Kind: fsbridge.OpTruncate}, func() {}))
	}
	if err := file(16); err == nil {
		t.Error("a file more than fits was written")
	}
	if limit, used := f.a.Limit(); limit != 1<<20 || used != 1<<20 {
		t.Errorf("used %d of %d", used, limit)
	}
	if f.a.Reached() != 1 || f.reached != 1 {
		t.Errorf("reached %d times, told %d times", f.a.Reached(), f.reached)
	}
	check(t, f.do(fsbridge.Op{Kind: fsbridge.OpUnlink}, func() { check(t, os.Remove(filepath.Join(f.dir, "3"))) }))
	check(t, file(3))
	if f.next.begun != f.next.ended {
		t.Errorf("%d operations begun, %d ended", f.next.begun, f.next.ended)
	}
}

// TestOverwritten: a file that is overwritten for ever takes no more than once.
func TestOverwritten(t *testing.T) {
	f := newFolder(t, 256<<10)
	for range 64 {
		check(t, f.do(fsbridge.Op{Kind: fsbridge.OpWrite, Len: 64 << 10}, func() { f.write("same", 64<<10) }))
	}
	if n := f.a.Reached(); n != 0 {
		t.Errorf("refused %d times", n)
	}
}

// TestNames: names without content count, too.
func TestNames(t *testing.T) {
	f := newFolder(t, 64<<10)
	n := 0
	for ; n < 100; n++ {
		if f.do(fsbridge.Op{Kind: fsbridge.OpCreate}, func() { f.write(fmt.Sprint("n", n), 0) }) != nil {
			break
		}
	}
	if n != 16 {
		t.Errorf("%d files were made, want 16", n)
	}
}

// TestNameless: what was unlinked and is still open counts.
func TestNameless(t *testing.T) {
	f := newFolder(t, 256<<10)
	path := filepath.Join(f.dir, "gone")
	check(t, f.do(fsbridge.Op{Kind: fsbridge.OpWrite, Len: 192 << 10}, func() { f.write("gone", 192<<10) }))
	held, err := os.Open(path)
	check(t, err)
	check(t, f.do(fsbridge.Op{Kind: fsbridge.OpUnlink}, func() { check(t, os.Remove(path)) }))
	write := fsbridge.Op{Kind: fsbridge.OpWrite, Len: 128 << 10}
	if err := f.do(write, func() {}); err == nil {
		t.Error("what a file without a name takes was not counted")
	}
	check(t, held.Close())
	actortest.Eventually(t, "there is room again", func() bool { return f.do(write, func() {}) == nil })
}

// TestKept: what the log keeps, because it was removed, and is written to all the same, counts.
func TestKept(t *testing.T) {
	f := newFolder(t, 256<<10)
	check(t, os.MkdirAll(filepath.Join(f.log, "steps/1/blobs/0"), 0o700))
	check(t, f.do(fsbridge.Op{Kind: fsbridge.OpWrite, Len: 192 << 10}, func() { f.write("kept", 192<<10) }))
	held, err := os.Open(filepath.Join(f.dir, "kept"))
	check(t, err)
	defer held.Close()
	check(t, f.do(fsbridge.Op{Kind: fsbridge.OpUnlink}, func() {
		check(t, os.Rename(filepath.Join(f.dir, "kept"), filepath.Join(f.log, "steps/1/blobs/0/3")))
	}))
	if f.do(fsbridge.Op{Kind: fsbridge.OpWrite, Len: 128 << 10}, func() {}) == nil {
		t.Error("what the log keeps of an open file was not counted")
	}
}

// frozen is a clock that stands still.
type frozen struct{ supervision.RealClock }

func (frozen) AfterFunc(time.Duration, func()) (stop func() bool) { return func() bool { return true } }

// TestCloseEndsWaits: who waits for a count is refused when the session ends.
func TestCloseEndsWaits(t *testing.T) {
	dir := t.TempDir()
	root, err := hostfs.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	a := fsbridge.NewAllowance(fsbridge.AllowanceOptions{Limit: 4096, Clock: frozen{}})
	g := a.Add(root, dir, "").Guard(&allower{})
	op := fsbridge.Op{Kind: fsbridge.OpWrite, Len: 4096}
	for range 2 {
		ticket, err := g.Begin(&op)
		check(t, err)
		g.End(ticket, &op, nil, nil)
	}
	refused := make(chan error)
	go func() {
		for {
			ticket, err := g.Begin(&op)
			if err != nil {
				refused <- err
				return
			}
			g.End(ticket, &op, nil, nil)
		}
	}()
	a.Close()
	if err := <-refused; !errors.Is(err, fsbridge.ErrAllowance) {
		t.Error(err)
	}
}

// TestNone: without a limit nothing is asked.
func TestNone(t *testing.T) {
	a := fsbridge.NewAllowance(fsbridge.AllowanceOptions{})
	next := &allower{}
	if a != nil || a.Add(nil, "", "").Guard(next) != fsbridge.Interceptor(next) {
		t.Error("there is an allowance without a limit")
	}
	a.Close()
	if limit, used := a.Limit(); limit != 0 || used != 0 || a.Reached() != 0 {
		t.Error("figures without a limit")
	}
}
