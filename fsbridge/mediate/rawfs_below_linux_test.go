package mediate

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLookBelow: however many names there are, no symlink is followed, and neither the directory nor its mount is left.
func TestLookBelow(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b/c", "a/..d"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("a", filepath.Join(dir, "l")), os.Symlink("b", filepath.Join(dir, "a/l")), os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer rawClose(fd)
	var top rawInfo
	if errno := rawLook(fd, rawEmpty, &top); errno != 0 {
		t.Fatal(errno)
	}
	for _, test := range []struct {
		path, leads string
		errno       syscall.Errno
	}{
		{"a/", "a", 0}, {"a//", "a", 0}, {"a/b/", "a/b", 0}, {"a/b/c/", "a/b/c", 0}, {"a//b/c//", "a/b/c", 0}, {"a/..d/", "a/..d", 0},
		{"./", ".", 0}, {"../", "", syscall.EXDEV}, {"a/b/../../../", "", syscall.EXDEV},
		{"l/", "", syscall.ENOTDIR}, {"a/l/", "", syscall.ENOTDIR}, {"a/l/c/", "", syscall.ELOOP}, {"f/", "", syscall.ENOTDIR}, {"no/", "", syscall.ENOENT},
	} {
		got, err := below(fd, test.path, top.Mount)
		if test.errno != 0 {
			if !errors.Is(err, test.errno) {
				t.Errorf("%s: %v, want %v", test.path, err, test.errno)
			}
			continue
		}
		var want rawInfo
		if errno := rawLook(fd, rawName(test.leads+"\x00"), &want); errno != 0 || err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v, %v", test.path, got, err, want, errno)
		}
	}
	if _, err := below(fd, "a/", top.Mount+1); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("on another mount: %v", err)
	}
}

// below walks path, stretch by stretch.
func below(dir int, path string, mount uint64) (out rawInfo, err error) {
	rest := []byte(path)
	for len(rest) > 0 {
		var next []byte
		next, rest = rawStretch(rest)
		if err := rawLookBelow(dir, rawTerminated(nil, next), mount, &out); err != nil {
			return out, err
		}
		if len(rest) == 0 {
			break
		}
		fd, errno := rawOpenDirAt(dir, rawTerminated(nil, next), unix.RESOLVE_BENEATH)
		if errno != 0 {
			return out, errno
		}
		defer rawClose(fd)
		dir = fd
	}
	return out, nil
}
