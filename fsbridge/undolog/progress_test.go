package undolog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// told collects what a long task says. Parts may be told by several goroutines, so one that
// is overtaken comes late.
type told struct {
	mu          sync.Mutex
	most, total int64
	times       int
	wrong       []string
}

func (p *told) tell(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times++
	if done < 0 || done > total || p.total != 0 && p.total != total {
		p.wrong = append(p.wrong, fmt.Sprintf("%d of %d", done, total))
	}
	p.most, p.total = max(p.most, done), total
}

func (p *told) check(t *testing.T, what string, total int64, times int) {
	t.Helper()
	if len(p.wrong) > 0 || p.total != total || p.most != total || p.times < times {
		t.Errorf("%s: %d of %d in %d calls, want %d in at least %d; wrong: %q", what, p.most, p.total, p.times, total, times, p.wrong)
	}
}

// An undo and a redo tell of their steps' paths, one by one, whatever they do with them.
func TestProgressOfUndo(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	each := func(f func(name string)) {
		for i := range 20 {
			f(fmt.Sprintf("d/f%d", i))
		}
	}
	w.step(func() {
		w.ok(w.mkdir("d"))
		each(func(name string) { w.ok(w.create(name, "old")) })
	})
	w.step(func() { each(func(name string) { w.ok(w.write(name, 0, "new")) }) })
	w.step(func() { each(func(name string) { w.ok(w.unlink(name)) }) })
	var total int64
	list, err := w.log.History()
	w.ok(err)
	for _, e := range list {
		total += int64(e.AffectedCount)
	}
	if total < 60 {
		t.Fatalf("%d paths", total)
	}
	travel := func(what string, f func(context.Context, UndoOptions) (*ApplyResult, error), o UndoOptions) {
		t.Helper()
		var p told
		o.Progress = p.tell
		w.NewEpoch()
		if _, err := f(t.Context(), o); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		w.Forget()
		p.check(t, what, total, 40) // a directory that is created goes as a whole
	}
	travel("undo", w.log.Undo, UndoOptions{Count: 3})
	travel("redo", w.log.Redo, UndoOptions{Count: 3})
	w.undo(3)
	w.ok(w.log.Mark("start"))
	w.redo(3)
	travel("undo to a mark", w.log.Undo, UndoOptions{To: "start"})
}

// A restore tells of the paths below the one that is named.
func TestProgressOfRestore(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	w.step(func() {
		w.ok(w.mkdir("d"))
		for i := range 20 {
			w.ok(w.create(fmt.Sprintf("d/f%d", i), "old"))
		}
	})
	e := w.step(func() {
		for i := range 20 {
			w.ok(w.unlink(fmt.Sprintf("d/f%d", i)))
		}
	})
	var p told
	w.NewEpoch()
	res, err := w.log.Restore(t.Context(), RestoreOptions{Path: "d", Step: e.StepID, Progress: p.tell})
	w.ok(err)
	w.Forget()
	p.check(t, "restore", int64(res.PathCount), 20)
}

// A compression tells of the bytes that it has read.
func TestProgressOfCompression(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer func() { w.close() }()
	for _, name := range []string{"a", "b"} {
		w.step(func() { w.ok(w.create(name, strings.Repeat("0123456789abcdef", 1<<17))) }) // 2 MiB
		w.step(func() { w.ok(w.unlink(name)) })
	}
	var raw int64
	list, err := w.log.History()
	w.ok(err)
	for _, e := range list {
		raw += e.StoredBytes
	}
	if raw < 4<<20 {
		t.Fatalf("the log holds %d bytes", raw)
	}
	var p told
	res, err := w.log.GC(t.Context(), GCOptions{CompressAll: true, Progress: p.tell})
	w.ok(err)
	if len(res.Compressed) != 2 || res.BytesAfter >= res.BytesBefore {
		t.Errorf("%+v", res)
	}
	p.check(t, "compression", raw, 6)
}
