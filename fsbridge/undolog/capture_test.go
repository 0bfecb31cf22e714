package undolog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// journalSize is the size of the open step's journal in bytes, without the room
// for more.
func journalSize(e *session) int64 {
	e.t.Helper()
	b, err := os.ReadFile(filepath.Join(e.undo, "wal/in_progress/journal"))
	e.must(err)
	return int64(len(bytes.TrimRight(b, "\x00")))
}

func TestUI01_OnePreimage(t *testing.T) {
	e := newSession(t, small(t))
	e.begin()
	e.must(e.a.WriteAt("b.txt", []byte("1"), 0))
	e.must(e.a.WriteAt("big", []byte("1"), 100))
	n := journalSize(e)
	for i := range 10 {
		e.must(e.a.WriteAt("b.txt", []byte("more"), int64(i)))
		e.must(e.a.WriteAt("big", []byte("more"), int64(i*400)))
		e.must(e.a.Chmod("b.txt", 0o600))
	}
	if got := journalSize(e); got != n {
		t.Errorf("later writes grew the journal from %d to %d bytes", n, got)
	}
	e.must(e.a.WriteAt("big", []byte("elsewhere"), 500_000))
	if journalSize(e) == n {
		t.Error("a write elsewhere in a large file was not captured")
	}
	e.commit()
}

