package names

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func linkChecks() []record.Named {
	return []record.Named{
		{Name: "hardlink", Do: hardlink}, {Name: "hardlink-kinds", Do: hardlinkKinds}, {Name: "hardlink-symlink", Do: hardlinkSymlink},
		{Name: "hardlink-open-file", Do: hardlinkOpen}, {Name: "hardlink-many", Do: hardlinkMany}, {Name: "hardlink-over-directories", Do: hardlinkDirectories},
		{Name: "symlink", Do: symlink}, {Name: "symlink-write", Do: symlinkWrite}, {Name: "symlink-attributes", Do: symlinkAttributes}, {Name: "symlink-long", Do: symlinkLong},
		{Name: "unlink-open", Do: unlinkOpen}, {Name: "unlink-last-name", Do: unlinkLast}, {Name: "unlink-reopen", Do: unlinkReopen}, {Name: "unlink-kinds", Do: unlinkKinds},
	}
}

func hardlink(c *record.Seen) {
	c.Put("f", "12345")
	c.Err("link", unix.Link("f", "g"))
	c.Stat("two", "f")
	w := c.Get("g", unix.O_WRONLY)
	c.Write("write", w, "ab")
	c.Content("shared", "f")
	c.Err("chmod", unix.Chmod("g", 0o600))
	c.Stat("mode", "f")
	c.Err("unlink", unix.Unlink("f"))
	c.Fstat("one", w)
	c.Err("again", unix.Link("g", "f"))
	c.Err("truncate", unix.Truncate("f", 1))
	c.Content("content", "g")
}

func hardlinkKinds(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	c.Must(unix.Mkfifo("p", 0o600))
	c.Must(unix.Mknod("s", unix.S_IFSOCK|0o600, 0))
	for _, n := range []string{"f", "d", "p", "s", "missing", "d/"} {
		c.Err(n, unix.Link(n, "to-"+strings.Trim(n, "/")))
	}
	c.Err("existing", unix.Link("f", "d"))
	c.Err("existing-file", unix.Link("f", "p"))
	c.Err("slash", unix.Link("f", "new/"))
	c.Err("from-slash", unix.Link("f/", "new"))
	c.List("list", ".")
	c.Stat("f-stat", "f")
}

func hardlinkSymlink(c *record.Seen) {
	c.Put("f", "x")
	c.Must(unix.Symlink("f", "l"))
	c.Must(unix.Symlink("no", "dangling"))
	c.Err("link", unix.Link("l", "a"))
	c.Stat("a", "a")
	c.Err("followed", unix.Linkat(unix.AT_FDCWD, "l", unix.AT_FDCWD, "b", unix.AT_SYMLINK_FOLLOW))
	c.Stat("b", "b")
	c.Err("dangling", unix.Link("dangling", "c"))
	c.Err("dangling-followed", unix.Linkat(unix.AT_FDCWD, "dangling", unix.AT_FDCWD, "d", unix.AT_SYMLINK_FOLLOW))
	c.Err("onto-dangling", unix.Link("f", "dangling"))
	c.List("list", ".")
}

func hardlinkOpen(c *record.Seen) {
	for i, flags := range []int{unix.O_RDONLY, unix.O_RDWR, unix.O_PATH} {
		n := fmt.Sprint("f", i)
		c.Put(n, "x")
		fd := c.Get(n, flags)
		c.Err(n, unix.Linkat(unix.AT_FDCWD, record.ProcFD(fd), unix.AT_FDCWD, "l"+n, unix.AT_SYMLINK_FOLLOW))
		c.Err(n+"-link-itself", unix.Link(record.ProcFD(fd), "m"+n))
		c.Err(n+"-empty-path", unix.Linkat(fd, "", unix.AT_FDCWD, "e"+n, unix.AT_EMPTY_PATH))
		c.Must(unix.Unlink(n))
		c.Err(n+"-other-name", unix.Linkat(unix.AT_FDCWD, record.ProcFD(fd), unix.AT_FDCWD, "o"+n, unix.AT_SYMLINK_FOLLOW))
		for _, p := range "leo" {
			_ = unix.Unlink(string(p) + n)
		}
		c.Err(n+"-no-name", unix.Linkat(unix.AT_FDCWD, record.ProcFD(fd), unix.AT_FDCWD, "u"+n, unix.AT_SYMLINK_FOLLOW))
	}
	c.List("list", ".")
}

