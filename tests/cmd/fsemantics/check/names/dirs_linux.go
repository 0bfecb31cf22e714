package names

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func dirChecks() []record.Named {
	return []record.Named{
		{Name: "mkdir-modes", Do: mkdirModes}, {Name: "rmdir", Do: rmdir}, {Name: "rename-kinds", Do: renameKinds}, {Name: "rename-into-itself", Do: renameInto},
		{Name: "rename-same", Do: renameSame}, {Name: "rename-noreplace", Do: renameNoreplace}, {Name: "rename-exchange", Do: renameExchange},
		{Name: "rename-whiteout", Do: renameWhiteout}, {Name: "rename-over-open", Do: renameOverOpen}, {Name: "rename-symlinks", Do: renameSymlinks},
		{Name: "rename-open-writer", Do: renameOpenWriter}, {Name: "rename-between", Do: renameBetween}, {Name: "cwd-renamed", Do: cwdRenamed}, {Name: "cwd-removed", Do: cwdRemoved},
		{Name: "fchdir", Do: fchdir}, {Name: "removed-directory", Do: removedDirectory}, {Name: "readdir-while-removing", Do: readdirRemoving},
		{Name: "readdir-types", Do: readdirTypes}, {Name: "readdir-rewind", Do: readdirRewind}, {Name: "directory-descriptor", Do: directoryDescriptor},
		{Name: "directory-fsync", Do: directoryFsync}, {Name: "directory-many", Do: directoryMany}, {Name: "directory-times", Do: directoryTimes},
		{Name: "directory-nlink", Do: directoryNlink},
	}
}

func mkdirModes(c *record.Seen) {
	for _, mode := range []uint32{0o777, 0o700, 0, 0o1777, 0o7777} {
		n := fmt.Sprintf("d%o", mode)
		c.Err(n, unix.Mkdir(n, mode))
		c.Stat(n+"-stat", n)
	}
	unix.Umask(0)
	c.Err("umask0", unix.Mkdir("u", 0o777))
	c.Stat("umask0-stat", "u")
}

func rmdir(c *record.Seen) {
	c.Mkdir("d")
	c.Mkdir("d/e")
	c.Put("f", "x")
	c.Must(unix.Symlink("d", "l"))
	c.Err("full", unix.Rmdir("d"))
	c.Err("link", unix.Rmdir("l"))
	c.Err("file", unix.Rmdir("f"))
	c.Err("unlink-directory", unix.Unlink("d"))
	c.Err("removedir-file", unix.Unlinkat(unix.AT_FDCWD, "f", unix.AT_REMOVEDIR))
	c.Err("dot", unix.Rmdir("d/."))
	c.Err("dotdot", unix.Rmdir("d/e/.."))
	c.Err("inner", unix.Rmdir("d/e"))
	c.Err("slash", unix.Rmdir("d/"))
	c.List("list", ".")
}

func renameKinds(c *record.Seen) {
	kinds := []string{"file", "dir", "full", "link", "fifo", "none"}
	mk := func(n, kind string) {
		switch kind {
		case "file":
			c.Put(n, n)
		case "dir", "full":
			c.Mkdir(n)
			if kind == "full" {
				c.Put(n+"/x", "x")
			}
		case "link":
			c.Must(unix.Symlink("t", n))
		case "fifo":
			c.Must(unix.Mkfifo(n, 0o600))
		}
	}
	for _, from := range kinds {
		var results []string
		for _, to := range kinds {
			mk("a", from)
			mk("b", to)
			results = append(results, to+":"+record.Name(unix.Rename("a", "b")))
			c.Must(os.RemoveAll("a"))
			c.Must(os.RemoveAll("b"))
		}
		c.See(from, results)
	}
}

