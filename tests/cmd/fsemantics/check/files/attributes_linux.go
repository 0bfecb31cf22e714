package files

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func attributeChecks() []record.Named {
	return []record.Named{
		{Name: "chmod", Do: chmod}, {Name: "chmod-descriptors", Do: chmodDescriptors}, {Name: "chmod-special-bits", Do: chmodSpecial}, {Name: "chmod-special-descriptors", Do: chmodSpecialFD},
		{Name: "chown-self", Do: chownSelf}, {Name: "chown-others", Do: chownOthers}, {Name: "utimens", Do: utimens}, {Name: "utimens-omit", Do: utimensOmit},
		{Name: "utimens-descriptors", Do: utimensDescriptors}, {Name: "utimens-arguments", Do: utimensArguments}, {Name: "times-changed", Do: timesChanged},
		{Name: "xattr", Do: xattr}, {Name: "xattr-list", Do: xattrList}, {Name: "xattr-namespaces", Do: xattrNamespaces}, {Name: "xattr-descriptors", Do: xattrDescriptors},
		{Name: "xattr-sizes", Do: xattrSizes}, {Name: "xattr-new-calls", Do: xattrNewCalls}, {Name: "acl", Do: acl}, {Name: "acl-named", Do: aclNamed}, {Name: "acl-inherited", Do: aclInherited}, {Name: "inode-flags", Do: inodeFlags},
		{Name: "statfs", Do: statfs}, {Name: "statx", Do: statx}, {Name: "legacy-calls", Do: legacyCalls},
	}
}

func chmod(c *record.Seen) {
	c.Put("f", "x")
	for _, mode := range []uint32{0, 0o777, 0o600, 0o1644, 0o100644} {
		c.Err(fmt.Sprintf("%o", mode), unix.Chmod("f", mode))
		c.Stat(fmt.Sprintf("stat%o", mode), "f")
	}
	c.Err("missing", unix.Chmod("no", 0o644))
	c.Err("fchmodat", unix.Fchmodat(unix.AT_FDCWD, "f", 0o640, 0))
	c.Err("fchmodat2", record.Fchmodat2(unix.AT_FDCWD, "f", 0o604, 0))
	c.Stat("stat", "f")
	c.Mkdir("d")
	c.Err("directory", unix.Chmod("d", 0o1777))
	c.Stat("directory-stat", "d")
}

func chmodDescriptors(c *record.Seen) {
	c.Put("f", "x")
	for i, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR | unix.O_APPEND} {
		fd := c.Get("f", flags)
		c.Err(fmt.Sprint("fchmod", i), unix.Fchmod(fd, 0o600+uint32(i)))
		c.Err(fmt.Sprint("proc", i), unix.Chmod(record.ProcFD(fd), 0o640+uint32(i)))
		c.Err(fmt.Sprint("empty-path", i), record.Fchmodat2(fd, "", 0o644+uint32(i), unix.AT_EMPTY_PATH))
		c.Fstat(fmt.Sprint("fstat", i), fd)
		record.CloseAll(fd)
		c.Must(unix.Chmod("f", 0o644))
	}
}

// chmodSpecial sets bits that a sandbox refuses.
func chmodSpecial(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	c.Err("setuid", unix.Chmod("f", 0o4755))
	c.Stat("setuid-stat", "f")
	c.Err("setgid", unix.Chmod("f", 0o2755))
	c.Stat("setgid-stat", "f")
	c.Err("directory-setgid", unix.Chmod("d", 0o2755))
	c.Stat("directory-stat", "d")
	c.Err("directory-setuid", unix.Chmod("d", 0o4755))
	c.Stat("directory-stat2", "d")
}

func chmodSpecialFD(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	c.Err("fchmod", unix.Fchmod(fd, 0o4755))
	c.Fstat("fchmod-stat", fd)
	c.Err("empty-path", record.Fchmodat2(fd, "", 0o6755, unix.AT_EMPTY_PATH))
	c.Fstat("empty-path-stat", fd)
	c.Err("proc", unix.Chmod(record.ProcFD(fd), 0o2755))
	c.Fstat("proc-stat", fd)
}

