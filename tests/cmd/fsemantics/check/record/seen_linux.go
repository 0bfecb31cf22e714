package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Word is the first argument of a program that should call check.Main with the others.
const Word = "fsemantics"

// Patience bounds one check.
const Patience = 3 * time.Minute

// Named is one check.
type Named struct {
	Name string
	Do   func(c *Seen)
}

// Ordered goes through m in the order of its keys: a check does the same calls in the
// same order each time.
func Ordered[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// Self is this program again.
func Self(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{Word}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Seen is what a check has seen.
type Seen struct{ Parts []string }

// stop ends a check whose preparations failed.
type stop struct{ what string }

// Run runs a check to its end.
func (c *Seen) Run(f func(*Seen)) {
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stop)
			if !ok {
				panic(r)
			}
			c.See("stopped", s.what)
		}
	}()
	f(c)
}

// See notes a value.
func (c *Seen) See(label string, v any) {
	c.Parts = append(c.Parts, label+"="+strings.Join(strings.Fields(fmt.Sprint(v)), "_"))
}

// Err notes how a call ended, and reports whether it succeeded.
func (c *Seen) Err(label string, err error) bool {
	c.See(label, Name(err))
	return err == nil
}

// Must ends the check on an error: it is about something else.
func (c *Seen) Must(err error) {
	if err != nil {
		panic(stop{fmt.Sprintf("%v", err)})
	}
}

// Name is how an error is printed.
func Name(err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	}
	return err.Error()
}

// Open opens a file and notes how that ended; -1 if it failed.
func (c *Seen) Open(label, path string, flags int, mode uint32) int {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
	c.Err(label, err)
	return fd
}

// Get opens a file that must open.
func (c *Seen) Get(path string, flags int) int {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		panic(stop{fmt.Sprintf("open %s: %v", path, err)})
	}
	return fd
}

// Put makes or replaces a file's content.
func (c *Seen) Put(path, content string) {
	fd := c.Get(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	_, err := unix.Write(fd, []byte(content))
	c.Must(err)
	c.Must(unix.Close(fd))
}

func (c *Seen) Mkdir(path string) { c.Must(unix.Mkdir(path, 0o755)) }

// Content notes what a file holds.
func (c *Seen) Content(label, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		c.Err(label, err)
		return
	}
	c.See(label, Brief(b))
}

// Brief quotes bytes, and cuts many off.
func Brief(b []byte) string {
	if len(b) > 40 {
		b = append(b[:30:30], fmt.Sprintf("...%d", len(b))...)
	}
	return fmt.Sprintf("%q", b)
}

// Write notes what write returned.
func (c *Seen) Write(label string, fd int, content string) {
	n, err := unix.Write(fd, []byte(content))
	if err != nil {
		c.Err(label, err)
		return
	}
	c.See(label, n)
}

// Read notes what read returned.
func (c *Seen) Read(label string, fd int) {
	b := make([]byte, 100)
	n, err := unix.Read(fd, b)
	if err != nil {
		c.Err(label, err)
		return
	}
	c.See(label, Brief(b[:n]))
}

// Stat notes type, mode, links and size, not those of directories that depend on the
// file system.
func (c *Seen) Stat(label, path string) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		c.Err(label, err)
		return
	}
	c.See(label, describe(&st))
}

func (c *Seen) Fstat(label string, fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		c.Err(label, err)
		return
	}
	c.See(label, describe(&st))
}

func describe(st *unix.Stat_t) string {
	kind := map[uint32]string{unix.S_IFREG: "file", unix.S_IFDIR: "dir", unix.S_IFLNK: "symlink", unix.S_IFIFO: "fifo", unix.S_IFSOCK: "socket", unix.S_IFCHR: "char"}[st.Mode&unix.S_IFMT]
	s := fmt.Sprintf("%s,%04o", kind, st.Mode&0o7777)
	if kind == "file" {
		s += fmt.Sprintf(",%d,%d", st.Nlink, st.Size)
	}
	if int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
		s += ",foreign"
	}
	return s
}

// List notes the names in a directory.
func (c *Seen) List(label, path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		c.Err(label, err)
		return
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, fmt.Sprintf("%+q", e.Name())[1:])
	}
	c.See(label, strings.ReplaceAll(strings.Join(names, ","), `"`, ""))
}

// Child runs a role of this program and notes what it prints.
func (c *Seen) Child(label, role string, args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	b, err := Self(ctx, append([]string{"child", role}, args...)...).CombinedOutput()
	if err != nil {
		c.See(label, fmt.Sprintf("%s:%v", strings.TrimSpace(string(b)), err))
		return
	}
	c.See(label, strings.TrimSpace(string(b)))
}

// Elsewhere makes a directory on another file system. The caller removes it.
func (c *Seen) Elsewhere() (dir string, remove func()) {
	dir, err := os.MkdirTemp("/dev/shm", "fsemantics-")
	c.Must(err)
	return dir, func() { _ = os.RemoveAll(dir) }
}

// Repeat writes equal values one after another as one.
func Repeat(values []string) string {
	var out []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		s := values[i]
		if n > 1 {
			s = fmt.Sprintf("%s*%d", s, n)
		}
		out = append(out, s)
		i += n
	}
	return strings.Join(out, ",")
}

// CloseAll closes those that are open.
func CloseAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