func hardlinkMany(c *record.Seen) {
	c.Put("f", "12345")
	bad := 0
	for i := range 50 {
		if unix.Link("f", fmt.Sprintf("l%02d", i)) != nil {
			bad++
		}
	}
	c.See("not-made", bad)
	c.Stat("stat", "l49")
	for i := range 50 {
		if unix.Unlink(fmt.Sprintf("l%02d", i)) != nil {
			bad++
		}
	}
	c.See("not-removed", bad)
	c.Stat("stat2", "f")
}

func hardlinkDirectories(c *record.Seen) {
	c.Mkdir("a")
	c.Mkdir("b")
	c.Put("a/f", "1")
	c.Err("link", unix.Link("a/f", "b/g"))
	c.Err("rename", unix.Rename("a", "z"))
	w := c.Open("open", "b/g", unix.O_WRONLY|unix.O_APPEND, 0)
	c.Write("write", w, "2")
	c.Content("content", "z/f")
	c.Err("unlink", unix.Unlink("z/f"))
	c.Write("write2", w, "3")
	c.Content("content2", "b/g")
}

func symlink(c *record.Seen) {
	for i, target := range []string{"x", "", "..", "/", "a/b/c", "non-utf8-\xff", "new\nline"} {
		n := fmt.Sprint("l", i)
		c.Err(n, unix.Symlink(target, n))
		b := make([]byte, 100)
		m, err := unix.Readlink(n, b)
		c.Err(n+"-read", err)
		c.See(n+"-target", fmt.Sprintf("%q", b[:max(m, 0)]))
	}
	c.Put("f", "x")
	c.Err("existing", unix.Symlink("x", "f"))
	c.Err("existing-link", unix.Symlink("x", "l0"))
	b := make([]byte, 2)
	n, err := unix.Readlink("l4", b)
	c.Err("short", err)
	c.See("short-n", n)
	_, err = unix.Readlink("f", b)
	c.Err("not-a-link", err)
	c.Stat("stat", "l0")
}