func chownSelf(c *record.Seen) {
	c.Put("f", "x")
	uid, gid := os.Getuid(), os.Getgid()
	c.Err("both", unix.Chown("f", uid, gid))
	c.Err("none", unix.Chown("f", -1, -1))
	c.Err("uid", unix.Lchown("f", uid, -1))
	c.Err("gid", unix.Fchownat(unix.AT_FDCWD, "f", -1, gid, 0))
	fd := c.Get("f", unix.O_RDONLY)
	c.Err("fchown", unix.Fchown(fd, uid, gid))
	w := c.Get("f", unix.O_WRONLY)
	c.Err("fchown-writer", unix.Fchown(w, uid, gid))
	c.Err("missing", unix.Chown("no", uid, gid))
	c.Stat("stat", "f")
}

func chownOthers(c *record.Seen) {
	c.Put("f", "x")
	w := c.Get("f", unix.O_WRONLY)
	for label, id := range record.Ordered(map[string]int{"a-next": os.Getuid() + 1, "b-large": 1 << 30}) {
		c.Err(label, unix.Chown("f", id, -1))
		c.Err(label+"-group", unix.Chown("f", -1, id))
		c.Err(label+"-writer", unix.Fchown(w, id, -1))
	}
	c.Sort()
	c.Stat("stat", "f")
}

func utimens(c *record.Seen) {
	c.Put("f", "x")
	c.Must(unix.Symlink("f", "l"))
	for i, t := range [][2]unix.Timespec{
		{{Sec: 1_000_000_000, Nsec: 1}, {Sec: 1_100_000_000, Nsec: 999_999_999}}, {{}, {}}, {{Sec: 2_500_000_000}, {Sec: 2_600_000_000, Nsec: 3}},
	} {
		c.Err(fmt.Sprint("set", i), record.Utimensat(unix.AT_FDCWD, "f", &t, 0))
		c.Times(fmt.Sprint("times", i), "f")
		c.Err(fmt.Sprint("link", i), record.Utimensat(unix.AT_FDCWD, "l", &t, 0))
	}
	before := unix.Timespec{Sec: 2_000_000_000}
	c.Err("now", record.Utimensat(unix.AT_FDCWD, "f", nil, 0))
	var st unix.Stat_t
	c.Must(unix.Stat("f", &st))
	c.See("now-earlier", st.Mtim.Sec < before.Sec && st.Atim == st.Mtim)
	c.Err("missing", record.Utimensat(unix.AT_FDCWD, "no", nil, 0))
}

func utimensOmit(c *record.Seen) {
	const omit, now = unix.UTIME_OMIT, unix.UTIME_NOW
	c.Put("f", "x")
	start := [2]unix.Timespec{{Sec: 1_000_000_000, Nsec: 1}, {Sec: 1_100_000_000, Nsec: 2}}
	for i, t := range [][2]unix.Timespec{
		{{Nsec: omit}, {Sec: 1_200_000_000}}, {{Sec: 1_200_000_000}, {Nsec: omit}}, {{Nsec: omit}, {Nsec: omit}},
		{{Nsec: now}, {Nsec: omit}}, {{Nsec: omit}, {Nsec: now}}, {{Nsec: now}, {Nsec: now}},
	} {
		c.Must(record.Utimensat(unix.AT_FDCWD, "f", &start, 0))
		c.Err(fmt.Sprint("set", i), record.Utimensat(unix.AT_FDCWD, "f", &t, 0))
		var st unix.Stat_t
		c.Must(unix.Stat("f", &st))
		c.See(fmt.Sprint("kept", i), fmt.Sprint(st.Atim == start[0], ",", st.Mtim == start[1], ",", st.Atim.Sec > 1_700_000_000, ",", st.Mtim.Sec > 1_700_000_000))
	}
}