func renameInto(c *record.Seen) {
	c.Mkdir("a")
	c.Mkdir("a/b")
	c.Mkdir("a/b/c")
	c.Err("child", unix.Rename("a", "a/x"))
	c.Err("grandchild", unix.Rename("a", "a/b/c/x"))
	c.Err("onto-parent", unix.Rename("a/b", "a"))
	c.Err("onto-grandparent", unix.Rename("a/b/c", "a"))
	c.Err("up", unix.Rename("a/b/c", "c"))
	c.Err("exchange-child", unix.Renameat2(unix.AT_FDCWD, "a", unix.AT_FDCWD, "a/b", unix.RENAME_EXCHANGE))
	c.Err("dot", unix.Rename("a/.", "d"))
	c.Err("dotdot", unix.Rename("a/b/..", "d"))
	c.Err("to-dot", unix.Rename("a", "."))
	c.List("list", ".")
	c.List("list-a", "a")
}

func renameSame(c *record.Seen) {
	c.Put("f", "12345")
	c.Must(unix.Link("f", "g"))
	c.Err("self", unix.Rename("f", "f"))
	c.Err("linked", unix.Rename("f", "g"))
	c.Stat("both", "f")
	c.Mkdir("d")
	c.Err("directory-self", unix.Rename("d", "d"))
	c.Err("noreplace-self", unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, "f", unix.RENAME_NOREPLACE))
	c.Err("exchange-linked", unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, "g", unix.RENAME_EXCHANGE))
	c.List("list", ".")
}

func renameNoreplace(c *record.Seen) {
	try := func(label, from, to string) {
		c.Err(label, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE))
	}
	c.Put("f", "f")
	c.Put("g", "g")
	c.Mkdir("d")
	c.Must(unix.Symlink("no", "dangling"))
	try("free", "f", "h")
	try("file", "h", "g")
	try("directory", "h", "d")
	try("dangling", "h", "dangling")
	try("missing", "no", "x")
	try("missing-to-existing", "no", "g")
	c.List("list", ".")
	c.Content("content", "h")
}

func renameExchange(c *record.Seen) {
	try := func(label, from, to string) {
		c.Err(label, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE))
	}
	c.Put("f", "f")
	c.Put("g", "g")
	c.Mkdir("d")
	c.Put("d/x", "x")
	try("files", "f", "g")
	c.Content("f", "f")
	try("file-directory", "f", "d")
	c.Content("d", "d")
	c.Content("f-x", "f/x")
	try("missing", "g", "no")
	try("missing-from", "no", "g")
	try("slash", "g", "f/")
	try("slash-file", "g/", "f")
	c.List("list", ".")
}

func renameWhiteout(c *record.Seen) {
	c.Put("f", "f")
	c.Err("whiteout", unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, "g", unix.RENAME_WHITEOUT))
	c.List("list", ".")
}

func renameOverOpen(c *record.Seen) {
	c.Put("f", "old")
	c.Put("g", "new")
	r := c.Get("f", unix.O_RDONLY)
	w := c.Get("f", unix.O_RDWR)
	c.Err("rename", unix.Rename("g", "f"))
	c.Read("reader", r)
	c.Write("writer", w, "OLD+")
	_, err := unix.Seek(r, 0, 0)
	c.Must(err)
	c.Read("reader2", r)
	c.Fstat("fstat", w)
	c.Content("content", "f")
}

func renameSymlinks(c *record.Seen) {
	c.Put("t", "target")
	c.Must(unix.Symlink("t", "l"))
	c.Put("f", "f")
	c.Err("link", unix.Rename("l", "m"))
	c.Stat("m", "m")
	c.Err("over-link", unix.Rename("f", "m"))
	c.Stat("m2", "m")
	c.Content("t", "t")
	c.Mkdir("d")
	c.Must(unix.Symlink("d", "ld"))
	c.Err("slash", unix.Rename("ld/", "x"))
	c.Err("directory-over-link", unix.Rename("d", "ld"))
	c.List("list", ".")
}

