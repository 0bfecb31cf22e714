package vfs_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func (f *folder) unlink(name string) {
	f.t.Helper()
	check(f.t, f.tree.Unlink(vfs.Request{}, vfs.RootID, name))
}

func (f *folder) rename(from, to string) {
	f.t.Helper()
	check(f.t, f.tree.Rename(vfs.Request{}, vfs.RootID, from, vfs.RootID, to, 0))
}

// unwind undoes all steps, newest first, and compares the folder with what it was like
// before each.
func (f *folder) unwind(before []*treesnap.Snapshot) {
	f.t.Helper()
	for i := len(before) - 1; i >= 0; i-- {
		f.undo()
		treesnap.Same(f.t, "before step", before[i], f.snapshot())
	}
}

// TestMBGrantAcrossSteps: whoever keeps a granted descriptor writes in later steps too,
// also after the file has lost its name, and each step's undo brings back what there was when
// it began.
func TestMBGrantAcrossSteps(t *testing.T) {
	remove := map[string]func(f *folder){
		"unlink":      func(f *folder) { f.unlink("f") },
		"rename over": func(f *folder) { f.rename("other", "f") },
		"rename":      func(f *folder) { f.rename("f", "g") },
	}
	for how, remove := range remove {
		t.Run(how, func(t *testing.T) {
			f := newFolderIn(t, t.TempDir(), undolog.Limits{AdoptedRaw: 1}) // what nobody has open is packed
			f.write("f", "content of the file")
			f.write("other", "other")
			var before []*treesnap.Snapshot
			var file *os.File
			for _, do := range []func(){
				func() { file = f.must("f", os.O_RDWR); put(t, file, 0, "1") },
				func() { put(t, file, 1, "2") },
				func() { put(t, file, 2, "3"); remove(f); put(t, file, 3, "4") },
				func() { put(t, file, 4, "5") },
				func() { put(t, file, 5, "6"); check(t, file.Close()) },
			} {
				before = append(before, f.snapshot())
				if f.step(do) == nil {
					t.Fatal("no entry")
				}
			}
			f.unwind(before)
		})
	}
}