func symlinkWrite(c *record.Seen) {
	c.Mkdir("d")
	c.Put("d/f", "12345")
	c.Must(unix.Symlink("d/f", "l"))
	c.Must(unix.Symlink("l", "ll"))
	fd := c.Open("write", "ll", unix.O_WRONLY, 0)
	c.Write("wrote", fd, "ab")
	c.Err("truncate", unix.Truncate("l", 3))
	c.Err("chmod", unix.Chmod("ll", 0o600))
	c.Err("xattr", unix.Setxattr("l", "user.a", []byte("1"), 0))
	c.Open("excl", "l", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	c.Err("unlink", unix.Unlink("ll"))
	c.Stat("stat", "d/f")
	c.Content("content", "d/f")
	b := make([]byte, 9)
	n, err := unix.Getxattr("d/f", "user.a", b)
	c.Err("getxattr", err)
	c.See("value", string(b[:max(n, 0)]))
}

func symlinkAttributes(c *record.Seen) {
	c.Put("f", "x")
	c.Must(unix.Symlink("f", "l"))
	times := [2]unix.Timespec{{Sec: 1_000_000_000, Nsec: 5}, {Sec: 1_100_000_000, Nsec: 7}}
	c.Err("lutimens", record.Utimensat(unix.AT_FDCWD, "l", &times, unix.AT_SYMLINK_NOFOLLOW))
	var st unix.Stat_t
	c.Must(unix.Lstat("l", &st))
	c.See("mtime", fmt.Sprint(st.Mtim.Sec, ".", st.Mtim.Nsec))
	c.Err("lchown", unix.Lchown("l", os.Getuid(), -1))
	c.Err("chmod-nofollow", record.Fchmodat2(unix.AT_FDCWD, "l", 0o600, unix.AT_SYMLINK_NOFOLLOW))
	c.Err("chmod-nofollow-file", record.Fchmodat2(unix.AT_FDCWD, "f", 0o640, unix.AT_SYMLINK_NOFOLLOW))
	c.Err("lsetxattr", unix.Lsetxattr("l", "user.a", []byte("1"), 0))
	c.Err("lremovexattr", unix.Lremovexattr("l", "user.a"))
	fd := c.Get("l", unix.O_PATH|unix.O_NOFOLLOW)
	c.Err("empty-path-utimens", record.Utimensat(fd, "", nil, unix.AT_EMPTY_PATH))
	c.Err("empty-path-chown", unix.Fchownat(fd, "", -1, -1, unix.AT_EMPTY_PATH))
	c.Err("empty-path-chmod", record.Fchmodat2(fd, "", 0o600, unix.AT_EMPTY_PATH))
	c.Err("proc-chmod", unix.Chmod(record.ProcFD(fd), 0o600))
	c.Stat("f-stat", "f")
	c.Stat("l-stat", "l")
}

func symlinkLong(c *record.Seen) {
	for _, n := range []int{1000, 3000, 4000, 4095, 4096} {
		c.Err(fmt.Sprint("make", n), unix.Symlink(strings.Repeat("t", n), fmt.Sprint("l", n)))
		b := make([]byte, 5000)
		got, err := unix.Readlink(fmt.Sprint("l", n), b)
		c.Err(fmt.Sprint("read", n), err)
		c.See(fmt.Sprint("length", n), got)
	}
	c.Must(unix.Symlink(strings.Repeat("./", 2040)+"f", "near"))
	c.Open("through", "near", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Mkdir("d")
	c.Must(unix.Symlink(strings.Repeat("./", 2040)+"d", "neardir"))
	c.Err("mkdir", unix.Mkdir("neardir/"+strings.Repeat("./", 1000)+"e", 0o755))
	c.List("list", "d")
}

// unlinkOpen uses a file that has no name any more.
func unlinkOpen(c *record.Seen) {
	c.Put("f", "12345")
	r, w := c.Get("f", unix.O_RDONLY), c.Get("f", unix.O_RDWR)
	c.Err("unlink", unix.Unlink("f"))
	c.Read("read", r)
	_, err := unix.Seek(w, 0, unix.SEEK_END)
	c.Must(err)
	c.Write("write", w, "678")
	c.Read("read2", r)
	c.Err("ftruncate", unix.Ftruncate(w, 2))
	c.Err("fchmod", unix.Fchmod(w, 0o600))
	c.Err("fchmod-reader", unix.Fchmod(r, 0o640))
	c.Err("futimens", record.Futimens(r, nil))
	c.Err("fsetxattr", unix.Fsetxattr(r, "user.a", []byte("1"), 0))
	c.Err("fchown", unix.Fchown(r, -1, -1))
	c.Fstat("fstat", r)
	c.Put("f", "new")
	c.Write("write2", w, "x")
	c.Content("content", "f")
	c.Err("fsync", unix.Fsync(w))
}

func unlinkLast(c *record.Seen) {
	c.Put("f", "1")
	w := c.Get("f", unix.O_WRONLY|unix.O_APPEND)
	c.Must(unix.Link("f", "g"))
	c.Must(unix.Unlink("f"))
	c.Fstat("one", w)
	c.Write("write", w, "2")
	c.Content("content", "g")
	c.Must(unix.Unlink("g"))
	c.Fstat("none", w)
	c.Write("write2", w, "3")
	c.List("list", ".")
}

func unlinkReopen(c *record.Seen) {
	c.Put("f", "12345")
	r := c.Get("f", unix.O_RDONLY)
	c.Must(unix.Unlink("f"))
	again := c.Open("reader", record.ProcFD(r), unix.O_RDONLY, 0)
	c.Read("read", again)
	w := c.Open("writer", record.ProcFD(r), unix.O_RDWR, 0)
	c.Write("write", w, "ab")
	c.Read("read2", w)
	t := c.Open("trunc", record.ProcFD(r), unix.O_WRONLY|unix.O_TRUNC, 0)
	c.Fstat("fstat", t)
	c.Err("chmod", unix.Chmod(record.ProcFD(r), 0o444))
	c.Open("unwritable", record.ProcFD(r), unix.O_WRONLY, 0)
	c.Err("truncate", unix.Truncate(record.ProcFD(r), 10))
	c.Err("xattr", unix.Setxattr(record.ProcFD(r), "user.a", []byte("1"), 0))
	c.Err("utimens", record.Utimensat(unix.AT_FDCWD, record.ProcFD(r), nil, 0))
	c.List("list", ".")
}

func unlinkKinds(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	c.Must(unix.Mkfifo("p", 0o600))
	c.Must(unix.Symlink("f", "l"))
	c.Must(unix.Symlink("d", "ld"))
	for _, n := range []string{"d", "d/", "f/", "ld/", "ld", "l", "p", "f", "f", ".", "..", "d/.."} {
		c.Err(n, unix.Unlink(n))
	}
	c.List("list", ".")
}
