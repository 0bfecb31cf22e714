//go:build darwin || (linux && portable)

package posix

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder opens a new directory.
func folder(t *testing.T) (fd int, path string) {
	t.Helper()
	path = t.TempDir()
	fd, err := Open(path, O_RDONLY|O_DIRECTORY, 0)
	check(t, err)
	t.Cleanup(func() { _ = Close(fd) })
	return fd, path
}

// openHeld opens name with O_PATH, and expects that it is no descriptor of the system's.
func openHeld(t *testing.T, dir int, name string) int {
	t.Helper()
	fd, err := Openat(dir, name, O_PATH|O_NOFOLLOW, 0)
	check(t, err)
	if fd < firstHeld {
		t.Fatalf("%s is open as %d", name, fd)
	}
	t.Cleanup(func() { _ = Close(fd) })
	return fd
}

// TestHeldFollows: what cannot be opened goes along with what this process does to its name, and is refused when somebody else did something.
func TestHeldFollows(t *testing.T) {
	dir, path := folder(t)
	check(t, Mkdirat(dir, "sub", 0o700))
	sub, err := Openat(dir, "sub", O_PATH|O_DIRECTORY, 0)
	check(t, err)
	defer func() { _ = Close(sub) }()
	check(t, Symlinkat("one", dir, "a"))
	check(t, Symlinkat("two", dir, "b"))
	a, b := openHeld(t, dir, "a"), openHeld(t, dir, "b")
	target := func(fd int) string {
		t.Helper()
		buf := make([]byte, 10)
		n, err := Readlinkat(fd, "", buf)
		check(t, err)
		return string(buf[:n])
	}
	check(t, Renameat(dir, "a", dir, "b", RENAME_EXCHANGE))
	check(t, Renameat(dir, "b", sub, "c", RENAME_NOREPLACE))
	if target(a) != "one" || target(b) != "two" {
		t.Errorf("a leads to %s, b to %s", target(a), target(b))
	}
	check(t, Linkat(sub, "c", dir, "same"))
	check(t, Renameat(dir, "same", sub, "c", 0)) // does nothing: they are one inode
	check(t, Unlinkat(dir, "same", false))
	check(t, Chown(a, -1, -1))
	check(t, Unlinkat(sub, "c", false))
	var st Stat_t
	if err := Fstat(a, &st); err != nil || st.Nlink != 0 || st.Mode&S_IFMT != S_IFLNK {
		t.Errorf("a removed symlink: %+v, %v", st, err)
	}
	if _, err := Readlinkat(a, "", make([]byte, 10)); err != ESTALE {
		t.Errorf("a removed symlink is read: %v", err)
	}
	check(t, os.Remove(filepath.Join(path, "a")))
	check(t, os.Symlink("three", filepath.Join(path, "a")))
	if err := Chown(b, -1, -1); err != ESTALE {
		t.Errorf("another file of the name: %v", err)
	}
}

// TestHeldFIFO: a FIFO is not opened to look at it.
func TestHeldFIFO(t *testing.T) {
	dir, path := folder(t)
	check(t, Mknodat(dir, "f", S_IFIFO|0o600))
	fd := openHeld(t, dir, "f")
	check(t, Chmod(fd, 0o640))
	check(t, Utimens(fd, &[2]Timespec{{Nsec: UTIME_OMIT}, {Sec: 5, Nsec: 7}}))
	var st Stat_t
	check(t, Fstat(fd, &st))
	if st.Mode&0o777 != 0o640 || st.Mtim.Sec != 5 || st.Mtim.Nsec != 7 {
		t.Errorf("%+v", st)
	}
	if w, err := unix.Open(filepath.Join(path, "f"), unix.O_WRONLY|unix.O_NONBLOCK, 0); err != unix.ENXIO {
		t.Errorf("somebody reads the FIFO: %d, %v", w, err)
	}
	if err := Mknodat(dir, "f", S_IFIFO|0o600); err != EEXIST {
		t.Errorf("once more: %v", err)
	}
}

// TestSocket: a socket is made as mknod makes it.
func TestSocket(t *testing.T) {
	dir, path := folder(t)
	long := make([]byte, 200)
	for i := range long {
		long[i] = 'x'
	}
	if err := Mknodat(dir, string(long), S_IFSOCK|0o600); err != EPERM {
		t.Errorf("a long path: %v", err)
	}
	if len(path) > 90 {
		t.Skip("the temporary directory has a long path")
	}
	check(t, Mknodat(dir, "s", S_IFSOCK|0o710))
	var st Stat_t
	check(t, Fstat(openHeld(t, dir, "s"), &st))
	if st.Mode != S_IFSOCK|0o710 {
		t.Errorf("%o", st.Mode)
	}
	if err := Mknodat(dir, "s", S_IFSOCK|0o600); err != EEXIST {
		t.Errorf("once more: %v", err)
	}
}

