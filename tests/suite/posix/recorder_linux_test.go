package posix

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// recorder writes down what a program sees. It never stops: an error is an
// observation like any other.
type recorder struct{ b strings.Builder }

// err notes how an operation ended, and reports whether it succeeded.
func (r *recorder) err(what string, err error) bool {
	var no syscall.Errno
	switch {
	case err == nil:
		fmt.Fprintf(&r.b, "%s: ok\n", what)
	case errors.As(err, &no):
		fmt.Fprintf(&r.b, "%s: %s\n", what, unix.ErrnoName(no))
	default:
		fmt.Fprintf(&r.b, "%s: %v\n", what, err)
	}
	return err == nil
}

// see notes a value.
func (r *recorder) see(what string, v any) { fmt.Fprintf(&r.b, "%s = %v\n", what, v) }

// stat notes what does not depend on the file system: type, mode, links, size.
func (r *recorder) stat(path string) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		r.err("stat "+path, err)
		return
	}
	size := st.Size
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size, st.Nlink = 0, 0
	}
	fmt.Fprintf(&r.b, "stat %s: mode %o links %d size %d\n", path, st.Mode, st.Nlink, size)
}

// file notes a file's content.
func (r *recorder) file(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		r.err("read "+path, err)
		return
	}
	if len(b) > 60 {
		b = append(b[:50:50], fmt.Sprintf("... %d bytes", len(b))...)
	}
	fmt.Fprintf(&r.b, "read %s: %q\n", path, b)
}

// list notes what is in a directory.
func (r *recorder) list(path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		r.err("list "+path, err)
		return
	}
	for _, e := range entries {
		fmt.Fprintf(&r.b, "list %s: %q %s\n", path, e.Name(), e.Type())
	}
}

// with opens a file, calls f and closes it.
func (r *recorder) with(path string, flags int, f func(fd int)) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if !r.err("open "+path, err) {
		return
	}
	f(fd)
	r.err("close "+path, unix.Close(fd))
}
