package record

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ProcFD is the name by which a descriptor is opened again.
func ProcFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// FDCwd is AT_FDCWD as an argument.
func FDCwd() uintptr {
	fd := unix.AT_FDCWD
	return uintptr(fd)
}

// NoError is nil for 0.
func NoError(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// PathCall makes a call whose first two arguments are a directory and a path.
func PathCall(nr uintptr, dir int, path *byte, a, b, d uintptr) error {
	_, _, e := unix.Syscall6(nr, uintptr(dir), uintptr(unsafe.Pointer(path)), a, b, d, 0)
	return NoError(e)
}

// Utimensat is the raw call: package unix refuses some arguments itself.
func Utimensat(dir int, path string, times *[2]unix.Timespec, flags int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return PathCall(unix.SYS_UTIMENSAT, dir, p, uintptr(unsafe.Pointer(times)), uintptr(flags), 0)
}

// Futimens gives no path at all.
func Futimens(fd int, times *[2]unix.Timespec) error {
	return PathCall(unix.SYS_UTIMENSAT, fd, nil, uintptr(unsafe.Pointer(times)), 0, 0)
}

// Fchmodat2 is the raw call.
func Fchmodat2(dir int, path string, mode uint32, flags int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return PathCall(unix.SYS_FCHMODAT2, dir, p, uintptr(mode), uintptr(flags), 0)
}

// Faccessat2 is the raw call.
func Faccessat2(dir int, path string, mode uint32, flags int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	return PathCall(unix.SYS_FACCESSAT2, dir, p, uintptr(mode), uintptr(flags), 0)
}

// Sort is for checks that go through a map.
func (c *Seen) Sort() { slices.Sort(c.Parts) }

// mutation is a call that changes something at a path.
type mutation struct {
	name string
	do   func(path string) error
}

// mutations are the calls that name what they change by a path. Those with two paths
// use "source", which is a file.
func mutations() []mutation {
	open := func(flags int) func(string) error {
		return func(p string) error {
			fd, err := unix.Open(p, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
			CloseAll(fd)
			return err
		}
	}
	return []mutation{
		{"create", open(unix.O_WRONLY | unix.O_CREAT)},
		{"write", open(unix.O_WRONLY)},
		{"excl", open(unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL)},
		{"truncate", func(p string) error { return unix.Truncate(p, 0) }},
		{"mkdir", func(p string) error { return unix.Mkdir(p, 0o755) }},
		{"rmdir", unix.Rmdir},
		{"unlink", unix.Unlink},
		{"mknod", func(p string) error { return unix.Mknod(p, unix.S_IFREG|0o644, 0) }},
		{"mkfifo", func(p string) error { return unix.Mkfifo(p, 0o644) }},
		{"symlink", func(p string) error { return unix.Symlink("x", p) }},
		{"link-to", func(p string) error { return unix.Link("source", p) }},
		{"link-from", func(p string) error { return unix.Link(p, "linked") }},
		{"rename-to", func(p string) error { return unix.Rename("source", p) }},
		{"rename-from", func(p string) error { return unix.Rename(p, "renamed") }},
		{"exchange", func(p string) error {
			return unix.Renameat2(unix.AT_FDCWD, "source", unix.AT_FDCWD, p, unix.RENAME_EXCHANGE)
		}},
		{"noreplace", func(p string) error {
			return unix.Renameat2(unix.AT_FDCWD, "source", unix.AT_FDCWD, p, unix.RENAME_NOREPLACE)
		}},
		{"chmod", func(p string) error { return unix.Chmod(p, 0o755) }},
		{"chown", func(p string) error { return unix.Chown(p, -1, -1) }},
		{"lchown", func(p string) error { return unix.Lchown(p, -1, -1) }},
		{"utimens", func(p string) error { return Utimensat(unix.AT_FDCWD, p, nil, 0) }},
		{"lutimens", func(p string) error { return Utimensat(unix.AT_FDCWD, p, nil, unix.AT_SYMLINK_NOFOLLOW) }},
		{"setxattr", func(p string) error { return unix.Setxattr(p, "user.t", []byte("1"), 0) }},
		{"removexattr", func(p string) error { return unix.Removexattr(p, "user.t") }},
		{"access", func(p string) error { return unix.Access(p, unix.W_OK) }},
	}
}

// EachMutation tries all of them on a path, each from the same start, and notes the result as
// one value.
func (c *Seen) EachMutation(label, path string, prepare, clean func()) {
	var results []string
	for _, m := range mutations() {
		prepare()
		results = append(results, m.name+":"+Name(m.do(path)))
		clean()
	}
	c.See(label, fmt.Sprint(results))
}

// Pipe makes one.
func Pipe() (r, w int, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	return p[0], p[1], err
}

// Pages returns two pages, of which the second is not there.
func (c *Seen) Pages() []byte {
	size := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	c.Must(err)
	c.Must(unix.Mprotect(b[size:], unix.PROT_NONE))
	return b[:size]
}

// Times notes when a file was read and written.
func (c *Seen) Times(label, path string) {
	var st unix.Stat_t
	c.Must(unix.Lstat(path, &st))
	c.See(label, fmt.Sprint(st.Atim.Sec, ".", st.Atim.Nsec, ",", st.Mtim.Sec, ".", st.Mtim.Nsec))
}
