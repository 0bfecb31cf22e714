//go:build linux

package fuse

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// TestHooks performs each mutation through the mount and compares what the
// Interceptor was asked.
func TestHooks(t *testing.T) {
	r := new(recorder)
	m := mount(t, func(o *vfs.Options) { o.Hooks = r })
	p := func(name string) string { return filepath.Join(m.mnt, name) }
	check(t, os.WriteFile(filepath.Join(m.host, "old"), []byte("content"), 0o644))
	fd := -1
	open := func(name string, flags int) func() error {
		return func() (err error) { fd, err = unix.Open(p(name), flags|unix.O_CLOEXEC, 0o644); return err }
	}
	closeFD := func() error { return unix.Close(fd) }
	covered := map[fsbridge.Kind]bool{}
	for _, c := range []struct {
		name string
		do   func() error
		want []fsbridge.Kind
	}{
		{"open existing for writing", open("old", unix.O_RDWR), nil},
		{"write", func() error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err }, []fsbridge.Kind{fsbridge.OpWrite}},
		{"read", func() error { _, err := unix.Pread(fd, make([]byte, 3), 0); return err }, nil},
		{"ftruncate", func() error { return unix.Ftruncate(fd, 3) }, []fsbridge.Kind{fsbridge.OpTruncate}},
		{"fallocate", func() error { return unix.Fallocate(fd, 0, 0, 100) }, []fsbridge.Kind{fsbridge.OpFallocate}},
		{"punch", func() error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 50)
		}, []fsbridge.Kind{fsbridge.OpFallocate}},
		{"fchmod", func() error { return unix.Fchmod(fd, 0o600) }, []fsbridge.Kind{fsbridge.OpSetattr}},
		{"copy", func() error {
			to, from := int64(200), int64(0)
			_, err := unix.CopyFileRange(fd, &from, fd, &to, 10, 0)
			return err
		}, []fsbridge.Kind{fsbridge.OpCopyRange}},
		{"close", closeFD, nil},
		{"truncate on open", open("old", unix.O_WRONLY|unix.O_TRUNC), []fsbridge.Kind{fsbridge.OpTruncate}},
		{"close", closeFD, nil},
		{"create that exists", open("old", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC), []fsbridge.Kind{fsbridge.OpTruncate}},
		{"close", closeFD, nil},
		{"truncate", func() error { return os.Truncate(p("old"), 1) }, []fsbridge.Kind{fsbridge.OpTruncate}},
		{"utimes", func() error { return unix.Utimes(p("old"), make([]unix.Timeval, 2)) }, []fsbridge.Kind{fsbridge.OpSetattr}},
		{"setxattr", func() error { return unix.Setxattr(p("old"), "user.a", []byte("b"), 0) }, []fsbridge.Kind{fsbridge.OpSetXattr}},
		{"getxattr", func() error { _, err := unix.Getxattr(p("old"), "user.a", make([]byte, 9)); return err }, nil},
		{"removexattr", func() error { return unix.Removexattr(p("old"), "user.a") }, []fsbridge.Kind{fsbridge.OpRemoveXattr}},
		{"create", open("new", unix.O_WRONLY|unix.O_CREAT), []fsbridge.Kind{fsbridge.OpCreate}},
		{"close", closeFD, nil},
		{"link", func() error { return os.Link(p("new"), p("link")) }, []fsbridge.Kind{fsbridge.OpLink}},
		{"symlink", func() error { return os.Symlink("new", p("sym")) }, []fsbridge.Kind{fsbridge.OpSymlink}},
		{"readlink", func() error { _, err := os.Readlink(p("sym")); return err }, nil},
		{"mkdir", func() error { return os.Mkdir(p("dir"), 0o755) }, []fsbridge.Kind{fsbridge.OpMkdir}},
		{"list", func() error { _, err := os.ReadDir(m.mnt); return err }, nil},
		{"mknod", func() error { return unix.Mknod(p("reg"), unix.S_IFREG|0o644, 0) }, []fsbridge.Kind{fsbridge.OpMknod}},
		{"mkfifo", func() error { return unix.Mkfifo(p("fifo"), 0o644) }, []fsbridge.Kind{fsbridge.OpMknod}},
		{"rename", func() error { return os.Rename(p("new"), p("dir/new")) }, []fsbridge.Kind{fsbridge.OpRename}},
		{"rename over", func() error { return os.Rename(p("reg"), p("dir/new")) }, []fsbridge.Kind{fsbridge.OpRename}},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, p("dir/new"), unix.AT_FDCWD, p("old"), unix.RENAME_EXCHANGE)
		}, []fsbridge.Kind{fsbridge.OpRename}},
		{"unlink", func() error { return unix.Unlink(p("dir/new")) }, []fsbridge.Kind{fsbridge.OpUnlink}},
		{"rmdir", func() error { return unix.Rmdir(p("dir")) }, []fsbridge.Kind{fsbridge.OpRmdir}},
		{"tmpfile", open(".", unix.O_TMPFILE|unix.O_RDWR), []fsbridge.Kind{fsbridge.OpTmpfile}},
		{"close", closeFD, nil},
	} {
		r.take()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := r.take()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the Interceptor was asked %v, want %v", c.name, got, c.want)
		}
		for _, k := range got {
			covered[k] = true
		}
	}
	for k := fsbridge.OpWrite; k.String() != "unknown"; k++ {
		if !covered[k] {
			t.Errorf("no request was seen to pass as %v", k)
		}
	}
	if r.open != 0 {
		t.Errorf("%d operations began and did not end", r.open)
	}
}

