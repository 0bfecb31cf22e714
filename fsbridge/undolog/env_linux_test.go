package undolog_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// env is a working folder with its log.
type env struct {
	t    testing.TB
	work string
	undo string
	opts undolog.Options
	root *hostfs.Root
	log  *undolog.Log
	a    *undologtest.Applier

	mu       sync.Mutex
	warnings []undolog.Warning
}

// newEnv makes a folder, lets fill put things there, and opens a log.
func newEnv(t testing.TB, fill func(work string), change ...func(*undolog.Options)) *env {
	t.Helper()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if fill != nil {
		fill(work)
	}
	return openEnv(t, work, filepath.Join(base, "undo"), change...)
}

// openEnv is newEnv of a folder that is there.
func openEnv(t testing.TB, work, undo string, change ...func(*undolog.Options)) *env {
	t.Helper()
	e := &env{t: t, work: work, undo: undo}
	root, err := hostfs.OpenRoot(e.work)
	e.must(err)
	e.root = root
	e.opts = undolog.Options{Dir: e.undo, Root: root, Warn: func(w undolog.Warning) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.warnings = append(e.warnings, w)
	}}
	for _, c := range change {
		c(&e.opts)
	}
	e.open()
	t.Cleanup(func() {
		if e.log != nil {
			_ = e.log.Close()
		}
		_ = root.Close()
	})
	return e
}

func (e *env) open() {
	e.t.Helper()
	log, err := undolog.Open(context.Background(), e.opts)
	e.must(err)
	e.log = log
	e.a = undologtest.New(e.root, log)
}

// crash drops the log as a kill would, and opens it again.
func (e *env) crash() {
	e.t.Helper()
	e.must(e.log.Close())
	e.open()
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// do runs operations in a step and closes it.
func (e *env) do(f func(a *undologtest.Applier) error) *undolog.Entry {
	e.t.Helper()
	e.begin()
	e.must(f(e.a))
	return e.commit()
}

func (e *env) begin() undolog.StepID {
	e.t.Helper()
	id := e.log.NextID(undolog.TypeCommand)
	e.must(e.log.Begin(id, undolog.StepInfo{Type: undolog.TypeCommand, Command: "test"}))
	e.a.NewEpoch()
	return id
}

func (e *env) commit() *undolog.Entry {
	e.t.Helper()
	e.a.NewEpoch()
	entry, err := e.log.Commit(context.Background(), undolog.StepResult{Status: "completed"})
	e.must(err)
	return entry
}

func (e *env) undoN(n int) *undolog.ApplyResult {
	e.t.Helper()
	r, err := e.log.Undo(context.Background(), undolog.UndoOptions{Count: n})
	e.must(err)
	e.a.NewEpoch()
	e.a.Forget()
	return r
}

func (e *env) redoN(n int) {
	e.t.Helper()
	_, err := e.log.Redo(context.Background(), undolog.UndoOptions{Count: n})
	e.must(err)
	e.a.NewEpoch()
	e.a.Forget()
}

func (e *env) snap() *treesnap.Snapshot {
	e.t.Helper()
	return treesnap.MustTake(e.t, e.work)
}

func (e *env) equal(want *treesnap.Snapshot) {
	e.t.Helper()
	treesnap.AssertEqual(e.t, want, e.snap())
}

// equalButLinks is equal save for the link counts of files that lost one of
// several names: the log holds on to the inode by a link of its own.
func (e *env) equalButLinks(want *treesnap.Snapshot) {
	e.t.Helper()
	got := e.snap()
	for _, s := range []*treesnap.Snapshot{want, got} {
		for path, entry := range s.Entries {
			entry.Links = 0
			s.Entries[path] = entry
		}
	}
	treesnap.AssertEqual(e.t, want, got)
}

func (e *env) history() []undolog.Entry {
	e.t.Helper()
	h, err := e.log.History()
	e.must(err)
	return h
}

func (e *env) warned(code undolog.WarningCode) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// write makes a file, and the directories above it, with content.
func write(t testing.TB, work, path, content string) {
	t.Helper()
	p := filepath.Join(work, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// small fills the folder with a few of everything.
func small(t testing.TB) func(work string) {
	return func(work string) {
		write(t, work, "a.txt", "alpha\n")
		write(t, work, "b.txt", "beta\n")
		write(t, work, "dir/f", "in dir\n")
		write(t, work, "dir/sub/deep/g", strings.Repeat("deep ", 1000))
		write(t, work, "dir/sub/h", "")
		write(t, work, "big", strings.Repeat("0123456789abcdef", 64<<10)) // 1 MiB
		for _, err := range []error{
			os.Mkdir(filepath.Join(work, "empty"), 0o750),
			os.Symlink("a.txt", filepath.Join(work, "link")),
			os.Symlink("/nowhere/at all", filepath.Join(work, "dir/dangling")),
			os.Link(filepath.Join(work, "a.txt"), filepath.Join(work, "dir/hard")),
			os.Chmod(filepath.Join(work, "b.txt"), 0o640),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