func renameOpenWriter(c *record.Seen) {
	c.Mkdir("d")
	c.Put("f", "1")
	w := c.Get("f", unix.O_WRONLY|unix.O_APPEND)
	c.Err("rename", unix.Rename("f", "d/g"))
	c.Write("write", w, "2")
	c.Err("rename-directory", unix.Rename("d", "e"))
	c.Write("write2", w, "3")
	c.Err("fchmod", unix.Fchmod(w, 0o600))
	c.Content("content", "e/g")
	c.Stat("stat", "e/g")
}

func renameBetween(c *record.Seen) {
	c.Mkdir("a")
	c.Mkdir("b")
	c.Mkdir("a/d")
	c.Put("a/d/f", "x")
	a, b := c.Get("a", unix.O_RDONLY), c.Get("b", unix.O_PATH)
	c.Err("renameat", unix.Renameat(a, "d", b, "e"))
	c.Content("content", "b/e/f")
	c.Err("dotdot", unix.Renameat(b, "../b/e", a, "../c"))
	c.Stat("stat", "c/f")
	c.Must(unix.Chmod("c", 0o555))
	c.Err("unwritable-directory", unix.Rename("c", "a/c"))
	c.Err("unwritable-same-parent", unix.Rename("c", "k"))
	c.List("list", ".")
}