func utimensDescriptors(c *record.Seen) {
	c.Put("f", "x")
	for i, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
		fd := c.Get("f", flags)
		t := [2]unix.Timespec{{Sec: 1_000_000_000 + int64(i)}, {Sec: 1_100_000_000 + int64(i), Nsec: 7}}
		c.Err(fmt.Sprint("futimens", i), record.Futimens(fd, &t))
		c.Times(fmt.Sprint("times", i), "f")
		c.Err(fmt.Sprint("empty-path", i), record.Utimensat(fd, "", nil, unix.AT_EMPTY_PATH))
		c.Err(fmt.Sprint("proc", i), record.Utimensat(unix.AT_FDCWD, record.ProcFD(fd), &t, 0))
		c.Err(fmt.Sprint("null", i), record.Futimens(fd, nil))
		c.Err(fmt.Sprint("null-flag", i), record.PathCall(unix.SYS_UTIMENSAT, fd, nil, 0, unix.AT_SYMLINK_NOFOLLOW, 0))
	}
}

func utimensArguments(c *record.Seen) {
	c.Put("f", "x")
	for i, t := range [][2]unix.Timespec{{{Nsec: 1_000_000_000}, {}}, {{}, {Nsec: -1}}, {{Nsec: unix.UTIME_OMIT}, {Nsec: 2_000_000_000}}} {
		c.Err(fmt.Sprint("bad", i), record.Utimensat(unix.AT_FDCWD, "f", &t, 0))
		c.Err(fmt.Sprint("missing", i), record.Utimensat(unix.AT_FDCWD, "no", &t, 0))
	}
	c.Err("empty", record.Utimensat(unix.AT_FDCWD, "", nil, 0))
	c.Err("empty-path-cwd", record.Utimensat(unix.AT_FDCWD, "", nil, unix.AT_EMPTY_PATH))
	c.Must(unix.Chmod("f", 0o444))
	c.Err("unwritable-now", record.Utimensat(unix.AT_FDCWD, "f", nil, 0))
	c.Err("unwritable-set", record.Utimensat(unix.AT_FDCWD, "f", &[2]unix.Timespec{{Sec: 1}, {Sec: 1}}, 0))
}

// timesChanged sees which operations change a file's modification time.
func timesChanged(c *record.Seen) {
	old := &[2]unix.Timespec{{Sec: 1_000_000_000}, {Sec: 1_000_000_000}}
	c.Put("f", "12345")
	w := c.Get("f", unix.O_RDWR)
	step := func(label string, f func() error) {
		c.Must(record.Utimensat(unix.AT_FDCWD, "f", old, 0))
		var st unix.Stat_t
		c.Err(label, f())
		c.Must(unix.Fstat(w, &st))
		c.See(label+"-mtime", st.Mtim.Sec != old[1].Sec)
	}
	step("write", func() error { _, err := unix.Write(w, []byte("x")); return err })
	step("write-nothing", func() error { _, err := unix.Write(w, nil); return err })
	step("truncate", func() error { return unix.Truncate("f", 3) })
	step("truncate-same", func() error { return unix.Truncate("f", 3) })
	step("ftruncate", func() error { return unix.Ftruncate(w, 5) })
	step("ftruncate-same", func() error { return unix.Ftruncate(w, 5) })
	step("open-write", func() error { fd, err := unix.Open("f", unix.O_WRONLY, 0); record.CloseAll(fd); return err })
	step("open-trunc", func() error {
		fd, err := unix.Open("f", unix.O_WRONLY|unix.O_TRUNC, 0)
		record.CloseAll(fd)
		return err
	})
	step("open-trunc-empty", func() error {
		fd, err := unix.Open("f", unix.O_WRONLY|unix.O_TRUNC, 0)
		record.CloseAll(fd)
		return err
	})
	step("chmod", func() error { return unix.Chmod("f", 0o600) })
	step("xattr", func() error { return unix.Setxattr("f", "user.a", []byte("1"), 0) })
	step("link", func() error { return unix.Link("f", "g") })
	step("rename", func() error { return unix.Rename("g", "h") })
	step("unlink", func() error { return unix.Unlink("h") })
	step("fallocate", func() error { return unix.Fallocate(w, 0, 0, 100) })
}