func TestOneByteOfALargeFile(t *testing.T) {
	e := newSession(t, func(work string) {
		f, err := os.Create(filepath.Join(work, "huge"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		noise := make([]byte, 1<<20)
		for i := range noise {
			noise[i] = byte(i * i >> 7 * i)
		}
		_, err = f.WriteAt(noise, 512<<20)
		if err = errors.Join(err, f.Truncate(1<<30)); err != nil {
			t.Fatal(err)
		}
	})
	before := e.snap()
	entry := e.step(func(a *applier) error { return a.WriteAt("huge", []byte("x"), 512<<20+70_000) })
	if entry.StoredBytes > 128<<10 {
		t.Errorf("a one-byte change keeps %d bytes", entry.StoredBytes)
	}
	e.undoN(1)
	e.equal(before)
}

// TestHotPathDoesNotAllocate: the second and later changes in a step.
func TestHotPathDoesNotAllocate(t *testing.T) {
	e := newSession(t, small(t))
	e.begin()
	h, err := e.a.Open("big")
	e.must(err)
	defer h.Close()
	small, err := e.a.Open("b.txt")
	e.must(err)
	defer small.Close()
	e.must(h.WriteAt([]byte("x"), 100))
	e.must(small.WriteAt([]byte("x"), 0))
	for _, op := range []fsbridge.Op{
		{Kind: fsbridge.OpWrite, Node: h.Object(), Off: 200, Len: 1024},
		{Kind: fsbridge.OpWrite, Node: small.Object(), Off: 1, Len: 1},
		{Kind: fsbridge.OpTruncate, Node: small.Object(), Size: 1},
		{Kind: fsbridge.OpSetattr, Node: small.Object()},
	} {
		epoch := e.a.Guard.Epoch()
		if !e.log.Protected(epoch, &op) {
			t.Errorf("%v is not protected", op.Kind)
		}
		if n := testing.AllocsPerRun(1000, func() {
			tk := e.a.Guard.Enter(op.Node.ID.Ino)
			e.log.Protected(tk.Epoch, &op)
			e.a.Guard.Exit(tk)
		}); n != 0 {
			t.Errorf("%v: %v allocations", op.Kind, n)
		}
		if e.log.Protected(epoch+1, &op) {
			t.Errorf("%v is protected in the next epoch, too", op.Kind)
		}
	}
	e.commit()
}

func BenchmarkProtected(b *testing.B) {
	e := newSession(b, small(b))
	e.begin()
	h, err := e.a.Open("big")
	e.must(err)
	defer h.Close()
	e.must(h.WriteAt([]byte("x"), 100))
	op := fsbridge.Op{Kind: fsbridge.OpWrite, Node: h.Object(), Off: 200, Len: 1024}
	b.ReportAllocs()
	for b.Loop() {
		tk := e.a.Guard.Enter(op.Node.ID.Ino)
		if !e.log.Protected(tk.Epoch, &op) {
			b.Fatal("not protected")
		}
		e.a.Guard.Exit(tk)
	}
}

// BenchmarkEmptyStep is opening and closing a step in which nothing happens.
func BenchmarkEmptyStep(b *testing.B) {
	e := newSession(b, nil)
	for b.Loop() {
		e.begin()
		e.commit()
	}
}

// BenchmarkUnlink removes files through the log and without it.
func BenchmarkUnlink(b *testing.B) {
	for _, logged := range []bool{true, false} {
		b.Run(fmt.Sprintf("logged=%v", logged), func(b *testing.B) {
			e := newSession(b, nil)
			dir, err := hostfs.OpenRoot(e.work)
			e.must(err)
			defer dir.Close()
			objs := make([]fsbridge.Op, b.N)
			self := fsbridge.Object{ID: dir.ID(), Type: posix.S_IFDIR, Place: rootPlace{}}
			places := make([]namedPlace, b.N)
			nodes := make([]fsbridge.Object, b.N)
			for i := range objs {
				name := fmt.Sprint("file", i)
				e.must(os.WriteFile(filepath.Join(e.work, name), []byte("content"), 0o644))
				st, err := hostfs.StatAt(dir.FD(), name)
				e.must(err)
				places[i] = namedPlace{parent: &self, name: name, dir: dir.FD()}
				nodes[i].ID, nodes[i].Type, nodes[i].Place = st.ID, st.Type(), &places[i]
				objs[i] = fsbridge.Op{Kind: fsbridge.OpUnlink, Dir: &self, DirFD: dir.FD(), Name: name, Node: &nodes[i], NodeStat: st}
			}
			e.begin()
			epoch := e.a.Guard.Epoch()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range objs {
				if !logged {
					e.must(hostfs.UnlinkAt(dir.FD(), objs[i].Name))
					continue
				}
				if performed, err := e.log.Capture(epoch, &objs[i]); !performed || err != nil {
					b.Fatal(performed, err)
				}
				e.log.Done(epoch, &objs[i], nil, nil)
			}
			b.StopTimer()
			e.commit()
		})
	}
}

type rootPlace struct{}

func (rootPlace) Binding() (*fsbridge.Object, string, bool) { return nil, "", false }
func (rootPlace) Known() (*fsbridge.Object, string, bool)   { return nil, "", false }
func (rootPlace) Open(int) (int, error)                     { return -1, posix.ENOENT }
func (rootPlace) Writers() int                              { return 0 }
func (rootPlace) Handles() int                              { return 0 }

type namedPlace struct {
	parent *fsbridge.Object
	name   string
	dir    int
}

func (p *namedPlace) Binding() (*fsbridge.Object, string, bool) { return p.parent, p.name, true }
func (p *namedPlace) Known() (*fsbridge.Object, string, bool)   { return p.Binding() }
func (p *namedPlace) Open(flags int) (int, error)               { return hostfs.OpenAt(p.dir, p.name, flags, 0) }
func (p *namedPlace) Writers() int                              { return 0 }
func (p *namedPlace) Handles() int                              { return 0 }

// TestConcurrentCaptures: many goroutines change the same and different files
// in one step; the first touch of each is what undo restores.
func TestConcurrentCaptures(t *testing.T) {
	e := newSession(t, func(work string) {
		for i := range 40 {
			mustWrite(t, filepath.Join(work, fmt.Sprintf("d%d/f%d", i%4, i)), fmt.Sprint("content of ", i))
		}
		mustWrite(t, filepath.Join(work, "shared"), string(bytes.Repeat([]byte("s"), 1<<20)))
	})
	before := e.snap()
	e.begin()
	var wg sync.WaitGroup
	errs := make(chan error, 1000)
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				name := fmt.Sprintf("d%d/f%d", i%4, i)
				switch (i + w) % 4 {
				case 0:
					errs <- ignore(e.a.WriteAt(name, []byte("w"), 3), posix.ENOENT)
				case 1:
					errs <- ignore(e.a.Chmod(name, 0o600), posix.ENOENT)
				case 2:
					errs <- e.a.WriteAt("shared", []byte("changed"), int64(i*w)*3000)
				case 3:
					errs <- ignore(e.a.WriteFile(fmt.Sprintf("d%d/new-%d-%d", i%4, w, i), []byte("n")), posix.ENOENT)
				}
				if i%8 == w {
					errs <- ignore(e.a.Unlink(name), posix.ENOENT)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil && !errors.Is(err, hostfs.ErrChanged) && !errors.Is(err, posix.ESTALE) { // removed meanwhile, as Windows says it
			t.Error(err)
		}
	}
	e.commit()
	e.undoN(1)
	e.equal(before)
}

func ignore(err error, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

func TestPowerDurability(t *testing.T) {
	e := newSession(t, small(t), func(o *Options) { o.Durability = DurabilityPower })
	before := e.snap()
	e.step(func(a *applier) error {
		return run(func() error { return a.WriteAt("big", []byte("x"), 0) }, func() error { return a.RemoveAll("dir") },
			func() error { return a.Rename("b.txt", "a.txt", 0) })
	})
	e.undoN(1)
	e.equal(before)
}

// TestUL09_Reflink: where the file system offers reflinks, large contents are
// kept as such; elsewhere they are copied. Both undo the same way.
func TestUL09_Reflink(t *testing.T) {
	e := newSession(t, small(t))
	probe := func() bool {
		src, err := posix.Open(filepath.Join(e.work, "big"), posix.O_RDONLY, 0)
		e.must(err)
		defer hostfs.Close(src)
		dst, err := posix.Open(filepath.Join(t.TempDir(), "clone"), posix.O_WRONLY|posix.O_CREAT, 0o600)
		e.must(err)
		defer hostfs.Close(dst)
		return hostfs.CloneFD(dst, src) == nil
	}
	offered := probe()
	before := e.snap()
	e.begin()
	e.must(e.a.Truncate("big", 0))
	blobs, err := filepath.Glob(filepath.Join(e.undo, "wal/in_progress/blobs/*/*.1"))
	e.must(err)
	if offered != (len(blobs) == 1) {
		t.Errorf("reflinks offered: %v; found %v", offered, blobs)
	}
	e.commit()
	e.undoN(1)
	e.equal(before)
}

// TestFailedOperations: what was captured for an operation that then failed
// does no harm, and a name that a stranger took stays his.
func TestFailedOperations(t *testing.T) {
	e := newSession(t, small(t))
	before := e.snap()
	e.begin()
	e.a.Fail = func(op *fsbridge.Op) error {
		switch op.Kind {
		case fsbridge.OpCreate, fsbridge.OpRename, fsbridge.OpMkdir, fsbridge.OpLink, fsbridge.OpWrite, fsbridge.OpSetattr:
			return posix.EIO
		}
		return nil
	}
	for _, err := range []error{
		e.a.Create("stranger", 0o644), e.a.Rename("b.txt", "big", 0), e.a.Rename("b.txt", "stranger2", 0),
		e.a.Mkdir("dir/new", 0o755), e.a.Link("b.txt", "b3"), e.a.WriteAt("b.txt", []byte("x"), 0), e.a.Chmod("dir", 0o700),
	} {
		if !errors.Is(err, posix.EIO) {
			t.Fatal(err)
		}
	}
	e.a.Fail = nil
	e.must(e.a.Unlink("dir/f"))
	e.commit()
	mustWrite(t, filepath.Join(e.work, "stranger"), "not of the sandbox")
	mustWrite(t, filepath.Join(e.work, "stranger2"), "neither")
	_, err := e.log.Undo(t.Context(), UndoOptions{Force: true})
	e.must(err)
	_, err = e.log.GC(t.Context(), GCOptions{}) // lets go of the link to the victim that stayed
	e.must(err)
	for _, name := range []string{"stranger", "stranger2"} {
		e.must(os.Remove(filepath.Join(e.work, name)))
	}
	e.must(os.Chtimes(e.work, time.Time{}, time.Unix(0, before.Entries["."].MtimeNS)))
	e.equal(before)
}

// beforeDone calls a function before an operation is reported.
type beforeDone struct {
	undologtest.Log
	do func()
}

func (b beforeDone) Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, opErr error) {
	b.do()
	b.Log.Done(epoch, op, created, opErr)
}

// TestMBFailsBesideAnother: of two that make the same name, as make -j does with mkdir -p, the one that
// fails is reported first. Undo removes what the other made, and all that is in it.
func TestMBFailsBesideAnother(t *testing.T) {
	e := newSession(t, small(t))
	before := e.snap()
	e.begin()
	for name, made := range map[string]func(a *undologtest.Applier) error{
		"made":    func(a *undologtest.Applier) error { return a.Mkdir("made", 0o755) },
		"linked":  func(a *undologtest.Applier) error { return a.Symlink("x", "linked") },
		"renamed": func(a *undologtest.Applier) error { return a.Rename("b.txt", "renamed", posix.RENAME_NOREPLACE) },
	} {
		captured, done, failed := make(chan struct{}), make(chan struct{}), make(chan error)
		e.a.Fail = func(*fsbridge.Op) error { close(captured); <-done; return nil }
		go func() { failed <- e.a.Mkdir(name, 0o755) }()
		<-captured
		e.must(made(undologtest.New(e.root, beforeDone{e.log, func() {
			close(done)
			if err := <-failed; !errors.Is(err, posix.EEXIST) {
				t.Errorf("mkdir %s: %v", name, err)
			}
		}})))
	}
	e.a.Fail = nil
	e.a.Forget()
	e.must(e.a.Create("made/f", 0o644))
	e.commit()
	e.undoN(1)
	e.equal(before)
}
