package undolog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// world is a folder with its log, and a bridge over it that describes no inode in
// advance: the log has to look itself.
type world struct {
	*undologtest.Applier
	t     undologtest.T
	base  string
	root  *hostfs.Root
	log   *Log
	opts  Options
	ahead uint64 // added to the epoch
	held  []*undologtest.Handle
	armed bool // files may have setuid or setgid, and then nobody holds one: see [world.hold]
	small bool // what random operations write is small
	tells bool // the system tells who can write to a file: without that, an undo gives no setuid back
}

// worldLog is the log that the world has at the moment.
type worldLog struct{ w *world }

func (l worldLog) Protected(epoch uint64, op *fsbridge.Op) bool {
	return l.w.log.Protected(epoch+l.w.ahead, op)
}
func (l worldLog) Capture(epoch uint64, op *fsbridge.Op) (bool, error) {
	return l.w.log.Capture(epoch+l.w.ahead, op)
}
func (l worldLog) Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, err error) {
	l.w.log.Done(epoch+l.w.ahead, op, created, err)
}

func removeForTest(dir string) {
	r, err := hostfs.OpenRoot(dir)
	if err == nil {
		entries, _ := hostfs.ReadDir(r.FD())
		for _, e := range entries {
			_ = hostfs.RemoveAll(context.Background(), r.FD(), e.Name, nil)
		}
		_ = r.Close()
	}
	_ = os.RemoveAll(dir)
}

// newWorld makes base/work and base/undo as far as they are missing.
func newWorld(t undologtest.T, base string, o Options) *world {
	t.Helper()
	for _, d := range []string{"work", "undo"} {
		if err := os.MkdirAll(base+"/"+d, 0o755); err != nil {
			t.Fatalf("%v", err)
		}
	}
	root, err := hostfs.OpenRoot(base + "/work")
	if err != nil {
		t.Fatalf("%v", err)
	}
	o.Root = root
	if o.Dir == "" {
		o.Dir = base + "/undo"
	}
	w := &world{t: t, base: base, root: root, opts: o, tells: undologtest.TellsWriters(t, base)}
	w.openLog()
	w.Applier = undologtest.New(root, worldLog{w})
	w.Prepare = func(op *fsbridge.Op) { op.NodeStat, op.VictimStat = hostfs.Stat{}, hostfs.Stat{} }
	return w
}

func (w *world) openLog() {
	w.t.Helper()
	l, err := Open(context.Background(), w.opts)
	if err != nil {
		w.t.Fatalf("open log: %v", err)
	}
	w.log = l
}

func (w *world) close() {
	for _, h := range w.held {
		_ = h.Close()
	}
	_ = w.log.Close()
	_ = w.root.Close()
}

var errNoSuch = errors.New("no such path in the test")

// object is what is at path, or nil.
func (w *world) object(path string) *fsbridge.Object {
	o, err := w.Object(path)
	if err != nil {
		return nil
	}
	return o
}

func (w *world) regular(path string) *fsbridge.Object {
	if o := w.object(path); o != nil && o.Type == posix.S_IFREG {
		return o
	}
	return nil
}

func (w *world) create(path string, content string) error {
	if err := w.Create(path, 0o644); err != nil || content == "" {
		return err
	}
	return w.write(path, 0, content)
}

func (w *world) mkdir(path string) error           { return w.Mkdir(path, 0o755) }
func (w *world) fifo(path string) error            { return w.Mkfifo(path, 0o600) }
func (w *world) symlink(target, path string) error { return w.Symlink(target, path) }
func (w *world) unlink(path string) error          { return w.Unlink(path) }
func (w *world) rmdir(path string) error           { return w.Rmdir(path) }

func (w *world) write(path string, off int64, data string) error {
	if w.regular(path) == nil {
		return errNoSuch
	}
	return w.WriteAt(path, []byte(data), off)
}

func (w *world) truncate(path string, size int64) error {
	if w.regular(path) == nil {
		return errNoSuch
	}
	return w.Truncate(path, size)
}

func (w *world) fallocate(path string, flags uint32, off, n int64) error {
	if w.regular(path) == nil {
		return errNoSuch
	}
	h, err := w.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(h.Fallocate(flags, off, n), h.Close())
}

func (w *world) chmod(path string, mode uint32) error {
	o := w.object(path)
	if o == nil || o.Type == posix.S_IFLNK {
		return errNoSuch
	}
	if o.Type == posix.S_IFREG && mode&(posix.S_ISUID|posix.S_ISGID) != 0 {
		if len(w.held) > 0 || !w.tells {
			mode &^= posix.S_ISUID | posix.S_ISGID
		} else {
			w.armed = true
		}
	}
	return w.Chmod(path, mode)
}

func (w *world) utimes(path string, mtime int64) error { return w.Utimes(path, mtime) }

// setxattr sets an attribute, or removes it if value is empty.
func (w *world) setxattr(path, name, value string) error {
	o := w.object(path)
	switch {
	case o == nil || o.Type != posix.S_IFREG && o.Type != posix.S_IFDIR:
		return errNoSuch
	case value == "":
		return w.RemoveXattr(path, name)
	}
	return w.SetXattr(path, name, []byte(value))
}

// link and rename refuse what the kernel refuses before it asks the server.
func (w *world) link(from, to string) error {
	if o := w.object(from); o == nil || o.Type == posix.S_IFDIR || w.object(to) != nil {
		return errNoSuch
	}
	return w.Link(from, to)
}