func xattr(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	for _, n := range []string{"f", "d"} {
		c.Err(n+"-set", unix.Setxattr(n, "user.a", []byte("one"), 0))
		c.Err(n+"-create", unix.Setxattr(n, "user.a", []byte("two"), unix.XATTR_CREATE))
		c.Err(n+"-replace", unix.Setxattr(n, "user.a", []byte("three"), unix.XATTR_REPLACE))
		c.Err(n+"-replace-missing", unix.Setxattr(n, "user.b", []byte("x"), unix.XATTR_REPLACE))
		c.Err(n+"-empty", unix.Setxattr(n, "user.empty", nil, 0))
		b := make([]byte, 20)
		got, err := unix.Getxattr(n, "user.a", b)
		c.Err(n+"-get", err)
		c.See(n+"-value", string(b[:max(got, 0)]))
		_, err = unix.Getxattr(n, "user.a", b[:2])
		c.Err(n+"-short", err)
		got, err = unix.Getxattr(n, "user.a", nil)
		c.Err(n+"-size", err)
		c.See(n+"-bytes", got)
		c.Err(n+"-remove", unix.Removexattr(n, "user.a"))
		c.Err(n+"-remove-again", unix.Removexattr(n, "user.a"))
		_, err = unix.Getxattr(n, "user.a", b)
		c.Err(n+"-get-removed", err)
	}
}

func xattrList(c *record.Seen) {
	c.Put("f", "x")
	names := func(label string) {
		b := make([]byte, 1000)
		n, err := unix.Listxattr("f", b)
		c.Err(label, err)
		list := strings.Split(strings.TrimRight(string(b[:max(n, 0)]), "\x00"), "\x00")
		slices.Sort(list)
		c.See(label+"-names", list)
	}
	names("none")
	c.Must(unix.Setxattr("f", "user.b", []byte("1"), 0))
	c.Must(unix.Setxattr("f", "user.a", []byte("1"), 0))
	names("two")
	_, err := unix.Listxattr("f", make([]byte, 3))
	c.Err("short", err)
	c.Must(unix.Removexattr("f", "user.b"))
	names("one")
}

func xattrNamespaces(c *record.Seen) {
	c.Put("f", "x")
	c.Must(unix.Mkfifo("p", 0o600))
	for _, n := range []string{"trusted.a", "security.a", "system.a", "nothing.a", "user.", "user", "", "user." + strings.Repeat("n", 250), "user." + strings.Repeat("n", 251)} {
		label := n[:min(len(n), 12)]
		c.Err("set-"+label, unix.Setxattr("f", n, []byte("1"), 0))
		c.Err("remove-"+label, unix.Removexattr("f", n))
	}
	c.Err("security.capability", unix.Setxattr("f", "security.capability", []byte("1"), 0))
	c.Err("fifo", unix.Setxattr("p", "user.a", []byte("1"), 0))
	c.Err("missing", unix.Setxattr("no", "user.a", []byte("1"), 0))
	c.Must(unix.Chmod("f", 0o444))
	c.Err("unwritable", unix.Setxattr("f", "user.a", []byte("1"), 0))
	c.Err("unwritable-remove", unix.Removexattr("f", "user.a"))
}

func xattrDescriptors(c *record.Seen) {
	c.Put("f", "x")
	for i, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
		fd := c.Get("f", flags)
		n := fmt.Sprint("user.a", i)
		c.Err(fmt.Sprint("set", i), unix.Fsetxattr(fd, n, []byte("1"), 0))
		c.Err(fmt.Sprint("proc", i), unix.Setxattr(record.ProcFD(fd), n+"p", []byte("1"), 0))
		c.Err(fmt.Sprint("remove", i), unix.Fremovexattr(fd, n))
		c.Err(fmt.Sprint("remove-again", i), unix.Fremovexattr(fd, n))
		c.Err(fmt.Sprint("trusted", i), unix.Fsetxattr(fd, "trusted.a", []byte("1"), 0))
		c.Err(fmt.Sprint("capability", i), unix.Fsetxattr(fd, "security.capability", []byte("1"), 0))
	}
	b := make([]byte, 500)
	n, err := unix.Listxattr("f", b)
	c.Err("list", err)
	c.See("names", bytes.Count(b[:max(n, 0)], []byte{0}))
}

func xattrSizes(c *record.Seen) {
	c.Put("f", "x")
	for _, n := range []int{100, 3000, 65537} {
		c.Err(fmt.Sprint("set", n), unix.Setxattr("f", "user.v", make([]byte, n), 0))
		b := make([]byte, 1<<17)
		got, err := unix.Getxattr("f", "user.v", b)
		c.Err(fmt.Sprint("get", n), err)
		c.See(fmt.Sprint("n", n), got)
	}
}

