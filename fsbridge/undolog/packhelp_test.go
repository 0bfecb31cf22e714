//go:build linux

package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// adopter makes closed steps as captures would have: it moves files of the
// working folder into blobs/ and journals them.
type adopter struct {
	t    testing.TB
	l    *Log
	rec  format.Step
	w    *format.Writer
	buf  format.Batch
	next format.ObjID
	ids  map[string]format.ObjID // by path
	objs map[string]format.Object
	dir  *store.StepDir
	path string
}

func newAdopter(t testing.TB, l *Log) *adopter {
	t.Helper()
	seq, err := l.ids.NextSeq()
	if err != nil {
		t.Fatal(err)
	}
	a := &adopter{t: t, l: l, next: format.RootObj, ids: map[string]format.ObjID{}, objs: map[string]format.Object{}}
	a.rec = format.Step{ID: l.NextID(TypeCommand), Seq: seq, StartedAt: l.now(), Type: TypeCommand, Command: "test"}
	a.path = filepath.Join(l.o.Dir, "steps", store.FormatStepID(a.rec.ID))
	if err := os.Mkdir(a.path, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(a.path, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.dir = store.NewStepDir(fd)
	if a.w, err = format.CreateJournal(fd, &a.rec, false); err != nil {
		t.Fatal(err)
	}
	a.object("")
	return a
}

// object journals what is at path, its ancestors first.
func (a *adopter) object(path string) format.ObjID {
	if id, ok := a.ids[path]; ok {
		return id
	}
	r := format.Object{}
	full := filepath.Join(a.l.root.Path(), path)
	if path != "" {
		dir, name := filepath.Split(path)
		r.Parent, r.Name = a.object(filepath.Clean("/" + dir)[1:]), name
	}
	fd, err := unix.Open(full, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		a.t.Fatal(path, err)
	}
	st, err := hostfs.StatFD(fd)
	_ = unix.Close(fd)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Obj, r.ID = a.next, st.ID
	r.Meta = format.Meta{Mode: st.Mode, UID: st.UID, GID: st.GID, Size: st.Size, Mtime: st.Mtime, Nlink: st.Nlink}
	if st.IsSymlink() {
		r.Meta.Target, _ = os.Readlink(full)
	}
	a.next++
	a.ids[path] = r.Obj
	a.objs[path] = r
	a.buf.Object(&r)
	return r.Obj
}

// touch journals the binding path, which may be absent.
func (a *adopter) touch(path string) {
	dir, name := filepath.Split(path)
	parent, old := a.object(filepath.Clean("/" + dir)[1:]), format.NoObj
	if _, err := os.Lstat(filepath.Join(a.l.root.Path(), path)); err == nil {
		old = a.object(path)
	}
	a.buf.Binding(parent, name, old)
}

// adopt removes path as a capture does.
func (a *adopter) adopt(path string) format.ObjID {
	a.t.Helper()
	a.touch(path)
	obj := a.ids[path]
	a.buf.Retain(obj)
	to := filepath.Join(a.path, "blobs", store.NameOfShard(store.ShardOf(obj)))
	if err := os.MkdirAll(to, 0o700); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(a.l.root.Path(), path), filepath.Join(to, store.BlobName(obj))); err != nil {
		a.t.Fatal(err)
	}
	return obj
}

// removeAll removes a tree as rm -rf does.
func (a *adopter) removeAll(path string) {
	a.t.Helper()
	entries, err := os.ReadDir(filepath.Join(a.l.root.Path(), path))
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		a.t.Fatal(err)
	}
	for _, e := range entries {
		p := filepath.Join(path, e.Name())
		if e.IsDir() {
			a.removeAll(p)
		} else {
			a.adopt(p)
		}
	}
	if path != "" {
		a.adopt(path)
	}
}

// commit closes the step.
func (a *adopter) commit() *stepEntry {
	a.t.Helper()
	if err := errors.Join(a.w.Append(&a.buf), a.w.Close()); err != nil {
		a.t.Fatal(err)
	}
	n, err := store.DiskUsage(a.dir.FD)
	if err != nil {
		a.t.Fatal(err)
	}
	e := &stepEntry{Entry: store.EntryOf(&a.rec), name: store.FormatStepID(a.rec.ID)}
	e.StoredBytes, e.EndedAt = n, a.l.now()
	if err := errors.Join(store.WriteSummary(a.dir.FD, e.Entry), store.WritePaths(a.dir.FD, nil), a.dir.Close()); err != nil {
		a.t.Fatal(err)
	}
	a.l.known.change(func(k *lists) { *k = lists{steps: append(k.steps, e)} })
	if err := a.l.committed(e, nil); err != nil {
		a.t.Fatal(err)
	}
	return e
}
