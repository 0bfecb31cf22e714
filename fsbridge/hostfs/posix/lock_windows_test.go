package posix

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"
)

func TestFlock(t *testing.T) {
	f := newFolder(t)
	f.write("lock", "")
	a, b := f.open("lock", O_RDWR), f.open("lock", O_RDONLY)
	for i, step := range []struct {
		fd, how int
		want    error
	}{
		{a, LOCK_EX, nil}, {a, LOCK_EX, nil}, {b, LOCK_EX, EAGAIN}, {b, LOCK_SH, EAGAIN}, {b, LOCK_UN, nil},
		{a, LOCK_SH, nil}, {b, LOCK_SH, nil}, {b, LOCK_EX, EAGAIN}, {a, LOCK_UN, nil}, {b, LOCK_EX, nil}, {a, LOCK_SH, EAGAIN}, {b, LOCK_UN, nil},
		{a, LOCK_EX, nil}, {a, 0, EINVAL}, {a, LOCK_SH | LOCK_EX, EINVAL},
	} {
		if err := Flock(step.fd, step.how|LOCK_NB); err != step.want {
			t.Errorf("step %d: %v, not %v", i, err, step.want)
		}
	}
	// It belongs to the open file, and ends with it.
	again := f.ok(Dup(a))
	f.must(Close(a))
	if err := Flock(b, LOCK_EX|LOCK_NB); err != EAGAIN {
		t.Error(err)
	}
	waited := make(chan error)
	go func() { waited <- Flock(b, LOCK_EX) }()
	f.must(Close(again))
	f.must(<-waited)
}

// Nobody is kept from the bytes of a file by our locks.
func TestLocksAreAdvisory(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	fd := f.open("file", O_RDWR)
	f.must(Flock(fd, LOCK_EX))
	f.must(SetLock(fd, Lock{Type: F_WRLCK}))
	other := f.open("file", O_RDWR)
	f.ok(Pwrite(other, []byte("C"), 0))
	f.write("file", "more content")
	if got := f.content(other); got != "more content" || f.read("file") != got {
		t.Errorf("%q", got)
	}
}

// A program of Windows locks bytes, and keeps us from them: that is no EAGAIN, which is for descriptors that do not wait.
func TestBytesThatAreLocked(t *testing.T) {
	f := newFolder(t)
	f.write("file", "content")
	fd, theirs := f.open("file", O_RDWR), f.open("file", O_RDWR)
	f.must(here.withFile(theirs, func(u using) error { return u.lockBytes(2, 3, true) }))
	if _, err := Pread(fd, make([]byte, 1), 3); err == nil {
		t.Skip("nobody is kept from locked bytes here (wine)")
	}
	for off, want := range map[int64]error{0: nil, 3: EBUSY, 5: nil} {
		if _, err := Pwrite(fd, []byte("x"), off); err != want {
			t.Errorf("write at %d: %v", off, err)
		}
		if _, err := Pread(fd, make([]byte, 1), off); err != want {
			t.Errorf("read at %d: %v", off, err)
		}
	}
}

func TestRecordLocks(t *testing.T) {
	f := newFolder(t)
	f.write("file", "")
	a, b := f.open("file", O_RDWR), f.open("file", O_RDWR)
	for i, step := range []struct {
		fd          int
		kind        int16
		start, size int64
		want        error
	}{
		{a, F_WRLCK, 10, 10, nil}, {b, F_WRLCK, 0, 10, nil}, {b, F_WRLCK, 20, 0, nil}, {b, F_RDLCK, 15, 1, EAGAIN}, {b, F_WRLCK, 5, 6, EAGAIN},
		{a, F_UNLCK, 12, 2, nil}, {b, F_RDLCK, 12, 2, nil}, {a, F_RDLCK, 10, 6, nil}, {a, F_WRLCK, 12, 1, EAGAIN}, {b, F_RDLCK, 10, 3, nil},
		{a, F_UNLCK, 0, 0, nil}, {b, F_WRLCK, 0, 0, nil}, {a, F_RDLCK, 1<<63 - 1, 1, EAGAIN}, {b, F_UNLCK, 0, 0, nil}, {a, F_WRLCK, 1<<63 - 2, 1, nil},
		{a, F_RDLCK, -1, 1, EINVAL}, {a, 9, 0, 1, EINVAL},
	} {
		err := SetLock(step.fd, Lock{Type: step.kind, Start: step.start, Length: step.size})
		if err != step.want {
			t.Errorf("step %d: %v, not %v", i, err, step.want)
		}
	}
	f.must(SetLock(a, Lock{Type: F_WRLCK, Start: 100, Length: 10}))
	f.must(SetLock(a, Lock{Type: F_RDLCK, Start: 200, Length: 10}))
	f.must(SetLock(b, Lock{Type: F_RDLCK, Start: 300, Length: 1}))
	for _, c := range []struct{ ask, want Lock }{
		{Lock{Type: F_RDLCK, Start: 0, Length: 100}, Lock{Type: F_UNLCK, Start: 0, Length: 100}},
		{Lock{Type: F_RDLCK, Start: 109, Length: 1}, Lock{Type: F_WRLCK, Start: 109, Length: 1, PID: -1}},
		{Lock{Type: F_WRLCK, Start: 209, Length: 5}, Lock{Type: F_RDLCK, Start: 209, Length: 5, PID: -1}},
		{Lock{Type: F_RDLCK, Start: 200, Length: 5}, Lock{Type: F_UNLCK, Start: 200, Length: 5}},
		{Lock{Type: F_RDLCK, Start: 300, Length: 1}, Lock{Type: F_UNLCK, Start: 300, Length: 1}}, // its own
		{Lock{Type: F_WRLCK, Start: 250}, Lock{Type: F_WRLCK, Start: 301, PID: -1}},
	} {
		if got, err := GetLock(b, c.ask); got != c.want || err != nil {
			t.Errorf("%+v: %+v, %v, not %+v", c.ask, got, err, c.want)
		}
	}
	if _, err := GetLock(b, Lock{Type: F_UNLCK}); err != EINVAL {
		t.Error(err)
	}
	f.must(Close(a))
	f.must(SetLock(b, Lock{Type: F_WRLCK}))
}