// xattrNewCalls are those of Linux 6.13, by a directory and a path.
func xattrNewCalls(c *record.Seen) {
	c.Put("f", "x")
	page := c.Pages()
	page[0] = '1'
	args := struct {
		value uint64
		size  uint32
		flags uint32
	}{uint64(uintptr(unsafe.Pointer(&page[0]))), 1, 0}
	key, err := unix.BytePtrFromString("user.new")
	c.Must(err)
	call := func(label string, dir int, path string, flags uintptr) {
		p, err := unix.BytePtrFromString(path)
		c.Must(err)
		_, _, e := unix.Syscall6(463, uintptr(dir), uintptr(unsafe.Pointer(p)), flags, uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
		c.Err(label+"-set", record.NoError(e))
		_, _, e = unix.Syscall6(466, uintptr(dir), uintptr(unsafe.Pointer(p)), flags, uintptr(unsafe.Pointer(key)), 0, 0)
		c.Err(label+"-remove", record.NoError(e))
	}
	call("path", unix.AT_FDCWD, "f", 0)
	call("nofollow", unix.AT_FDCWD, "f", unix.AT_SYMLINK_NOFOLLOW)
	call("reader", c.Get("f", unix.O_RDONLY), "", unix.AT_EMPTY_PATH)
	call("writer", c.Get("f", unix.O_WRONLY), "", unix.AT_EMPTY_PATH)
	call("directory", c.Get(".", unix.O_RDONLY), "", unix.AT_EMPTY_PATH)
	call("opath", c.Get("f", unix.O_PATH), "", unix.AT_EMPTY_PATH)
	call("missing", unix.AT_FDCWD, "no", 0)
	call("flags", unix.AT_FDCWD, "f", 0x8000)
}

// inodeFlags reads and sets what chattr does.
func inodeFlags(c *record.Seen) {
	c.Put("f", "x")
	for i, open := range []int{unix.O_RDONLY, unix.O_RDWR} {
		fd := c.Get("f", open)
		flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
		c.Err(fmt.Sprint("get", i), err)
		c.Err(fmt.Sprint("set", i), unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|0x40)))
		c.Err(fmt.Sprint("immutable", i), unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|0x10)))
	}
}

func statfs(c *record.Seen) {
	c.Put("f", "x")
	look := func(label string, f func(*unix.Statfs_t) error) {
		var st unix.Statfs_t
		if c.Err(label, f(&st)) {
			c.See(label+"-readonly", st.Flags&unix.ST_RDONLY != 0)
			c.See(label+"-values", fmt.Sprint(st.Namelen, ",", st.Blocks > 0, ",", st.Bavail <= st.Blocks, ",", st.Bsize))
		}
	}
	look("path", func(st *unix.Statfs_t) error { return unix.Statfs(".", st) })
	look("file", func(st *unix.Statfs_t) error { return unix.Statfs("f", st) })
	look("directory", func(st *unix.Statfs_t) error { return unix.Fstatfs(c.Get(".", unix.O_RDONLY), st) })
	look("reader", func(st *unix.Statfs_t) error { return unix.Fstatfs(c.Get("f", unix.O_RDONLY), st) })
	look("writer", func(st *unix.Statfs_t) error { return unix.Fstatfs(c.Get("f", unix.O_WRONLY), st) })
	look("missing", func(st *unix.Statfs_t) error { return unix.Statfs("no", st) })
}

func statx(c *record.Seen) {
	c.Put("f", "12345")
	var st unix.Statx_t
	c.Err("statx", unix.Statx(unix.AT_FDCWD, "f", 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st))
	c.See("basic", st.Mask&unix.STATX_BASIC_STATS == unix.STATX_BASIC_STATS)
	c.See("born", st.Mask&unix.STATX_BTIME != 0)
	c.See("size", st.Size)
	c.See("blocks", st.Blocks > 0)
	c.See("blksize", st.Blksize)
	c.See("type", fmt.Sprintf("%o", st.Mode))
}