// TestDenied asks that nothing happens on the host when the Interceptor
// refuses, and that its error arrives.
func TestDenied(t *testing.T) {
	var deny atomic.Value
	r := &recorder{gate: func(*fsbridge.Op) error { return deny.Load().([]error)[0] }}
	m := mount(t, func(o *vfs.Options) { o.Hooks = r })
	p := func(name string) string { return filepath.Join(m.mnt, name) }
	check(t, os.WriteFile(filepath.Join(m.host, "f"), []byte("content"), 0o644))
	check(t, os.Mkdir(filepath.Join(m.host, "d"), 0o755))
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{fsbridge.ErrDenied, syscall.EPERM}, {fsbridge.ErrReadOnly, syscall.EROFS},
		{fsbridge.ErrNoSpace, syscall.ENOSPC}, {fsbridge.ErrFailed, syscall.EIO},
		{errors.Join(fsbridge.ErrFailed, syscall.EDQUOT), syscall.EDQUOT}, {errors.New("unknown"), syscall.EIO},
		{syscall.ENOSYS, syscall.EOPNOTSUPP},
	} {
		deny.Store([]error{c.err})
		for name, do := range map[string]func() error{
			"unlink":   func() error { return unix.Unlink(p("f")) },
			"rmdir":    func() error { return unix.Rmdir(p("d")) },
			"rename":   func() error { return unix.Rename(p("f"), p("d/f")) },
			"truncate": func() error { return unix.Truncate(p("f"), 0) },
			"chmod":    func() error { return unix.Chmod(p("f"), 0) },
			"mkdir":    func() error { return unix.Mkdir(p("n"), 0o755) },
			"symlink":  func() error { return unix.Symlink("f", p("n")) },
			"link":     func() error { return unix.Link(p("f"), p("n")) },
			"mknod":    func() error { return unix.Mkfifo(p("n"), 0o644) },
			"xattr":    func() error { return unix.Setxattr(p("f"), "user.a", nil, 0) },
			"create":   func() error { _, err := unix.Open(p("n"), unix.O_CREAT|unix.O_WRONLY, 0o644); return err },
			"tmpfile":  func() error { _, err := unix.Open(m.mnt, unix.O_TMPFILE|unix.O_WRONLY, 0o644); return err },
			"trunc":    func() error { _, err := unix.Open(p("f"), unix.O_TRUNC|unix.O_WRONLY, 0); return err },
		} {
			if err := do(); err != c.want {
				t.Errorf("%s with %v: got %v, want %v", name, c.err, err, c.want)
			}
		}
	}
	entries, err := os.ReadDir(m.host)
	check(t, err)
	data, err := os.ReadFile(filepath.Join(m.host, "f"))
	check(t, err)
	if len(entries) != 2 || string(data) != "content" {
		t.Errorf("the host changed: %v, %q", entries, data)
	}
}