func TestTemporary(t *testing.T) {
	before, err := filepath.Glob(os.TempDir() + `\sandbox-*`)
	if err != nil {
		t.Fatal(err)
	}
	f := newFolder(t)
	fd := f.ok(Temporary("thing"))
	f.ok(Write(fd, []byte("content")))
	again := f.ok(Reopen(fd, O_RDWR))
	f.must(Close(fd))
	if got := f.content(again); got != "content" {
		t.Errorf("%q", got)
	}
	f.must(Close(again))
	after, err := filepath.Glob(os.TempDir() + `\sandbox-*`)
	if err != nil || len(after) != len(before) {
		t.Errorf("%q is left: %v", after, err)
	}
}

func TestMapping(t *testing.T) {
	f := newFolder(t)
	fd := f.open("file", O_RDWR|O_CREAT)
	if _, err := Mmap(fd, 0, 10); err == nil {
		t.Error("what is not there is mapped")
	}
	f.must(Ftruncate(fd, 300_000))
	for _, off := range []int64{0, 4096, 65536, 69632, 131072 + 4096} {
		mem, err := Mmap(fd, off, 100_000)
		f.must(err)
		copy(mem[99_990:], "end")
		f.ok(Pwrite(fd, []byte("start"), off))
		buf := make([]byte, 3)
		f.ok(Pread(fd, buf, off+99_990))
		if string(mem[:5]) != "start" || string(buf) != "end" {
			t.Errorf("at %d: %q %q", off, mem[:5], buf)
		}
		if err := Populate(mem); err != ENOSYS {
			t.Error(err)
		}
		f.must(Munmap(mem))
	}
	for _, c := range []struct {
		off    int64
		length int
	}{{0, 0}, {0, -1}, {-4096, 1}, {100, 1}, {1 << 30, 10}} {
		if mem, err := Mmap(fd, c.off, c.length); err == nil {
			t.Errorf("%+v gives %d bytes", c, len(mem))
		}
	}
	if err := Munmap(nil); err != EINVAL {
		t.Error(err)
	}
	f.must(Ftruncate(fd, 1))
}

