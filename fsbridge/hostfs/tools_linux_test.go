package hostfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenSubdir(t *testing.T) {
	r, dir := openRoot(t)
	if _, err := OpenSubdir(r.FD(), "sub", false); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("missing: %v", err)
	}
	for range 2 {
		fd, err := OpenSubdir(r.FD(), "sub", true)
		check(t, err)
		check(t, Close(fd))
	}
	if st, err := StatAt(r.FD(), "sub"); err != nil || st.Mode != unix.S_IFDIR|0o700 {
		t.Errorf("%o %v", st.Mode, err)
	}
	check(t, os.Symlink("sub", filepath.Join(dir, "link")))
	if _, err := OpenSubdir(r.FD(), "link", true); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("symlink: %v", err)
	}
}

func TestReadSmall(t *testing.T) {
	r, dir := openRoot(t)
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("four"), 0o600))
	if b, err := ReadSmall(r.FD(), "f", 4); err != nil || string(b) != "four" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := ReadSmall(r.FD(), "f", 3); err == nil {
		t.Error("a file above the limit was read")
	}
	check(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	if _, err := OpenRegular(r.FD(), "fifo"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("fifo: %v", err)
	}
	if _, err := OpenRegular(r.FD(), "missing"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("missing: %v", err)
	}
}