// TestMBGrantMapped: a shared mapping outlives its descriptor, and is a writer.
func TestMBGrantMapped(t *testing.T) {
	f := newFolder(t)
	f.write("f", "content of the file")
	var before []*treesnap.Snapshot
	var mapped []byte
	for _, do := range []func(){
		func() {
			file := f.must("f", os.O_RDWR)
			var err error
			mapped, err = unix.Mmap(int(file.Fd()), 0, 19, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			check(t, err)
			check(t, file.Close())
			mapped[0] = '1'
		},
		func() { mapped[1] = '2' },
		func() { f.unlink("f"); mapped[2] = '3' },
		func() { mapped[3] = '4'; check(t, unix.Munmap(mapped)) },
	} {
		before = append(before, f.snapshot())
		if f.step(do) == nil {
			t.Fatal("no entry")
		}
	}
	if n := len(f.tree.Granted()); n != 0 {
		t.Errorf("%d files are still written to", n)
	}
	f.unwind(before)
}

// TestMBGrantLives: a node has a writer as long as anybody can write to it, and is forgotten then.
func TestMBGrantLives(t *testing.T) {
	f := newFolder(t)
	f.write("f", "x")
	f.step(func() {
		file := f.must("f", os.O_WRONLY)
		dup, err := unix.Dup(int(file.Fd()))
		check(t, err)
		var st syscall.Stat_t
		check(t, syscall.Fstat(dup, &st))
		o := f.tree.Object(hostfs.ID{Dev: st.Dev, Ino: st.Ino})
		if o == nil || o.Place.Writers() != 1 || o.Place.Handles() != 1 {
			t.Fatal("no writer")
		}
		check(t, file.Close())
		if o.Place.Writers() != 1 || len(f.tree.Granted()) != 1 {
			t.Error("a duplicate is no writer")
		}
		check(t, unix.Close(dup))
		if o.Place.Writers() != 0 || o.Place.Handles() != 0 || len(f.tree.Granted()) != 0 {
			t.Error("still a writer")
		}
		if f.tree.Object(o.ID) != nil {
			t.Error("the node is still there")
		}
	})
}

// TestMBGrantMany: the list of granted files does not grow with what was granted and closed.
func TestMBGrantMany(t *testing.T) {
	f := newFolder(t)
	f.step(func() {
		for range 3000 {
			check(t, f.must("f", os.O_WRONLY|os.O_CREATE).Close())
			f.unlink("f")
		}
		if n := len(f.tree.Granted()); n != 0 {
			t.Errorf("%d files left", n)
		}
	})
	if e, err := os.ReadDir("/proc/self/fd"); err != nil || len(e) > 200 {
		t.Errorf("%d descriptors, %v", len(e), err)
	}
}

// TestMBGrantUnchanged: a file that was opened for writing but not written to makes no history
// entry, neither in that step nor in later ones while it is open, and does not end the redo of what was undone.
func TestMBGrantUnchanged(t *testing.T) {
	f := newFolder(t)
	f.write("f", "content")
	f.write("other", "x")
	var file *os.File
	if e := f.step(func() { file = f.must("f", os.O_RDWR) }); e != nil {
		t.Errorf("opened only: %+v", e)
	}
	if e := f.step(func() { put(t, f.must("other", os.O_WRONLY), 0, "y") }); e == nil || e.AffectedCount != 1 {
		t.Errorf("another file: %+v", e)
	}
	changed := f.snapshot()
	f.undo()
	if e := f.step(func() {}); e != nil {
		t.Errorf("nothing: %+v", e)
	}
	check(t, f.Redo(t.Context(), 1))
	treesnap.Same(t, "after redo", changed, f.snapshot())
	if e := f.step(func() { put(t, file, 0, "C") }); e == nil || e.AffectedCount != 1 {
		t.Errorf("written natively: %+v", e)
	}
	if err := f.Redo(t.Context(), 1); err == nil {
		t.Error("there is something to redo after a native write")
	}
	f.undo()
	treesnap.Same(t, "after undo", changed, f.snapshot())
}

// TestMBGrantMappedUnchanged: a mapping leaves no trace of a change in the file's times where its page was written to
// before, so the content decides.
func TestMBGrantMappedUnchanged(t *testing.T) {
	f := newFolder(t)
	f.write("f", "content")
	var mapped []byte
	before := f.snapshot()
	f.step(func() {
		file := f.must("f", os.O_RDWR)
		var err error
		mapped, err = unix.Mmap(int(file.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		check(t, err)
		check(t, file.Close())
		mapped[0] = 'C'
	})
	if e := f.step(func() {}); e != nil {
		t.Errorf("nothing: %+v", e)
	}
	between := f.snapshot()
	if e := f.step(func() { mapped[1] = 'O' }); e == nil || e.AffectedCount != 1 {
		t.Errorf("through a mapping: %+v", e)
	}
	check(t, unix.Munmap(mapped))
	f.unwind([]*treesnap.Snapshot{before, between})
}

// TestMBGrantMetadata: a change of attributes only is told as such.
func TestMBGrantMetadata(t *testing.T) {
	f := newFolder(t)
	f.write("f", "content")
	e := f.step(func() { check(t, f.must("f", os.O_RDWR).Chmod(0o600)) })
	if e == nil {
		t.Fatal("no entry")
	}
	d, err := f.Log.Step(e.StepID)
	check(t, err)
	if len(d.Paths) != 1 || d.Paths[0].Change != "metadata" {
		t.Errorf("%+v", d.Paths)
	}
}

// TestMBGrantNoBarrier: what a granted descriptor writes when no step is open is no edit from outside
// and stops no undo; what others write is.
func TestMBGrantNoBarrier(t *testing.T) {
	f := newFolder(t)
	f.write("f", "content")
	f.write("g", "content")
	before := f.snapshot()
	var file *os.File
	f.step(func() { file = f.must("f", os.O_RDWR); put(t, file, 0, "1") })
	put(t, file, 1, "2")
	middle := f.snapshot()
	f.step(func() { put(t, file, 2, "3") })
	put(t, file, 3, "4")
	f.undo()
	treesnap.Same(t, "before the second step", middle, f.snapshot())
	put(t, file, 1, "X")
	f.undo()
	treesnap.Same(t, "before the first step", before, f.snapshot())

	f.step(func() {
		g := f.must("g", os.O_RDWR)
		put(t, g, 0, "1")
		check(t, g.Close())
	})
	f.write("g", "edited outside")
	if err := f.Undo(t.Context(), 1); err == nil {
		t.Error("an edit from outside was overwritten")
	}
}

// TestMBGrantAsUser: the owner of a file may ask for a lease without being root, and who is not counts the file as
// written to.
func TestMBGrantAsUser(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	f := newFolder(t)
	f.write("f", "content")
	before := f.snapshot()
	f.step(func() {
		file := f.must("f", os.O_RDWR)
		put(t, file, 0, "C")
		if len(f.tree.Granted()) != 1 {
			t.Error("no writer")
		}
		check(t, file.Close())
		if n := len(f.tree.Granted()); n != 0 {
			t.Errorf("%d writers", n)
		}
	})
	fd, err := unix.Open("/etc/passwd", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	if written, known := hostfs.Written(fd); !written || known {
		t.Errorf("a file of root's: %v, %v", written, known)
	}
	f.unwind([]*treesnap.Snapshot{before})
}

// TestMBGrantShut: what became of a granted file is found out too where its owner may not search
// the directory or read the file any more.
func TestMBGrantShut(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	f := newFolder(t)
	chmod := func(name string, mode uint32) {
		t.Helper()
		e, err := f.tree.Lookup(vfs.RootID, name)
		check(t, err)
		_, err = f.tree.SetAttr(vfs.Request{}, e.Node, &vfs.SetAttr{Set: vfs.SetMode, Mode: mode})
		check(t, err)
		f.tree.Forget(e.Node, 1)
	}
	for how, do := range map[string]func(name string) *os.File{
		"file shut": func(name string) *os.File {
			file := f.must(name, os.O_RDWR)
			chmod(name, 0)
			return file
		},
		"file made shut": func(name string) *os.File {
			f.unlink(name)
			g, err := f.tree.Grant(vfs.Request{}, vfs.RootID, vfs.OpenFile{Name: name, Flags: os.O_WRONLY | os.O_CREATE, Mode: 0o200})
			check(t, err)
			return os.NewFile(uintptr(g.FD), name)
		},
		"file was shut": func(name string) *os.File {
			chmod(name, 0o200)
			return f.must(name, os.O_WRONLY)
		},
		"directory shut": func(name string) *os.File {
			file := f.must(name, os.O_RDWR)
			e, err := f.tree.Mkdir(vfs.Request{}, vfs.RootID, "dir", 0o700)
			check(t, err)
			check(t, f.tree.Rename(vfs.Request{}, vfs.RootID, name, e.Node, name, 0))
			chmod("dir", 0)
			f.t.Cleanup(func() { _ = os.Chmod(f.path("dir"), 0o700) })
			return file
		},
	} {
		f.write(how, "content")
		before := f.snapshot()
		f.step(func() {
			file := do(how)
			put(t, file, 0, "C")
			if n := len(f.tree.Granted()); n != 1 {
				t.Errorf("%s: %d can be written to", how, n)
			}
			check(t, file.Close())
			if n := len(f.tree.Granted()); n != 0 {
				t.Errorf("%s: %d can still be written to", how, n)
			}
		})
		f.unwind([]*treesnap.Snapshot{before})
	}
}

// TestMBGrantReflink: where the file system can, a large file is kept without being copied, in each step.
func TestMBGrantReflink(t *testing.T) {
	const size = 64 << 20
	f := newFolderIn(t, require.Image(t, "xfs", 512<<20), undolog.Limits{StepBytes: 1 << 20})
	f.write("f", strings.Repeat("sixteen letters.", size/16))
	free := func() uint64 {
		var st unix.Statfs_t
		check(t, unix.Statfs(f.dir, &st))
		return st.Bavail * uint64(st.Bsize)
	}
	was := free()
	var before []*treesnap.Snapshot
	var file *os.File
	for _, do := range []func(){
		func() { file = f.must("f", os.O_RDWR); put(t, file, 1000, "1") },
		func() { put(t, file, size/2, "2") },
		func() { put(t, file, 1000, "3"); check(t, file.Close()) },
	} {
		before = append(before, f.snapshot())
		if e := f.step(do); e == nil || e.Unprotected {
			t.Errorf("%+v", e)
		}
	}
	if now := free(); now+size/4 < was {
		t.Errorf("%d bytes more are used", was-now)
	}
	f.unwind(before)
	check(t, f.Close())
}

// TestMBGrantLarge: a large file with holes is kept as it is, and counts.
func TestMBGrantLarge(t *testing.T) {
	f := newFolder(t)
	f.write("f", strings.Repeat("some text that repeats itself\n", 100_000))
	check(t, os.Truncate(f.path("f"), 32<<20))
	before := f.snapshot()
	e := f.step(func() {
		file := f.must("f", os.O_RDWR)
		put(t, file, 1_000_000, "x")
		put(t, file, 20<<20, "y")
		check(t, file.Truncate(25<<20))
	})
	if e == nil || e.Unprotected || e.StoredBytes > 8<<20 {
		t.Errorf("%+v", e)
	}
	f.unwind([]*treesnap.Snapshot{before})
}

// TestMBGrantOutgrown: the content of a file that is larger than a step may be is not kept.
func TestMBGrantOutgrown(t *testing.T) {
	f := newFolderIn(t, t.TempDir(), undolog.Limits{StepBytes: 100_000})
	f.write("f", strings.Repeat("0123456789", 20_000)) // too small for a reflink
	e := f.step(func() { put(t, f.must("f", os.O_RDWR), 0, "x") })
	if e == nil || e.Unprotected || e.NotKeptCount != 1 {
		t.Errorf("%+v", e)
	}
}

// TestMBGrantInstead: a file is opened where the client is to see it, if what is there is the file and it still has
// its name.
func TestMBGrantInstead(t *testing.T) {
	dir := t.TempDir()
	root, err := hostfs.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	tree, err := vfs.NewTree(vfs.Options{Root: root, Owner: &vfs.Owner{}})
	check(t, err)
	defer tree.Close()
	check(t, os.WriteFile(dir+"/f", []byte("content"), 0o600))
	check(t, os.WriteFile(dir+"/other", nil, 0o600))
	open := func(name string) func(flags int) int {
		return func(flags int) int {
			fd, err := unix.Open(dir+"/"+name, flags|unix.O_CLOEXEC, 0)
			if err != nil {
				return -1
			}
			return fd
		}
	}
	for _, c := range []struct {
		name    string
		instead func(flags int) int
		used    bool
		err     error
	}{
		{"the file", open("f"), true, nil},
		{"another", open("other"), false, nil},
		{"nothing", open("none"), false, nil},
		{"removed meanwhile", func(flags int) int {
			fd := open("f")(flags)
			check(t, tree.Unlink(vfs.Request{}, vfs.RootID, "f"))
			return fd
		}, false, syscall.ENOENT},
	} {
		g, err := tree.Grant(vfs.Request{}, vfs.RootID, vfs.OpenFile{Name: "f", Flags: unix.O_WRONLY, Instead: c.instead})
		if !errors.Is(err, c.err) || g.Instead != c.used {
			t.Errorf("%s: %+v, %v; want used %v, %v", c.name, g, err, c.used, c.err)
		}
		if err == nil {
			if flags, err := unix.FcntlInt(uintptr(g.FD), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("%s: flags %o, %v", c.name, flags, err)
			}
			check(t, unix.Close(g.FD))
			tree.Forget(g.Node, 1)
		}
	}
}
