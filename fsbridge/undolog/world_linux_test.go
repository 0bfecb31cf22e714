package undolog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// testT is what testing.T and rapid.T have in common.
type testT interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// world is a small bridge over a real directory: it asks the log before each
// operation and performs it on the host, as the servers do.
type world struct {
	t     testT
	base  string
	root  *hostfs.Root
	log   *Log
	opts  Options
	epoch uint64
	objs  map[hostfs.ID]*fsbridge.Object
	top   *fsbridge.Object
	open  []*handle
}

// spot is the Place of a world's object. It keeps an O_PATH descriptor.
type spot struct {
	fd      int
	id      hostfs.ID
	parent  *fsbridge.Object
	name    string
	bound   bool
	handles int
}

func (s *spot) Binding() (*fsbridge.Object, string, bool) {
	return s.parent, s.name, s.bound && s.parent != nil
}
func (s *spot) Open(flags int) (int, error) {
	if flags&unix.O_PATH != 0 {
		return unix.Dup(s.fd)
	}
	return hostfs.ReopenFD(s.fd, flags)
}
func (s *spot) Writers() int { return s.handles }
func (s *spot) Handles() int { return s.handles }

type handle struct {
	fd  int
	obj *fsbridge.Object
}

// testDir is a directory on the fastest file system there is that can do what
// the tests need.
func testDir(tb testing.TB) string {
	if dir, err := os.MkdirTemp("/dev/shm", "undolog"); err == nil {
		if unix.Setxattr(dir, "user.probe", []byte("x"), 0) == nil {
			_ = unix.Removexattr(dir, "user.probe")
			tb.Cleanup(func() { removeForTest(dir) })
			return dir
		}
		_ = os.RemoveAll(dir)
	}
	return tb.TempDir()
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
func newWorld(t testT, base string, o Options) *world {
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
	w := &world{t: t, base: base, root: root, opts: o}
	w.openLog()
	w.forget()
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
	for _, h := range w.open {
		_ = hostfs.Close(h.fd)
	}
	w.open = nil
	w.forget()
	_ = w.log.Close()
	_ = hostfs.Close(w.top.Place.(*spot).fd)
	_ = w.root.Close()
}

// forget drops what the world knows of the tree, save open handles.
func (w *world) forget() {
	old := w.objs
	w.objs = map[hostfs.ID]*fsbridge.Object{}
	held := map[*fsbridge.Object]bool{}
	for _, h := range w.open {
		held[h.obj] = true
	}
	for id, o := range old {
		s := o.Place.(*spot)
		if held[o] {
			s.bound = s.bound && w.still(s)
			w.objs[id] = o
		} else if o != w.top {
			_ = hostfs.Close(s.fd)
		}
	}
	if w.top == nil {
		fd, err := unix.Dup(w.root.FD())
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		w.top = &fsbridge.Object{ID: w.root.ID(), Type: unix.S_IFDIR, Place: &spot{fd: fd, id: w.root.ID()}}
	}
	w.objs[w.top.ID] = w.top
}

// still tells whether a held object can be found under its old name.
func (w *world) still(s *spot) bool {
	if s.parent != w.top {
		return false
	}
	st, err := hostfs.StatAt(w.root.FD(), s.name)
	return err == nil && st.ID == s.id
}

// look finds the object at name in dir, or nil.
func (w *world) look(dir *fsbridge.Object, name string) *fsbridge.Object {
	dfd := dir.Place.(*spot).fd
	fd, err := hostfs.OpenAt(dfd, name, unix.O_PATH, 0)
	if err != nil {
		return nil
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if o := w.objs[st.ID]; o != nil {
		_ = hostfs.Close(fd)
		s := o.Place.(*spot)
		s.parent, s.name, s.bound = dir, name, true
		return o
	}
	o := &fsbridge.Object{ID: st.ID, Type: st.Type(), Place: &spot{fd: fd, id: st.ID, parent: dir, name: name, bound: true}}
	w.objs[st.ID] = o
	return o
}

// at resolves a path; the last component need not exist.
func (w *world) at(path string) (dir *fsbridge.Object, name string, o *fsbridge.Object) {
	parts := strings.Split(path, "/")
	dir = w.top
	for _, p := range parts[:len(parts)-1] {
		dir = w.look(dir, p)
		if dir == nil || dir.Type != unix.S_IFDIR {
			return nil, "", nil
		}
	}
	name = parts[len(parts)-1]
	return dir, name, w.look(dir, name)
}

var errNoSuch = errors.New("no such path in the test")

// do asks the log, performs and reports.
func (w *world) do(op *fsbridge.Op, perform func() (*fsbridge.Object, error)) error {
	if op.Dir != nil {
		op.DirFD = op.Dir.Place.(*spot).fd
	}
	if op.NewDir != nil {
		op.NewDirFD = op.NewDir.Place.(*spot).fd
	}
	performed := false
	if !w.log.Protected(w.epoch, op) {
		var err error
		if performed, err = w.log.Capture(w.epoch, op); err != nil {
			return err
		}
	}
	var created *fsbridge.Object
	var err error
	if !performed {
		created, err = perform()
	}
	w.log.Done(w.epoch, op, created, err)
	return err
}

func (w *world) make(kind fsbridge.Kind, path string, f func(dfd int, name string) error) error {
	dir, name, o := w.at(path)
	if dir == nil || o != nil {
		return errNoSuch
	}
	return w.do(&fsbridge.Op{Kind: kind, Dir: dir, Name: name}, func() (*fsbridge.Object, error) {
		if err := f(dir.Place.(*spot).fd, name); err != nil {
			return nil, err
		}
		return w.look(dir, name), nil
	})
}

func (w *world) create(path string, content string) error {
	err := w.make(fsbridge.OpCreate, path, func(dfd int, name string) error {
		fd, err := hostfs.OpenAt(dfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
		if err == nil {
			err = hostfs.Close(fd)
		}
		return err
	})
	if err != nil || content == "" {
		return err
	}
	return w.write(path, 0, content)
}

func (w *world) mkdir(path string) error {
	return w.make(fsbridge.OpMkdir, path, func(dfd int, name string) error { return hostfs.MkdirAt(dfd, name, 0o755) })
}

func (w *world) fifo(path string) error {
	return w.make(fsbridge.OpMknod, path, func(dfd int, name string) error {
		return hostfs.MknodAt(dfd, name, unix.S_IFIFO|0o600)
	})
}

func (w *world) symlink(target, path string) error {
	return w.make(fsbridge.OpSymlink, path, func(dfd int, name string) error { return hostfs.SymlinkAt(target, dfd, name) })
}

// file performs op on the inode o with a descriptor.
func (w *world) file(o *fsbridge.Object, op fsbridge.Op, flags int, f func(fd int) error) error {
	op.Node = o
	return w.do(&op, func() (*fsbridge.Object, error) {
		fd, err := o.Place.Open(flags)
		if err != nil {
			return nil, err
		}
		defer hostfs.Close(fd)
		return nil, f(fd)
	})
}

func (w *world) regular(path string) *fsbridge.Object {
	_, _, o := w.at(path)
	if o == nil || o.Type != unix.S_IFREG {
		return nil
	}
	return o
}

func (w *world) write(path string, off int64, data string) error {
	o := w.regular(path)
	if o == nil {
		return errNoSuch
	}
	return w.writeObj(o, off, data)
}

func (w *world) writeObj(o *fsbridge.Object, off int64, data string) error {
	return w.file(o, fsbridge.Op{Kind: fsbridge.OpWrite, Off: off, Len: int64(len(data))}, unix.O_WRONLY,
		func(fd int) error { return hostfs.PwriteFull(fd, []byte(data), off) })
}

func (w *world) truncate(path string, size int64) error {
	o := w.regular(path)
	if o == nil {
		return errNoSuch
	}
	return w.file(o, fsbridge.Op{Kind: fsbridge.OpTruncate, Size: size}, unix.O_WRONLY,
		func(fd int) error { return hostfs.TruncateFD(fd, size) })
}

func (w *world) fallocate(path string, flags uint32, off, n int64) error {
	o := w.regular(path)
	if o == nil {
		return errNoSuch
	}
	return w.file(o, fsbridge.Op{Kind: fsbridge.OpFallocate, Flags: flags, Off: off, Len: n}, unix.O_WRONLY,
		func(fd int) error { return unix.Fallocate(fd, flags, off, n) })
}

func (w *world) chmod(path string, mode uint32) error {
	_, _, o := w.at(path)
	if o == nil || o.Type == unix.S_IFLNK {
		return errNoSuch
	}
	return w.file(o, fsbridge.Op{Kind: fsbridge.OpSetattr}, unix.O_PATH, func(fd int) error { return hostfs.ChmodFD(fd, mode) })
}

func (w *world) utimes(path string, mtime int64) error {
	_, _, o := w.at(path)
	if o == nil {
		return errNoSuch
	}
	return w.file(o, fsbridge.Op{Kind: fsbridge.OpSetattr}, unix.O_PATH,
		func(fd int) error { return hostfs.UtimesFD(fd, hostfs.TimeOmit, mtime) })
}

func (w *world) setxattr(path, name, value string) error {
	_, _, o := w.at(path)
	if o == nil || (o.Type != unix.S_IFREG && o.Type != unix.S_IFDIR) {
		return errNoSuch
	}
	if value == "" {
		return w.file(o, fsbridge.Op{Kind: fsbridge.OpRemoveXattr, Attr: name}, unix.O_PATH,
			func(fd int) error { return hostfs.RemoveXattrFD(fd, name) })
	}
	return w.file(o, fsbridge.Op{Kind: fsbridge.OpSetXattr, Attr: name}, unix.O_PATH,
		func(fd int) error { return hostfs.SetXattrFD(fd, name, []byte(value), 0) })
}

func (w *world) unlink(path string) error {
	dir, name, o := w.at(path)
	if dir == nil || o == nil || o.Type == unix.S_IFDIR {
		return errNoSuch
	}
	err := w.do(&fsbridge.Op{Kind: fsbridge.OpUnlink, Dir: dir, Name: name, Node: o}, func() (*fsbridge.Object, error) {
		return nil, hostfs.UnlinkAt(dir.Place.(*spot).fd, name)
	})
	if err == nil {
		w.unbind(o, dir, name)
	}
	return err
}

func (w *world) unbind(o, dir *fsbridge.Object, name string) {
	s := o.Place.(*spot)
	if s.parent == dir && s.name == name {
		s.bound = false
	}
	if s.handles == 0 && o.Type != unix.S_IFDIR {
		if st, err := hostfs.StatFD(s.fd); err == nil && st.Nlink == 0 {
			delete(w.objs, o.ID)
			_ = hostfs.Close(s.fd)
		}
	}
}

func (w *world) rmdir(path string) error {
	dir, name, o := w.at(path)
	if dir == nil || o == nil || o.Type != unix.S_IFDIR {
		return errNoSuch
	}
	err := w.do(&fsbridge.Op{Kind: fsbridge.OpRmdir, Dir: dir, Name: name, Node: o}, func() (*fsbridge.Object, error) {
		return nil, hostfs.RmdirAt(dir.Place.(*spot).fd, name)
	})
	if err == nil {
		s := o.Place.(*spot)
		s.bound = false
		delete(w.objs, o.ID)
		_ = hostfs.Close(s.fd)
	}
	return err
}

func (w *world) link(from, to string) error {
	_, _, o := w.at(from)
	dir, name, there := w.at(to)
	if o == nil || dir == nil || there != nil || o.Type == unix.S_IFDIR {
		return errNoSuch
	}
	od, on, _ := w.at(from)
	return w.do(&fsbridge.Op{Kind: fsbridge.OpLink, Node: o, Dir: dir, Name: name}, func() (*fsbridge.Object, error) {
		return nil, hostfs.LinkAt(od.Place.(*spot).fd, on, dir.Place.(*spot).fd, name)
	})
}

func (w *world) rename(from, to string, flags uint32) error {
	od, on, o := w.at(from)
	nd, nn, victim := w.at(to)
	if o == nil || nd == nil || flags == unix.RENAME_EXCHANGE && victim == nil || o == victim {
		return errNoSuch
	}
	if strings.HasPrefix(to+"/", from+"/") || strings.HasPrefix(from+"/", to+"/") {
		return errNoSuch
	}
	if flags == 0 && victim != nil { // as the kernel checks before it asks the server
		if (o.Type == unix.S_IFDIR) != (victim.Type == unix.S_IFDIR) {
			return errNoSuch
		}
	}
	if flags == unix.RENAME_NOREPLACE && victim != nil {
		return errNoSuch
	}
	// at(to) may have changed what at(from) found of a hard link
	os := o.Place.(*spot)
	os.parent, os.name, os.bound = od, on, true
	err := w.do(&fsbridge.Op{Kind: fsbridge.OpRename, Node: o, Dir: od, Name: on, NewDir: nd, NewName: nn, Victim: victim, Flags: flags},
		func() (*fsbridge.Object, error) {
			return nil, hostfs.RenameAt(od.Place.(*spot).fd, on, nd.Place.(*spot).fd, nn, flags)
		})
	if err == nil {
		os.parent, os.name, os.bound = nd, nn, true
		if victim != nil {
			vs := victim.Place.(*spot)
			if flags == unix.RENAME_EXCHANGE {
				vs.parent, vs.name, vs.bound = od, on, true
			} else {
				w.unbind(victim, nd, nn)
			}
		}
	}
	return err
}

// tmpfile makes an unnamed file in dir, writes to it and links it.
func (w *world) tmpfile(dirPath, to, data string) error {
	dir := w.top
	if dirPath != "" {
		_, _, dir = w.at(dirPath)
	}
	td, name, there := w.at(to)
	if dir == nil || dir.Type != unix.S_IFDIR || td == nil || there != nil {
		return errNoSuch
	}
	var o *fsbridge.Object
	err := w.do(&fsbridge.Op{Kind: fsbridge.OpTmpfile, Dir: dir}, func() (*fsbridge.Object, error) {
		fd, err := unix.Openat(dir.Place.(*spot).fd, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		st, err := hostfs.StatFD(fd)
		if err != nil {
			return nil, err
		}
		o = &fsbridge.Object{ID: st.ID, Type: unix.S_IFREG, Place: &spot{fd: fd, id: st.ID, handles: 1}}
		return o, nil
	})
	if err != nil {
		return err
	}
	w.objs[o.ID] = o
	s := o.Place.(*spot)
	s.handles = 0
	if err := w.file(o, fsbridge.Op{Kind: fsbridge.OpWrite, Len: int64(len(data))}, unix.O_WRONLY,
		func(fd int) error { return hostfs.PwriteFull(fd, []byte(data), 0) }); err != nil {
		return err
	}
	return w.do(&fsbridge.Op{Kind: fsbridge.OpLink, Node: o, Dir: td, Name: name}, func() (*fsbridge.Object, error) {
		if err := hostfs.LinkFD(s.fd, td.Place.(*spot).fd, name); err != nil {
			return nil, err
		}
		s.parent, s.name, s.bound = td, name, true
		return nil, nil
	})
}

// hold opens a file and keeps it open; poke writes through such a handle.
func (w *world) hold(path string) error {
	o := w.regular(path)
	if o == nil {
		return errNoSuch
	}
	fd, err := o.Place.Open(unix.O_RDWR)
	if err != nil {
		return err
	}
	o.Place.(*spot).handles++
	w.open = append(w.open, &handle{fd, o})
	return nil
}

func (w *world) poke(i int, off int64, data string) error {
	if len(w.open) == 0 {
		return errNoSuch
	}
	h := w.open[i%len(w.open)]
	op := fsbridge.Op{Kind: fsbridge.OpWrite, Node: h.obj, Off: off, Len: int64(len(data))}
	return w.do(&op, func() (*fsbridge.Object, error) {
		return nil, hostfs.PwriteFull(h.fd, []byte(data), off)
	})
}

func (w *world) begin(id StepID) {
	w.t.Helper()
	w.epoch++
	if err := w.log.Begin(id, StepInfo{Type: TypeCommand, Command: fmt.Sprint("step ", id)}); err != nil {
		w.t.Fatalf("begin: %v", err)
	}
}

func (w *world) commit() *Entry {
	w.t.Helper()
	w.epoch++
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
	w.epoch++
	if _, err := w.log.Undo(context.Background(), UndoOptions{Count: n}); err != nil {
		w.t.Fatalf("undo: %v", err)
	}
	w.forget()
}

func (w *world) redo(n int) {
	w.t.Helper()
	w.epoch++
	if _, err := w.log.Redo(context.Background(), UndoOptions{Count: n}); err != nil {
		w.t.Fatalf("redo: %v", err)
	}
	w.forget()
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// snapshot describes the whole tree, one line for each path.
func (w *world) snapshot() map[string]string {
	w.t.Helper()
	w.checkHeld()
	return snapshotOf(w.t, w.base+"/work")
}

// checkHeld makes sure that the log knows how many names it has of each file,
// and asks for that so that it is counted from here on.
func (w *world) checkHeld() {
	w.t.Helper()
	h := &w.log.held
	_ = w.log.Held(w.root.ID())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		return // it is on another file system
	}
	now := countLinks(w.log.dir.FD())
	for id, n := range now {
		if h.counts[id] != n {
			w.t.Fatalf("the log has %d names of inode %d, and counted %d", n, id.Ino, h.counts[id])
		}
	}
	_ = filepath.WalkDir(w.base+"/work", func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || d.IsDir() || unix.Lstat(p, &st) != nil {
			return nil
		}
		if id := (hostfs.ID{Dev: uint64(st.Dev), Ino: st.Ino}); h.counts[id] != now[id] {
			w.t.Fatalf("the log has %d names of %s, and counted %d", now[id], p, h.counts[id])
		}
		return nil
	})
}

func snapshotOf(t testT, root string) map[string]string {
	t.Helper()
	out, groups := map[string]string{}, map[uint64][]string{}
	var walk func(p, rel string)
	walk = func(p, rel string) {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			t.Fatalf("%v", err)
		}
		line := fmt.Sprintf("%o %d:%d mtime %d", st.Mode, st.Uid, st.Gid, st.Mtim.Nano())
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil && !errors.Is(err, unix.EACCES) {
				t.Fatalf("%v", err)
			}
			line += fmt.Sprintf(" size %d sum %x", len(b), sha256.Sum256(b))
			if len(b) < 40 {
				line += fmt.Sprintf(" %q", b)
			}
		case unix.S_IFLNK:
			target, _ := os.Readlink(p)
			line += " -> " + target
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			line += attributesIn(p)
		}
		out[rel] = line
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			groups[st.Ino] = append(groups[st.Ino], rel)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if unix.Access(p, unix.R_OK|unix.X_OK) != nil {
				return
			}
			entries, err := os.ReadDir(p)
			if err != nil {
				t.Fatalf("%v", err)
			}
			for _, e := range entries {
				walk(p+"/"+e.Name(), rel+"/"+e.Name())
			}
		}
	}
	walk(root, ".")
	for _, g := range groups {
		sort.Strings(g)
		for _, rel := range g {
			out[rel] += " links " + strings.Join(g, ",")
		}
	}
	return out
}

// attributesIn lists the attributes of path, those that may not be read without
// their values.
func attributesIn(path string) (line string) {
	buf := make([]byte, 4096)
	n, _ := unix.Llistxattr(path, buf)
	names := strings.Split(strings.TrimRight(string(buf[:max(n, 0)]), "\x00"), "\x00")
	sort.Strings(names)
	for _, name := range names {
		if n, err := unix.Lgetxattr(path, name, buf); err == nil {
			line += fmt.Sprintf(" %s=%q", name, buf[:n])
		} else if name != "" {
			line += " " + name
		}
	}
	return line
}

// same compares two snapshots.
func same(t testT, what string, want, got map[string]string) {
	t.Helper()
	var diff []string
	for p, l := range want {
		if got[p] != l {
			diff = append(diff, fmt.Sprintf("%s\n   want %s\n   got  %s", p, l, got[p]))
		}
	}
	for p, l := range got {
		if want[p] == "" {
			diff = append(diff, fmt.Sprintf("%s\n   want nothing\n   got  %s", p, l))
		}
	}
	if len(diff) > 0 {
		sort.Strings(diff)
		t.Fatalf("%s: %d difference(s):\n%s", what, len(diff), strings.Join(diff, "\n"))
	}
}