func (w *world) rename(from, to string, flags uint32) error {
	o, victim := w.object(from), w.object(to)
	switch {
	case o == nil, o == victim, flags == posix.RENAME_EXCHANGE && victim == nil, flags == posix.RENAME_NOREPLACE && victim != nil:
		return errNoSuch
	case strings.HasPrefix(to+"/", from+"/"), strings.HasPrefix(from+"/", to+"/"):
		return errNoSuch
	case undologtest.Plain && flags == posix.RENAME_EXCHANGE: // as programs do it there
		return errors.Join(w.rename(from, from+"~", 0), w.rename(to, from, 0), w.rename(from+"~", to, 0))
	case flags == 0 && victim != nil && (o.Type == posix.S_IFDIR) != (victim.Type == posix.S_IFDIR):
		return errNoSuch
	}
	return w.Rename(from, to, flags)
}

// tmpfile makes an unnamed file in dir, writes to it and links it.
func (w *world) tmpfile(dir, to, data string) error {
	if dir == "" {
		dir = "."
	}
	if w.object(to) != nil {
		return errNoSuch
	}
	h, err := w.Tmpfile(dir, 0o600)
	if err != nil {
		return err
	}
	if err = h.WriteAt([]byte(data), 0); err == nil {
		err = h.Link(to)
	}
	return errors.Join(err, h.Close())
}

// hold opens a file and keeps it open; poke writes through such a handle. An undo leaves the mode of a program that is to be setuid again and that somebody holds, so nobody
// does: a test of its own looks at that.
func (w *world) hold(path string) error {
	if w.regular(path) == nil || w.armed {
		return errNoSuch
	}
	h, err := w.Open(path)
	if err == nil {
		w.held = append(w.held, h)
	}
	return err
}

func (w *world) poke(i int, off int64, data string) error {
	if len(w.held) == 0 {
		return errNoSuch
	}
	return w.held[i%len(w.held)].WriteAt([]byte(data), off)
}

func (w *world) begin(id StepID) {
	w.t.Helper()
	w.NewEpoch()
	if err := w.log.Begin(id, StepInfo{Type: TypeCommand, Command: fmt.Sprint("step ", id)}); err != nil {
		w.t.Fatalf("begin: %v", err)
	}
}

func (w *world) commit() *Entry {
	w.t.Helper()
	w.NewEpoch()
	e, err := w.log.Commit(context.Background(), StepResult{Status: "completed"})
	if err != nil {
		w.t.Fatalf("commit: %v", err)
	}
	return e
}

// step runs f in a step of its own.
func (w *world) step(f func()) *Entry {
	w.t.Helper()
	w.begin(w.log.NextID(TypeCommand))
	f()
	return w.commit()
}

func (w *world) undo(n int) {
	w.t.Helper()
	w.NewEpoch()
	if _, err := w.log.Undo(context.Background(), UndoOptions{Count: n}); err != nil {
		w.t.Fatalf("undo: %v", err)
	}
	w.Forget()
}

func (w *world) redo(n int) {
	w.t.Helper()
	w.NewEpoch()
	if _, err := w.log.Redo(context.Background(), UndoOptions{Count: n}); err != nil {
		w.t.Fatalf("redo: %v", err)
	}
	w.Forget()
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// snapshot describes the whole tree, one line for each path.
func (w *world) snapshot() *treesnap.Snapshot {
	w.t.Helper()
	w.checkHeld()
	return treesnap.MustTake(w.t, w.base+"/work")
}

// past waits until the file system's clock is later than last: what is changed from then on was surely changed later.
func (w *world) past(last time.Time) {
	w.t.Helper()
	probe := w.base + "/probe"
	for end := time.Now().Add(20 * time.Second); ; {
		w.ok(os.WriteFile(probe, []byte("x"), 0o600))
		now, err := os.Stat(probe)
		w.ok(err)
		if now.ModTime().After(last) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("the clock stands still: %v", last)
		}
	}
}

// outside writes a file as somebody outside does.
func (w *world) outside(path, data string) {
	w.t.Helper()
	w.ok(os.WriteFile(filepath.Join(w.base, "work", path), []byte(data), 0o644))
}

// needs ends the test where the file system has none of what the test is about, as Windows': it is kept beside the log there (package posixmeta), of which the
// log knows nothing.
func needs(t testing.TB, what string) {
	t.Helper()
	if undologtest.Plain {
		t.Skip("Windows' file systems have no " + what)
	}
}

// checkHeld makes sure that the log knows how many names it has of each file,
// and asks for that so that it is counted from here on.
func (w *world) checkHeld() {
	w.t.Helper()
	_ = w.log.Held(w.root.ID())
	counted, now := w.log.held.Audit()
	if counted == nil {
		return // it is on another file system
	}
	for id, n := range now {
		if counted[id] != n {
			w.t.Fatalf("the log has %d names of inode %d, and counted %d", n, id.Ino, counted[id])
		}
	}
	_ = filepath.WalkDir(w.base+"/work", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		dir, err := posix.Open(filepath.Dir(p), posix.O_PATH|posix.O_DIRECTORY, 0)
		if err != nil {
			return nil
		}
		defer hostfs.Close(dir)
		if st, err := hostfs.StatAt(dir, d.Name()); err == nil && counted[st.ID] != now[st.ID] {
			id := st.ID
			w.t.Fatalf("the log has %d names of %s, and counted %d", now[id], p, counted[id])
		}
		return nil
	})
}

// wait waits for the end of what the worker does.
func (w *worker) wait() {
	w.mu.Lock()
	done := w.done
	w.mu.Unlock()
	if done != nil {
		<-done
	}
}