func TestHoles(t *testing.T) {
	f := newFolder(t)
	fd := f.open("file", O_RDWR|O_CREAT)
	f.ok(Pwrite(fd, []byte(strings.Repeat("x", 10)), 0))
	err := Fallocate(fd, FALLOC_FL_PUNCH_HOLE|FALLOC_FL_KEEP_SIZE, 2, 5)
	want := "xx\x00\x00\x00\x00\x00xxx"
	if err == EOPNOTSUPP {
		t.Log("no hole can be made here (wine)")
		want, err = "xxxxxxxxxx", nil
	}
	if got := f.content(fd); got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range []struct {
		mode      uint32
		off, size int64
		want      error
	}{{FALLOC_FL_INSERT_RANGE, 0, 1, EOPNOTSUPP}, {FALLOC_FL_KEEP_SIZE, 0, 100, EOPNOTSUPP}, {0, -1, 1, EINVAL}, {0, 0, 0, EINVAL}, {0, 1 << 62, 1 << 62, EINVAL}} {
		if err := Fallocate(fd, c.mode, c.off, c.size); err != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What is not there says so.
func TestWhatWindowsHasNot(t *testing.T) {
	f := newFolder(t)
	f.write("file", "x")
	fd := f.open("file", O_RDWR)
	calls := map[string]error{"clone": Clone(fd, fd), "setxattr": Setxattr(f.fd, "file", "user.a", nil, 0), "removexattr": Removexattr(f.fd, "file", "user.a"),
		"write back": WriteBack(fd), "flags": SetFlags(fd, 0)}
	_, calls["copy"] = CopyRange(fd, 0, fd, 0, 1)
	_, calls["getxattr"] = Getxattr(f.fd, "file", "user.a", nil)
	_, calls["listxattr"] = Listxattr(f.fd, "file", nil)
	_, calls["get flags"] = Flags(fd)
	for name, err := range calls {
		if err != EOPNOTSUPP {
			t.Errorf("%s: %v", name, err)
		}
	}
	if written, known := Written(fd); !written || known {
		t.Error("somebody tells who writes")
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		host error
		want Errno
	}{
		{windows.STATUS_OBJECT_NAME_NOT_FOUND, ENOENT}, {windows.STATUS_OBJECT_PATH_NOT_FOUND, ENOENT}, {windows.STATUS_DELETE_PENDING, ENOENT},
		{windows.STATUS_OBJECT_NAME_COLLISION, EEXIST}, {windows.STATUS_SHARING_VIOLATION, EBUSY}, {windows.STATUS_USER_MAPPED_FILE, EBUSY},
		{windows.STATUS_ACCESS_DENIED, EACCES}, {windows.STATUS_CANNOT_DELETE, EACCES}, {windows.STATUS_DISK_FULL, ENOSPC},
		{windows.STATUS_REPARSE_POINT_ENCOUNTERED, ELOOP}, {windows.STATUS_NOT_SAME_DEVICE, EXDEV}, {windows.STATUS_DIRECTORY_NOT_EMPTY, ENOTEMPTY},
		{windows.STATUS_OBJECT_NAME_INVALID, EINVAL}, {windows.STATUS_INVALID_INFO_CLASS, EOPNOTSUPP}, {windows.STATUS_TOO_MANY_LINKS, EMLINK},
		{windows.STATUS_MEDIA_WRITE_PROTECTED, EROFS}, {windows.STATUS_UNSUCCESSFUL, EIO}, {windows.STATUS_QUOTA_EXCEEDED, EDQUOT},
		{windows.ERROR_FILE_NOT_FOUND, ENOENT}, {windows.ERROR_ALREADY_EXISTS, EEXIST}, {windows.ERROR_SHARING_VIOLATION, EBUSY},
		{windows.ERROR_LOCK_VIOLATION, EBUSY}, {windows.ERROR_HANDLE_DISK_FULL, ENOSPC}, {windows.ERROR_INVALID_HANDLE, EBADF},
		{windows.ERROR_PRIVILEGE_NOT_HELD, EPERM}, {windows.ERROR_GEN_FAILURE, EIO}, {windows.ERROR_NOT_SUPPORTED, EOPNOTSUPP},
		{windows.ERROR_NOT_ENOUGH_MEMORY, ENOMEM}, {syscall.EISDIR, EISDIR}, {syscall.ESTALE, ESTALE}, {syscall.ELOOP, ELOOP}, {syscall.ENOTSUP, EOPNOTSUPP},
		{syscall.ENOENT, ENOENT}, {syscall.ENOTDIR, ENOENT}, // syscall has Win32's ERROR_PATH_NOT_FOUND for it
		{&os.PathError{Err: windows.ERROR_ACCESS_DENIED}, EACCES}, {&os.PathError{Err: ELOOP}, ELOOP},
	} {
		if got := from(c.host); got != c.want {
			t.Errorf("%v: %v, not %v", c.host, got, c.want)
		}
		if hosts(c.host) && !errors.Is(c.want, c.host) {
			t.Errorf("%v is not %v", c.want, c.host)
		}
		if errors.Is(ETXTBSY, c.host) {
			t.Errorf("ETXTBSY is %v", c.host)
		}
	}
	other := errors.New("other")
	if from(nil) != nil || from(other) != other {
		t.Error("what is no number is changed")
	}
	for e, std := range map[Errno]error{ENOENT: fs.ErrNotExist, EEXIST: fs.ErrExist, ENOTEMPTY: fs.ErrExist, EACCES: fs.ErrPermission, EOPNOTSUPP: errors.ErrUnsupported} {
		if !errors.Is(e, std) {
			t.Errorf("%v is not %v", e, std)
		}
	}
}
