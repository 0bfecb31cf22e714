package posix

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/windows"
)

// folder is a directory of a test, open as fd. At the test's end no descriptor more may be open than at its start.
type folder struct {
	*testing.T
	path string
	fd   int
}

func newFolder(t *testing.T) folder {
	t.Helper()
	path := t.TempDir()
	before := openNow()
	f := folder{t, path, -1}
	f.fd = f.ok(Open(path, O_RDONLY|O_DIRECTORY, 0))
	t.Cleanup(func() {
		f.must(Close(f.fd))
		if n := openNow(); n != before {
			t.Errorf("%d descriptors are left open", n-before)
		}
	})
	return f
}

func openNow() int { return len(here.descriptors.all(func(*file) bool { return true })) }

func (f folder) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f folder) ok(n int, err error) int {
	f.Helper()
	f.must(err)
	return n
}

// refused expects an error.
func (f folder) refused(want Errno) func(int, error) {
	return func(fd int, err error) {
		f.Helper()
		if err != want {
			f.Errorf("%v, not %v", err, want)
		}
		if err == nil && fd >= firstNumber {
			f.must(Close(fd))
		}
	}
}

// open opens and closes at the test's end.
func (f folder) open(name string, flags int) int {
	f.Helper()
	fd := f.ok(Openat(f.fd, name, flags, 0o644))
	f.Cleanup(func() { _ = Close(fd) })
	return fd
}

func (f folder) write(name, content string) {
	f.Helper()
	f.must(os.WriteFile(filepath.Join(f.path, name), []byte(content), 0o644))
}

func (f folder) read(name string) string {
	f.Helper()
	b, err := os.ReadFile(filepath.Join(f.path, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (f folder) mkdir(names ...string) {
	f.Helper()
	for _, n := range names {
		f.must(os.Mkdir(filepath.Join(f.path, n), 0o755))
	}
}

func (f folder) stat(fd int) (st Stat_t) {
	f.Helper()
	f.must(Fstat(fd, &st))
	return st
}

func (f folder) statAt(name string) (st Stat_t) {
	f.Helper()
	f.must(Fstatat(f.fd, name, &st))
	return st
}

func (f folder) content(fd int) string {
	f.Helper()
	buf := make([]byte, 100)
	return string(buf[:f.ok(Pread(fd, buf, 0))])
}

// names lists a directory from where its descriptor is.
func (f folder) names(fd, size int) []string {
	f.Helper()
	return slices.Sorted(maps.Keys(f.entries(fd, size)))
}

type seen struct {
	number uint64
	kind   byte
}

func (f folder) entries(fd, size int) map[string]seen {
	f.Helper()
	found := map[string]seen{}
	for buf := make([]byte, size); ; {
		b := buf[:f.ok(Getdents(fd, buf))]
		if len(b) == 0 {
			return found
		}
		for len(b) > 0 {
			n := binary.NativeEndian.Uint16(b[16:])
			name, _, _ := bytes.Cut(b[19:n], []byte{0})
			found[string(name)] = seen{binary.NativeEndian.Uint64(b), b[18]}
			b = b[n:]
		}
	}
}

// held opens a file as another program would that shares nothing, or only what share says.
func (f folder) held(name string, access, share uint32) (release func()) {
	f.Helper()
	p, err := windows.UTF16PtrFromString(filepath.Join(f.path, name))
	f.must(err)
	h, err := windows.CreateFile(p, access, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	f.must(err)
	return func() { f.must(windows.CloseHandle(h)) }
}
