package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// session is a working folder with its log, and a bridge that a test plays. A world does operations by path, and at random; a session what a test says, one step after the other.
type session struct {
	t    testing.TB
	work string
	undo string
	opts Options
	root *hostfs.Root
	log  *Log
	a    *undologtest.Applier

	mu       sync.Mutex
	warnings []Warning
}

// newSession makes a folder, lets fill put things there, and opens a log.
func newSession(t testing.TB, fill func(work string), change ...func(*Options)) *session {
	t.Helper()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if fill != nil {
		fill(work)
	}
	return openSession(t, work, filepath.Join(base, "undo"), change...)
}

// openSession is newSession of a folder that is there.
func openSession(t testing.TB, work, undo string, change ...func(*Options)) *session {
	t.Helper()
	e := &session{t: t, work: work, undo: undo}
	root, err := hostfs.OpenRoot(e.work)
	e.must(err)
	e.root = root
	e.opts = Options{Dir: e.undo, Root: root, Warn: func(w Warning) {
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

func (e *session) open() {
	e.t.Helper()
	log, err := Open(context.Background(), e.opts)
	e.must(err)
	e.log = log
	e.a = undologtest.New(e.root, log)
}

// crash drops the log as a kill would, and opens it again.
func (e *session) crash() {
	e.t.Helper()
	e.must(e.log.Close())
	e.open()
}

func (e *session) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// step runs f as one step and returns its entry, nil if it changed nothing.
func (e *session) step(f func(a *undologtest.Applier) error) *Entry {
	e.t.Helper()
	e.begin()
	e.must(f(e.a))
	return e.commit()
}

func (e *session) begin() StepID {
	e.t.Helper()
	id := e.log.NextID(TypeCommand)
	e.must(e.log.Begin(id, StepInfo{Type: TypeCommand, Command: "test"}))
	e.a.NewEpoch()
	return id
}

func (e *session) commit() *Entry {
	e.t.Helper()
	e.a.NewEpoch()
	entry, err := e.log.Commit(context.Background(), StepResult{Status: "completed"})
	e.must(err)
	return entry
}

func (e *session) undoN(n int) *ApplyResult {
	e.t.Helper()
	r, err := e.log.Undo(context.Background(), UndoOptions{Count: n})
	e.must(err)
	e.a.NewEpoch()
	e.a.Forget()
	return r
}

func (e *session) redoN(n int) {
	e.t.Helper()
	_, err := e.log.Redo(context.Background(), UndoOptions{Count: n})
	e.must(err)
	e.a.NewEpoch()
	e.a.Forget()
}

func (e *session) snap() *treesnap.Snapshot {
	e.t.Helper()
	return treesnap.MustTake(e.t, e.work)
}

func (e *session) equal(want *treesnap.Snapshot) {
	e.t.Helper()
	treesnap.AssertEqual(e.t, want, e.snap())
}

// equalButLinks is equal save for the link counts of files that lost one of
// several names: the log holds on to the inode by a link of its own.
func (e *session) equalButLinks(want *treesnap.Snapshot) {
	e.t.Helper()
	treesnap.AssertEqual(e.t, want, e.snap(), treesnap.Options{IgnoreLinks: true})
}

func (e *session) history() []Entry {
	e.t.Helper()
	h, err := e.log.History()
	e.must(err)
	return h
}

func (e *session) warned(code WarningCode) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// small fills the folder with a few of everything.
func small(t testing.TB) func(work string) {
	return func(work string) {
		mustWrite(t, filepath.Join(work, "a.txt"), "alpha\n")
		mustWrite(t, filepath.Join(work, "b.txt"), "beta\n")
		mustWrite(t, filepath.Join(work, "dir/f"), "in dir\n")
		mustWrite(t, filepath.Join(work, "dir/sub/deep/g"), strings.Repeat("deep ", 1000))
		mustWrite(t, filepath.Join(work, "dir/sub/h"), "")
		mustWrite(t, filepath.Join(work, "big"), strings.Repeat("0123456789abcdef", 64<<10)) // 1 MiB
		for _, err := range []error{
			os.Mkdir(filepath.Join(work, "empty"), 0o750),
			symlink("a.txt", filepath.Join(work, "link")),
			symlink("/nowhere/at all", filepath.Join(work, "dir/dangling")),
			os.Link(filepath.Join(work, "a.txt"), filepath.Join(work, "dir/hard")),
			os.Chmod(filepath.Join(work, "b.txt"), 0o640),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// symlink makes a symlink from outside, or what [undologtest.Applier.Symlink] makes.
func symlink(target, path string) error {
	if undologtest.Plain {
		return os.WriteFile(path, []byte(target), 0o644)
	}
	return os.Symlink(target, path)
}

// outside makes or overwrites a file from outside.
func (e *session) outside(path, content string) {
	e.t.Helper()
	mustWrite(e.t, filepath.Join(e.work, path), content)
}

// blocked returns the paths of the barriers that undoing the n newest steps
// would cross.
func (e *session) blocked(n int) (paths []string) {
	e.t.Helper()
	steps := e.log.stepEntries()
	bars, err := e.log.crossing(context.Background(), steps[max(len(steps)-n, 0):], taskUndo, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, b := range bars {
		paths = append(paths, b.Paths...)
	}
	return paths
}

func (e *session) wantBlocked(n int, want ...string) {
	e.t.Helper()
	if got := e.blocked(n); !slices.Equal(got, want) {
		e.t.Errorf("barriers before undoing %d: %q, want %q", n, got, want)
	}
}

func writeFileVia(a *undologtest.Applier, path, content string) error {
	if err := a.Create(path, 0o644); err != nil && !errors.Is(err, posix.EEXIST) {
		return err
	}
	return a.WriteAt(path, []byte(content), 0)
}

// testLog opens a log over a new working folder.
func testLog(t testing.TB, change func(*Options)) (l *Log, work string) {
	t.Helper()
	base := t.TempDir()
	work = filepath.Join(base, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	return reopenLog(t, base, change), work
}

// reopenLog opens the log of a folder made by testLog.
func reopenLog(t testing.TB, base string, change func(*Options)) *Log {
	t.Helper()
	root, err := hostfs.OpenRoot(filepath.Join(base, "work"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: filepath.Join(base, "undo"), Root: root}
	if change != nil {
		change(&o)
	}
	l, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(); _ = root.Close() })
	return l
}

func mustWrite(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// applier is the bridge of most tests.
type applier = undologtest.Applier

// run calls functions until one fails.
func run(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