func cwdRenamed(c *record.Seen) {
	c.Mkdir("d")
	c.Must(unix.Chdir("d"))
	c.Err("rename", unix.Rename("../d", "../e"))
	c.Open("create", "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("mkdir", unix.Mkdir("g", 0o755))
	c.Err("dotdot", unix.Mkdir("../h", 0o755))
	b := make([]byte, 4096)
	n, err := unix.Getcwd(b)
	c.Err("getcwd", err)
	c.See("ends", string(b[max(n-3, 0):max(n-1, 0)]))
	c.List("list", "../e")
	c.List("list2", "..")
}

func cwdRemoved(c *record.Seen) {
	c.Mkdir("d")
	c.Must(unix.Chdir("d"))
	c.Must(unix.Rmdir("../d"))
	c.Open("create", "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("mkdir", unix.Mkdir("g", 0o755))
	c.Err("symlink", unix.Symlink("x", "g"))
	c.Err("rmdir", unix.Rmdir("."))
	c.Err("chmod", unix.Chmod(".", 0o700))
	c.Open("tmpfile", ".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	c.Err("access", unix.Access(".", unix.W_OK))
	b := make([]byte, 4096)
	_, err := unix.Getcwd(b)
	c.Err("getcwd", err)
	c.Err("up", unix.Mkdir("../h", 0o755))
	c.Err("chdir", unix.Chdir(".."))
	c.List("list", ".")
}

func fchdir(c *record.Seen) {
	c.Mkdir("a")
	c.Mkdir("b")
	a, b, f := c.Get("a", unix.O_RDONLY), c.Get("b", unix.O_PATH), c.Get("f", unix.O_WRONLY|unix.O_CREAT)
	for i, fd := range []int{a, b, a, f, -1} {
		c.Err(fmt.Sprint("fchdir", i), unix.Fchdir(fd))
		c.Err(fmt.Sprint("mkdir", i), unix.Mkdir(fmt.Sprint("d", i), 0o755))
		c.Open(fmt.Sprint("open", i), fmt.Sprint("f", i), unix.O_WRONLY|unix.O_CREAT, 0o644)
	}
	c.Err("chdir", unix.Chdir(".."))
	c.List("a", "a")
	c.List("b", "b")
	c.Must(unix.Chmod("a", 0o600))
	c.Err("unsearchable", unix.Chdir("a"))
	c.Err("unsearchable-fd", unix.Fchdir(a))
}

func removedDirectory(c *record.Seen) {
	c.Mkdir("d")
	d := c.Get("d", unix.O_RDONLY)
	c.Must(unix.Rmdir("d"))
	_, err := unix.Openat(d, "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("create", err)
	c.Err("mkdirat", unix.Mkdirat(d, "e", 0o755))
	c.Err("fchmod", unix.Fchmod(d, 0o700))
	c.Err("futimens", record.Futimens(d, nil))
	c.Err("fsync", unix.Fsync(d))
	c.Err("up", unix.Mkdirat(d, "../e", 0o755))
	c.Fstat("fstat", d)
	c.Mkdir("d")
	_, err = unix.Openat(d, "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("same-name", err)
	c.List("list", "d")
}

func readdirRemoving(c *record.Seen) {
	c.Mkdir("d")
	for i := range 700 {
		c.Must(unix.Mknod(fmt.Sprintf("d/file-with-a-name-%04d", i), unix.S_IFREG|0o644, 0))
	}
	d := c.Get("d", unix.O_RDONLY)
	b := make([]byte, 2048)
	count, bad := 0, 0
	for {
		n, err := unix.Getdents(d, b)
		c.Must(err)
		if n == 0 {
			break
		}
		_, _, names := unix.ParseDirent(b[:n], -1, nil)
		for _, f := range names {
			count++
			if unix.Unlinkat(d, f, 0) != nil {
				bad++
			}
		}
	}
	c.See("seen", count)
	c.See("not-removed", bad)
	c.Err("rmdir", unix.Rmdir("d"))
}

func readdirTypes(c *record.Seen) {
	c.Put("a-file", "x")
	c.Mkdir("b-dir")
	c.Must(unix.Symlink("x", "c-link"))
	c.Must(unix.Mkfifo("d-fifo", 0o600))
	c.Must(unix.Mknod("e-socket", unix.S_IFSOCK|0o600, 0))
	entries, err := os.ReadDir(".")
	c.Must(err)
	for _, e := range entries {
		c.See(e.Name(), e.Type())
	}
}

func readdirRewind(c *record.Seen) {
	d := c.Get(".", unix.O_RDONLY)
	names := func(label string) {
		_, err := unix.Seek(d, 0, 0)
		c.Must(err)
		b := make([]byte, 4096)
		n, err := unix.Getdents(d, b)
		c.Must(err)
		_, _, found := unix.ParseDirent(b[:n], -1, nil)
		slices.Sort(found)
		c.See(label, found)
	}
	names("empty")
	c.Put("a", "x")
	c.Put("b", "x")
	names("two")
	c.Must(unix.Unlink("a"))
	c.Must(unix.Rename("b", "c"))
	names("renamed")
}

// directoryDescriptor changes directories through descriptors of all kinds.
func directoryDescriptor(c *record.Seen) {
	c.Mkdir("d")
	fd := c.Get("d", unix.O_RDONLY|unix.O_DIRECTORY)
	c.Err("fchmod", unix.Fchmod(fd, 0o750))
	c.Stat("mode", "d")
	c.Err("fchown", unix.Fchown(fd, os.Getuid(), os.Getgid()))
	times := [2]unix.Timespec{{Sec: 1_000_000_000, Nsec: 5}, {Sec: 1_100_000_000, Nsec: 7}}
	c.Err("futimens", record.Futimens(fd, &times))
	var st unix.Stat_t
	c.Must(unix.Stat("d", &st))
	c.See("mtime", fmt.Sprint(st.Mtim.Sec, ".", st.Mtim.Nsec))
	c.Err("fsetxattr", unix.Fsetxattr(fd, "user.a", []byte("1"), 0))
	b := make([]byte, 10)
	n, err := unix.Fgetxattr(fd, "user.a", b)
	c.Err("fgetxattr", err)
	c.See("value", string(b[:max(n, 0)]))
	c.Err("fremovexattr", unix.Fremovexattr(fd, "user.a"))
	c.Err("fremovexattr2", unix.Fremovexattr(fd, "user.a"))
	c.Err("chmod-empty-path", record.Fchmodat2(fd, "", 0o700, unix.AT_EMPTY_PATH))
	c.Err("chown-empty-path", unix.Fchownat(fd, "", -1, -1, unix.AT_EMPTY_PATH))
	c.Err("utimens-empty-path", record.Utimensat(fd, "", nil, unix.AT_EMPTY_PATH))
	c.Err("ftruncate", unix.Ftruncate(fd, 0))
	c.Err("flock", unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
	c.Stat("mode2", "d")
	_, err = unix.Openat(fd, ".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	c.Err("tmpfile", err)
	c.Err("proc-chmod", unix.Chmod(record.ProcFD(fd), 0o711))
	c.Stat("mode3", "d")
}

func directoryFsync(c *record.Seen) {
	fd := c.Get(".", unix.O_RDONLY|unix.O_DIRECTORY)
	c.Err("fsync", unix.Fsync(fd))
	c.Err("fdatasync", unix.Fdatasync(fd))
	c.Err("syncfs", unix.Syncfs(fd))
}

func directoryMany(c *record.Seen) {
	bad := 0
	for i := range 1500 {
		if unix.Mkdir(fmt.Sprintf("directory-%04d", i), 0o755) != nil {
			bad++
		}
	}
	c.See("not-made", bad)
	entries, err := os.ReadDir(".")
	c.Err("list", err)
	c.See("count", len(entries))
	for i := range 1500 {
		if unix.Rmdir(fmt.Sprintf("directory-%04d", i)) != nil {
			bad++
		}
	}
	c.See("not-removed", bad)
}

// directoryTimes sees which operations change a directory's modification time.
func directoryTimes(c *record.Seen) {
	old := &[2]unix.Timespec{{Sec: 1_000_000_000}, {Sec: 1_000_000_000}}
	c.Mkdir("d")
	c.Put("f", "x")
	step := func(label string, f func() error) {
		c.Must(record.Utimensat(unix.AT_FDCWD, "d", old, 0))
		c.Err(label, f())
		var st unix.Stat_t
		c.Must(unix.Stat("d", &st))
		c.See(label+"-changed", st.Mtim.Sec != old[1].Sec)
	}
	var w int
	step("create", func() (err error) { w, err = unix.Open("d/a", unix.O_WRONLY|unix.O_CREAT, 0o644); return err })
	step("write", func() error { _, err := unix.Write(w, []byte("x")); return err })
	step("open-existing", func() error { _, err := unix.Open("d/a", unix.O_WRONLY|unix.O_CREAT, 0o644); return err })
	step("chmod", func() error { return unix.Chmod("d/a", 0o600) })
	step("link", func() error { return unix.Link("d/a", "d/b") })
	step("rename", func() error { return unix.Rename("d/a", "d/c") })
	step("rename-same", func() error { return unix.Rename("d/b", "d/c") })
	step("rename-in", func() error { return unix.Rename("f", "d/f") })
	step("unlink", func() error { return unix.Unlink("d/b") })
	step("mkdir", func() error { return unix.Mkdir("d/m", 0o755) })
	step("mkdir-failing", func() error { return unix.Mkdir("d/m", 0o755) })
	step("rmdir", func() error { return unix.Rmdir("d/m") })
	step("symlink", func() error { return unix.Symlink("x", "d/s") })
	step("xattr", func() error { return unix.Setxattr("d", "user.a", []byte("1"), 0) })
	step("unlink-missing", func() error { return unix.Unlink("d/none") })
}

func directoryNlink(c *record.Seen) {
	nlink := func(label string) {
		var st unix.Stat_t
		c.Must(unix.Stat("d", &st))
		c.See(label, st.Nlink)
	}
	c.Mkdir("d")
	nlink("empty")
	c.Mkdir("d/a")
	c.Mkdir("d/b")
	nlink("two")
	c.Must(unix.Rename("d/a", "a"))
	nlink("one")
	c.Must(unix.Rmdir("d/b"))
	nlink("none")
}