// TestReopen: a file is opened anew under the name that it has now; without one its descriptor is shared, as far as it goes.
func TestReopen(t *testing.T) {
	dir, path := folder(t)
	check(t, os.WriteFile(filepath.Join(path, "f"), []byte("text"), 0o600))
	r, err := Openat(dir, "f", O_RDONLY, 0)
	check(t, err)
	defer func() { _ = Close(r) }()
	check(t, Renameat(dir, "f", dir, "g", 0))
	w, err := Reopen(r, O_RDWR)
	check(t, err)
	defer func() { _ = Close(w) }()
	if _, err := Pwrite(w, []byte("T"), 0); err != nil {
		t.Error(err)
	}
	check(t, Unlinkat(dir, "g", false))
	if fd, err := Reopen(r, O_RDWR); err != ESTALE {
		t.Errorf("without a name, to write: %d, %v", fd, err)
	}
	check(t, os.WriteFile(filepath.Join(path, "g"), []byte("other"), 0o600))
	again, err := Reopen(w, O_RDONLY)
	check(t, err)
	defer func() { _ = Close(again) }()
	buf := make([]byte, 9)
	if n, err := Pread(again, buf, 0); err != nil || string(buf[:n]) != "Text" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// TestBeneath: no symlink is followed on the way.
func TestBeneath(t *testing.T) {
	dir, path := folder(t)
	check(t, os.MkdirAll(filepath.Join(path, "a/b"), 0o700))
	check(t, os.Symlink("a", filepath.Join(path, "l")))
	check(t, os.WriteFile(filepath.Join(path, "f"), nil, 0o600))
	for _, c := range []struct {
		path  string
		flags int
		want  error
	}{
		{"a/b", O_RDONLY, nil}, {"a/b", O_PATH, nil}, {".", O_PATH | O_DIRECTORY, nil}, {"l", O_PATH, nil},
		{"l", O_RDONLY, ELOOP}, {"l", O_RDONLY | O_DIRECTORY, ELOOP}, {"l/b", O_RDONLY, ELOOP}, {"l/b", O_PATH, ELOOP},
		{"f/b", O_PATH, ENOTDIR}, {"f", O_RDONLY | O_DIRECTORY, ENOTDIR}, {"l", O_PATH | O_DIRECTORY, ENOTDIR},
		{"a/../f", O_RDONLY, EXDEV}, {"a/c", O_RDONLY, ENOENT},
	} {
		fd, err := OpenBeneath(dir, c.path, c.flags)
		if err == nil {
			_ = Close(fd)
		}
		if err != c.want {
			t.Errorf("%s with %#x: %v, want %v", c.path, c.flags, err, c.want)
		}
	}
}

// TestListing: whoever goes on behind an entry gets each of those that were there all the time once, whatever is removed meanwhile.
func TestListing(t *testing.T) {
	dir, path := folder(t)
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("file%d", i)
		check(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
		want = append(want, name)
	}
	var got []string
	pos, buf := int64(0), make([]byte, 256)
	for {
		if _, err := Seek(dir, pos, SEEK_SET); err != nil {
			t.Fatal(err)
		}
		n, err := Getdents(dir, buf)
		check(t, err)
		if n == 0 {
			break
		}
		name := unix.ByteSliceToString(buf[19:])
		pos = int64(binary.NativeEndian.Uint64(buf[8:]))
		if name == "." || name == ".." {
			continue
		}
		got = append(got, name)
		check(t, os.Remove(filepath.Join(path, name)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d", len(got), len(want))
	}
}

// TestTemporary: each opening has its own locks, and nothing stays.
func TestTemporary(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	fd, err := Temporary("locks")
	check(t, err)
	again, err := Reopen(fd, O_RDWR)
	check(t, err)
	check(t, SetLock(fd, Lock{Type: F_WRLCK, Start: 3, Length: 4}))
	if err := SetLock(again, Lock{Type: F_RDLCK}); err != EAGAIN && err != EACCES {
		t.Errorf("a second lock: %v", err)
	}
	found, err := GetLock(again, Lock{Type: F_RDLCK})
	if err != nil || found.Type != F_WRLCK || found.Start != 3 || found.Length != 4 {
		t.Errorf("%+v, %v", found, err)
	}
	check(t, Close(again))
	check(t, Close(fd))
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