// TestReplaceFile: the file is as it was until the new one is complete.
func TestReplaceFile(t *testing.T) {
	r, dir := openRoot(t)
	name := filepath.Join(dir, "f")
	check(t, ReplaceFile(r.FD(), "f", []byte("long content"), nil))
	failed := errors.New("failed")
	err := ReplaceFile(r.FD(), "f", []byte("new"), func() error {
		if b, err := os.ReadFile(name); err != nil || string(b) != "long content" {
			t.Errorf("meanwhile: %q %v", b, err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	check(t, os.WriteFile(name+".new", []byte("left by somebody who was killed"), 0o600))
	check(t, ReplaceFile(r.FD(), "f", []byte("new"), nil))
	if b, err := os.ReadFile(name); err != nil || string(b) != "new" {
		t.Errorf("%q %v", b, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestFilesOfOthers: what has another name is not written to by ours, neither in place nor where a file was left unfinished, and what is no file holds nobody up.
func TestFilesOfOthers(t *testing.T) {
	r, dir := openRoot(t)
	other := filepath.Join(dir, "other")
	writes := map[string]func() error{
		"kept": func() error {
			fd, err := OpenKept(r.FD(), "kept")
			if err != nil {
				return err
			}
			return errors.Join(PwriteFull(fd, []byte("mine"), 0), Close(fd))
		},
		"f.new": func() error { return ReplaceFile(r.FD(), "f", []byte("mine"), nil) },
		"new": func() error {
			fd, err := MakeNew(r.FD(), "new")
			if err != nil {
				return err
			}
			return errors.Join(PwriteFull(fd, []byte("mine"), 0), Close(fd))
		},
	}
	for name, write := range writes {
		at := filepath.Join(dir, name)
		check(t, os.WriteFile(other, []byte("not mine"), 0o600))
		check(t, os.Link(other, at))
		check(t, write())
		if b, err := os.ReadFile(other); err != nil || string(b) != "not mine" {
			t.Errorf("%s: %q %v", name, b, err)
		}
		_ = os.Remove(at)
		check(t, unix.Mkfifo(at, 0o600))
		if err := write(); name == "kept" && !errors.Is(err, syscall.EINVAL) || name != "kept" && err != nil {
			t.Errorf("%s, a FIFO: %v", name, err)
		}
		_ = os.Remove(at)
	}
	check(t, os.WriteFile(other, []byte("some content"), 0o600))
	check(t, os.Link(other, filepath.Join(dir, "kept")))
	check(t, writes["kept"]())
	if b, err := os.ReadFile(filepath.Join(dir, "kept")); err != nil || string(b) != "mine content" {
		t.Errorf("the copy: %q %v", b, err)
	}
}

func TestWriteFull(t *testing.T) {
	r, dir := openRoot(t)
	fd, err := OpenAt(r.FD(), "f", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, 0o600)
	check(t, err)
	check(t, WriteFull(fd, []byte("one ")))
	check(t, WriteFull(fd, []byte("two")))
	check(t, Close(fd))
	if b, _ := os.ReadFile(filepath.Join(dir, "f")); string(b) != "one two" {
		t.Errorf("%q", b)
	}
	if err := WriteFull(fd, []byte("x")); !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
}

func TestRenameNew(t *testing.T) {
	r, dir := openRoot(t)
	for _, n := range []string{"a", "b"} {
		check(t, os.WriteFile(filepath.Join(dir, n), []byte(n), 0o600))
	}
	if err := RenameNew(r.FD(), "a", r.FD(), "b"); !errors.Is(err, syscall.EEXIST) {
		t.Error(err)
	}
	check(t, RenameNew(r.FD(), "a", r.FD(), "c"))
	if b, _ := os.ReadFile(filepath.Join(dir, "c")); string(b) != "a" {
		t.Errorf("%q", b)
	}
}

func TestMakeAt(t *testing.T) {
	r, _ := openRoot(t)
	fill := func(fd int) error { return PwriteFull(fd, []byte("content"), 0) }
	for _, c := range []struct {
		name string
		mode uint32
		fill func(fd int) error
		want uint32
	}{
		{"file", unix.S_IFREG | 0o640, fill, unix.S_IFREG | 0o640},
		{"closed", unix.S_IFREG, fill, unix.S_IFREG},
		{"dir", unix.S_IFDIR | 0o755, func(fd int) error { return MkdirAt(fd, "sub", 0o700) }, unix.S_IFDIR | 0o700},
		{"link", unix.S_IFLNK | 0o777, fill, unix.S_IFLNK | 0o777},
		{"fifo", unix.S_IFIFO | 0o666, fill, unix.S_IFIFO | 0o600},
	} {
		fd, err := MakeAt(r.FD(), c.name, c.mode, "target", c.fill)
		check(t, err)
		st, err := StatFD(fd)
		if err != nil || st.Mode != c.want {
			t.Errorf("%s: %o %v, want %o", c.name, st.Mode, err, c.want)
		}
		check(t, Close(fd))
		if now, err := StatAt(r.FD(), c.name); err != nil || now.ID != st.ID {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := MakeAt(r.FD(), c.name, c.mode, "target", nil); !errors.Is(err, syscall.EEXIST) {
			t.Errorf("%s again: %v", c.name, err)
		}
	}
	if target, err := ReadlinkAt(r.FD(), "link"); err != nil || target != "target" {
		t.Errorf("%q %v", target, err)
	}
	failed := errors.New("failed")
	if fd, err := MakeAt(r.FD(), "half", unix.S_IFREG, "", func(int) error { return failed }); fd != -1 || !errors.Is(err, failed) {
		t.Errorf("%d %v", fd, err)
	}
	if _, err := MakeAt(r.FD(), "device", unix.S_IFCHR, "", nil); !errors.Is(err, syscall.EPERM) {
		t.Error(err)
	}
}

func TestCopyData(t *testing.T) {
	r, dir := openRoot(t)
	src, err := OpenAt(r.FD(), "src", unix.O_RDWR|unix.O_CREAT, 0o600)
	check(t, err)
	defer Close(src)
	const hole = 1 << 20
	check(t, PwriteFull(src, []byte("head"), 0))
	check(t, PwriteFull(src, []byte("tail"), hole))
	for name, size := range map[string]int64{"all": hole + 4, "part": 2, "none": 0, "more": hole + 100} {
		dst, err := OpenAt(r.FD(), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
		check(t, err)
		check(t, CopyData(dst, src, size))
		check(t, Close(dst))
		want := make([]byte, hole+100)
		copy(want, "head")
		copy(want[hole:], "tail")
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != string(want[:size]) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if st, err := StatAt(r.FD(), name); err != nil || st.Blocks*512 > 64<<10 {
			t.Errorf("%s: %d blocks: the hole was filled", name, st.Blocks)
		}
	}
	if CannotClone(pathErr("clone", "", syscall.EIO)) || !CannotClone(pathErr("clone", "", syscall.EXDEV)) {
		t.Error("CannotClone")
	}
}

// TestCopyContent copies a range over what is there already: data over holes and data, holes over
// both, and nothing but the range. Where files can share extents, too.
func TestCopyContent(t *testing.T) {
	for name, dir := range map[string]string{"temporary directory": t.TempDir(), "memory": "/dev/shm"} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(dir, "copy")
			check(t, err)
			defer os.RemoveAll(dir)
			src, err := os.Create(filepath.Join(dir, "src"))
			check(t, err)
			defer src.Close()
			const block = 64 << 10
			pattern := func(f *os.File, c byte, blocks ...int64) []byte {
				all := make([]byte, 8*block)
				check(t, f.Truncate(int64(len(all))))
				for _, b := range blocks {
					copy(all[b*block:(b+1)*block], bytes.Repeat([]byte{c}, block))
					_, err := f.WriteAt(all[b*block:(b+1)*block], b*block)
					check(t, err)
				}
				return all
			}
			from := pattern(src, 's', 1, 2, 5)
			for _, r := range [][2]int64{{0, 8 * block}, {block / 2, 6*block + 100}, {3 * block, 4 * block}, {0, 0}, {5*block + 1, 8 * block}} {
				dst, err := os.Create(filepath.Join(dir, "dst"))
				check(t, err)
				want := pattern(dst, 'd', 0, 2, 3, 6, 7)
				copy(want[r[0]:r[1]], from[r[0]:r[1]])
				check(t, CopyContent(int(dst.Fd()), int(src.Fd()), r[0], r[1]))
				got, err := os.ReadFile(dst.Name())
				check(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("%v: not what it should be", r)
				}
				n, err := DataBytes(int(dst.Fd()), 0, 8*block)
				check(t, err)
				if m := int64(len(want) - bytes.Count(want, []byte{0})); n < m || n > m+8<<10 {
					t.Errorf("%v: %d bytes of data, want %d", r, n, m)
				}
				check(t, dst.Close())
			}
		})
	}
}

// denied fails with EACCES until the owner of name has all of bits. It plays the
// kernel, which denies root nothing.
func denied(dir, name string, bits os.FileMode, runs *int) func() error {
	return func() error {
		*runs++
		fi, err := os.Stat(filepath.Join(dir, name))
		if err == nil && fi.Mode().Perm()&bits != bits {
			err = pathErr("open", name, syscall.EACCES)
		}
		return err
	}
}

func TestAllow(t *testing.T) {
	r, dir := openRoot(t)
	mode := func() uint32 {
		st, err := StatAt(r.FD(), "f")
		check(t, err)
		return st.Mode & 0o7777
	}
	check(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	fd, err := OpenAt(r.FD(), "f", unix.O_PATH, 0)
	check(t, err)
	defer Close(fd)
	for name, allow := range map[string]func(bits uint32, f func() error) (uint32, bool, error){
		"fd": func(bits uint32, f func() error) (uint32, bool, error) { return AllowFD(fd, bits, f) },
		"at": func(bits uint32, f func() error) (uint32, bool, error) { return AllowAt(r.FD(), "f", bits, f) },
	} {
		runs := 0
		check(t, ChmodAt(r.FD(), "f", 0o2040))
		was, given, err := allow(0o600, denied(dir, "f", 0o600, &runs))
		if err != nil || !given || was != 0o2040 || runs != 2 || mode() != 0o2640 {
			t.Errorf("%s: %o %v %v, %d runs, mode %o", name, was, given, err, runs, mode())
		}
		runs = 0
		_, given, err = allow(0o600, denied(dir, "f", 0o700, &runs)) // it is not these that are missing
		if !errors.Is(err, syscall.EACCES) || given || runs != 1 {
			t.Errorf("%s: %v %v, %d runs", name, given, err, runs)
		}
		if _, given, err = allow(0o700, func() error { return syscall.EIO }); !errors.Is(err, syscall.EIO) || given {
			t.Errorf("%s: %v %v", name, given, err)
		}
	}
	if _, _, err := AllowAt(r.FD(), "gone", 0o700, func() error { return syscall.EACCES }); !errors.Is(err, syscall.EACCES) {
		t.Error(err)
	}
}

func TestLent(t *testing.T) {
	r, dir := openRoot(t)
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o040))
	fd, err := OpenAt(r.FD(), "f", unix.O_PATH, 0)
	check(t, err)
	defer Close(fd)
	runs, ready := 0, 0
	check(t, LentFD(fd, 0o400, func() error { ready++; return nil }, denied(dir, "f", 0o400, &runs)))
	if st, err := StatFD(fd); err != nil || st.Mode&0o7777 != 0o040 || ready != 1 || runs != 2 {
		t.Errorf("%o %v, ready %d, runs %d", st.Mode, err, ready, runs)
	}
	notReady := errors.New("not ready")
	if err := LentFD(fd, 0o400, func() error { return notReady }, denied(dir, "f", 0o400, &runs)); !errors.Is(err, notReady) {
		t.Error(err)
	}
	if err := LentFD(fd, 0o040, func() error { t.Error("ready"); return nil }, func() error { return syscall.EACCES }); !errors.Is(err, syscall.EACCES) {
		t.Error(err)
	}
	again, err := ReopenLent(fd, unix.O_RDONLY, nil)
	check(t, err)
	defer Close(again)
	b := make([]byte, 2)
	if n, err := PreadFull(again, b, 0); n != 1 || err != nil {
		t.Error(n, err)
	}
	if st, err := StatFD(fd); err != nil || st.Mode&0o7777 != 0o040 {
		t.Errorf("%o %v", st.Mode, err)
	}
}

func TestWalk(t *testing.T) {
	r, dir := openRoot(t)
	check(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "a/b/f"), nil, 0o600))
	check(t, os.Symlink("a", filepath.Join(dir, "link")))
	walk := func(depth int, f func(path string) error) ([]string, error) {
		var got []string
		err := Walk(r.FD(), depth, func(fd int, path string, d *Dirent) error {
			st, err := StatAt(fd, d.Name)
			if err != nil || st.Ino != d.Ino || filepath.Base(path) != d.Name {
				t.Errorf("%s: %v", path, err)
			}
			got = append(got, path)
			return f(path)
		})
		slices.Sort(got)
		return got, err
	}
	failed := errors.New("failed")
	for _, c := range []struct {
		depth int
		f     func(path string) error
		want  string
		err   error
	}{
		{9, func(string) error { return nil }, "a a/b a/b/c a/b/f link", nil},
		{0, func(string) error { return nil }, "a link", nil},
		{1, func(string) error { return nil }, "a a/b link", nil},
		{9, func(p string) error {
			if p == "a/b" {
				return fs.SkipDir
			}
			return nil
		}, "a a/b link", nil},
	} {
		if got, err := walk(c.depth, c.f); strings.Join(got, " ") != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q %v, want %q", got, err, c.want)
		}
	}
	if got, err := walk(9, func(string) error { return fs.SkipAll }); err != nil || len(got) != 1 {
		t.Errorf("%q %v", got, err)
	}
	if _, err := walk(9, func(string) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}

func TestRemoveAll(t *testing.T) {
	r, dir := openRoot(t)
	check(t, os.MkdirAll(filepath.Join(dir, "outside"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "outside/f"), nil, 0o600))
	deep := filepath.Join(dir, "tree")
	for i := range 3 * removeDepth {
		deep = filepath.Join(deep, fmt.Sprint(i%7))
	}
	check(t, os.MkdirAll(deep, 0o755))
	check(t, os.WriteFile(filepath.Join(deep, "f"), nil, 0o600))
	check(t, os.Symlink("../outside", filepath.Join(dir, "tree/link")))
	var removed atomic.Int32
	check(t, RemoveAll(context.Background(), r.FD(), "tree", func(dirfd int, name string) error {
		err := UnlinkAt(dirfd, name)
		if err == nil {
			removed.Add(1)
		}
		return err
	}))
	check(t, RemoveAll(context.Background(), r.FD(), "tree", nil)) // it is gone
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || removed.Load() != 2 {
		t.Errorf("%v %v, %d removed", entries, err, removed.Load())
	}
	if _, err := os.Stat(filepath.Join(dir, "outside/f")); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := RemoveAll(ctx, r.FD(), "outside", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEach(t *testing.T) {
	var calls [100]atomic.Int32
	Each(len(calls), func(i int) { calls[i].Add(1) })
	for i := range calls {
		if calls[i].Load() != 1 {
			t.Errorf("%d: %d calls", i, calls[i].Load())
		}
	}
	Each(0, func(int) { t.Error("called") })
}
