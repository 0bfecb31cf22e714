package names

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func openChecks() []record.Named {
	return []record.Named{
		{Name: "open-modes", Do: openModes}, {Name: "open-create", Do: openCreate}, {Name: "open-excl", Do: openExcl}, {Name: "open-trunc", Do: openTrunc},
		{Name: "open-append", Do: openAppend}, {Name: "open-nofollow", Do: openNofollow}, {Name: "open-directory", Do: openDirectory},
		{Name: "open-path", Do: openPath}, {Name: "open-path-reopen", Do: openPathReopen}, {Name: "open-tmpfile", Do: openTmpfile},
		{Name: "open-tmpfile-errors", Do: openTmpfileErrors}, {Name: "open-tmpfile-empty-path", Do: openTmpfileEmptyPath},
		{Name: "open-cloexec", Do: openCloexec}, {Name: "open-create-dangling", Do: openDangling}, {Name: "open-create-slash", Do: openSlash},
		{Name: "open-getfl", Do: openGetfl}, {Name: "open-mode-of-new", Do: openModeOfNew}, {Name: "open-accmode-3", Do: openAccmode3},
		{Name: "openat-relative", Do: openatRelative}, {Name: "openat-on-file", Do: openatOnFile}, {Name: "openat2-resolve", Do: openat2Resolve},
		{Name: "openat2-arguments", Do: openat2Arguments}, {Name: "openat2-create", Do: openat2Create}, {Name: "open-lowest-number", Do: openLowest},
		{Name: "open-same-file", Do: openSameFile}, {Name: "open-fd-path", Do: openFDPath}, {Name: "open-direct", Do: openDirect},
		{Name: "open-sync", Do: openSync}, {Name: "open-special-bits", Do: openSpecialBits},
		{Name: "open-matrix-missing", Do: matrix("missing")}, {Name: "open-matrix-file", Do: matrix("file")}, {Name: "open-matrix-directory", Do: matrix("directory")},
		{Name: "open-matrix-symlink", Do: matrix("symlink")}, {Name: "open-matrix-dangling", Do: matrix("dangling")},
		{Name: "open-matrix-symlink-directory", Do: matrix("symdir")}, {Name: "open-matrix-fifo", Do: matrix("fifo")}, {Name: "open-matrix-loop", Do: matrix("loop")},
	}
}

// matrix opens one kind of thing with all combinations of flags.
func matrix(kind string) func(c *record.Seen) {
	flags := []int{unix.O_CREAT, unix.O_EXCL, unix.O_TRUNC, unix.O_NOFOLLOW, unix.O_DIRECTORY, unix.O_APPEND}
	return func(c *record.Seen) {
		for mode, label := range []string{"rdonly", "wronly", "rdwr"} {
			var results []string
			for bits := range 1 << len(flags) {
				f := mode | unix.O_NONBLOCK | unix.O_CLOEXEC
				for i, flag := range flags {
					if bits>>i&1 != 0 {
						f |= flag
					}
				}
				results = append(results, combination(c, kind, f))
			}
			c.See(label, record.Repeat(results))
		}
	}
}

// combination makes a thing, opens it once and says what became of it.
func combination(c *record.Seen, kind string, flags int) string {
	c.Put("file", "12345")
	switch kind {
	case "file":
		c.Put("x", "12345")
	case "directory":
		c.Mkdir("x")
	case "symlink":
		c.Must(unix.Symlink("file", "x"))
	case "symdir":
		c.Must(unix.Symlink(".", "x"))
	case "dangling":
		c.Must(unix.Symlink("target", "x"))
	case "loop":
		c.Must(unix.Symlink("x", "x"))
	case "fifo":
		c.Must(unix.Mkfifo("x", 0o644))
	}
	fd, err := unix.Open("x", flags, 0o644)
	record.CloseAll(fd)
	said := record.Name(err)
	var st unix.Stat_t
	if unix.Stat("file", &st) == nil && st.Size != 5 {
		said += fmt.Sprintf(":size%d", st.Size)
	}
	if unix.Stat("target", &st) == nil {
		said += ":target"
	}
	if unix.Lstat("x", &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		said += fmt.Sprintf(":%d", st.Size)
	}
	_ = unix.Unlink("target")
	_ = unix.Unlink("x")
	_ = unix.Rmdir("x")
	return said
}

func openModes(c *record.Seen) {
	c.Put("f", "12345")
	for mode, label := range []string{"rdonly", "wronly", "rdwr"} {
		fd := c.Open(label, "f", mode, 0)
		c.Read(label+"-read", fd)
		c.Write(label+"-write", fd, "ab")
		record.CloseAll(fd)
	}
	c.Content("content", "f")
}

func openCreate(c *record.Seen) {
	c.Open("absent", "f", unix.O_WRONLY, 0)
	fd := c.Open("new", "f", unix.O_WRONLY|unix.O_CREAT, 0o666)
	c.Write("write", fd, "x")
	c.Open("again", "f", unix.O_WRONLY|unix.O_CREAT, 0o600)
	c.Stat("stat", "f")
	c.Open("rdonly-new", "g", unix.O_RDONLY|unix.O_CREAT, 0o640)
	c.Stat("rdonly-stat", "g")
	c.Open("no-parent", "d/f", unix.O_WRONLY|unix.O_CREAT, 0o640)
	c.Open("through-file", "f/f", unix.O_WRONLY|unix.O_CREAT, 0o640)
}

func openExcl(c *record.Seen) {
	const excl = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	c.Mkdir("d")
	c.Must(unix.Symlink("f", "link"))
	c.Must(unix.Symlink("nothing", "dangling"))
	c.Open("new", "f", excl, 0o644)
	for _, n := range []string{"f", "d", "link", "dangling", "d/", "missing/", "."} {
		c.Open(n, n, excl, 0o644)
	}
	c.List("list", ".")
}

func openTrunc(c *record.Seen) {
	for _, mode := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
		c.Put("f", "12345")
		fd := c.Open(fmt.Sprint("mode", mode), "f", mode|unix.O_TRUNC, 0)
		c.Fstat("fstat", fd)
		record.CloseAll(fd)
	}
	c.Put("f", "12345")
	reader := c.Get("f", unix.O_RDONLY)
	c.Open("again", "f", unix.O_WRONLY|unix.O_TRUNC, 0)
	c.Read("reader", reader)
	c.Must(unix.Chmod("f", 0o444))
	c.Open("unwritable", "f", unix.O_RDONLY|unix.O_TRUNC, 0)
	c.Mkdir("d")
	c.Open("directory", "d", unix.O_RDONLY|unix.O_TRUNC, 0)
}

func openAppend(c *record.Seen) {
	c.Put("f", "12345")
	a := c.Open("open", "f", unix.O_RDWR|unix.O_APPEND, 0)
	b := c.Get("f", unix.O_WRONLY|unix.O_APPEND)
	c.Write("a", a, "a")
	c.Write("b", b, "b")
	c.Write("a2", a, "A")
	_, err := unix.Pwrite(a, []byte("P"), 0)
	c.Err("pwrite", err)
	c.Content("content", "f")
	flags, err := unix.FcntlInt(uintptr(a), unix.F_GETFL, 0)
	c.Err("getfl", err)
	_, err = unix.FcntlInt(uintptr(a), unix.F_SETFL, flags&^unix.O_APPEND)
	c.Err("setfl", err)
	_, err = unix.Pwrite(a, []byte("Q"), 0)
	c.Err("pwrite2", err)
	c.Content("content2", "f")
	off, err := unix.Seek(a, 0, unix.SEEK_CUR)
	c.Err("seek", err)
	c.See("offset", off)
}

func openNofollow(c *record.Seen) {
	c.Mkdir("d")
	c.Put("d/f", "12345")
	c.Must(unix.Symlink("d/f", "l"))
	c.Must(unix.Symlink("d", "ld"))
	c.Open("link", "l", unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	c.Open("link-write", "l", unix.O_WRONLY|unix.O_NOFOLLOW, 0)
	c.Open("link-create", "l", unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW, 0o644)
	c.Open("link-trunc", "l", unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW, 0)
	c.Open("in-the-middle", "ld/f", unix.O_WRONLY|unix.O_NOFOLLOW, 0)
	c.Open("directory-link", "ld", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	c.Open("directory-link-slash", "ld/", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	fd := c.Open("path", "l", unix.O_PATH|unix.O_NOFOLLOW, 0)
	c.Fstat("path-fstat", fd)
	b := make([]byte, 50)
	n, err := unix.Readlinkat(fd, "", b)
	c.Err("readlinkat", err)
	c.See("target", string(b[:max(n, 0)]))
	c.Content("content", "d/f")
}

func openDirectory(c *record.Seen) {
	c.Mkdir("d")
	c.Put("f", "12345")
	c.Open("file", "f", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	c.Open("file-write", "f", unix.O_WRONLY|unix.O_DIRECTORY, 0)
	fd := c.Open("directory", "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	c.Open("directory-write", "d", unix.O_WRONLY|unix.O_DIRECTORY, 0)
	c.Open("directory-rdwr", "d", unix.O_RDWR, 0)
	c.Open("create", "d", unix.O_RDONLY|unix.O_CREAT, 0o644)
	c.Open("create-directory", "e", unix.O_RDONLY|unix.O_CREAT|unix.O_DIRECTORY, 0o755)
	c.Read("read", fd)
	c.Write("write", fd, "x")
	c.List("list", ".")
}

func openPath(c *record.Seen) {
	c.Mkdir("d")
	c.Put("f", "12345")
	fd := c.Open("file", "f", unix.O_PATH, 0)
	c.Read("read", fd)
	c.Write("write", fd, "x")
	c.Err("fchmod", unix.Fchmod(fd, 0o600))
	c.Err("fchown", unix.Fchown(fd, -1, -1))
	c.Err("ftruncate", unix.Ftruncate(fd, 1))
	c.Err("fsetxattr", unix.Fsetxattr(fd, "user.a", []byte("1"), 0))
	c.Err("futimens", record.Futimens(fd, nil))
	c.Fstat("fstat", fd)
	c.Err("chmod-empty-path", record.Fchmodat2(fd, "", 0o640, unix.AT_EMPTY_PATH))
	c.Err("chown-empty-path", unix.Fchownat(fd, "", -1, -1, unix.AT_EMPTY_PATH))
	c.Err("utimens-empty-path", record.Utimensat(fd, "", nil, unix.AT_EMPTY_PATH))
	c.Stat("stat", "f")
	d := c.Open("directory", "d", unix.O_PATH, 0)
	_, err := unix.Openat(d, "g", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("openat", err)
	c.Err("mkdirat", unix.Mkdirat(d, "h", 0o755))
	c.Err("fchmod-directory", unix.Fchmod(d, 0o700))
	c.Err("fchdir", unix.Fchdir(d))
	c.List("list", ".")
}

func openPathReopen(c *record.Seen) {
	c.Put("f", "12345")
	fd := c.Get("f", unix.O_PATH)
	w := c.Open("write", record.ProcFD(fd), unix.O_WRONLY, 0)
	c.Write("wrote", w, "x")
	c.Open("trunc", record.ProcFD(fd), unix.O_WRONLY|unix.O_TRUNC, 0)
	c.Content("content", "f")
	c.Open("excl", record.ProcFD(fd), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	c.Open("nofollow", record.ProcFD(fd), unix.O_WRONLY|unix.O_NOFOLLOW, 0)
	c.Must(unix.Chmod("f", 0o444))
	c.Open("unwritable", record.ProcFD(fd), unix.O_WRONLY, 0)
	c.Must(unix.Chmod("f", 0o644))
	c.Must(unix.Unlink("f"))
	c.Open("unlinked", record.ProcFD(fd), unix.O_WRONLY, 0)
}

func openTmpfile(c *record.Seen) {
	fd := c.Open("open", ".", unix.O_RDWR|unix.O_TMPFILE, 0o666)
	c.Write("write", fd, "12345")
	c.Fstat("fstat", fd)
	c.List("list", ".")
	c.Err("link", unix.Linkat(unix.AT_FDCWD, record.ProcFD(fd), unix.AT_FDCWD, "f", unix.AT_SYMLINK_FOLLOW))
	c.Err("exists", unix.Linkat(unix.AT_FDCWD, record.ProcFD(fd), unix.AT_FDCWD, "f", unix.AT_SYMLINK_FOLLOW))
	c.Err("second", unix.Linkat(unix.AT_FDCWD, record.ProcFD(fd), unix.AT_FDCWD, "g", unix.AT_SYMLINK_FOLLOW))
	c.Write("more", fd, "67")
	c.Stat("stat", "f")
	c.Content("content", "g")
	e := c.Open("excl", ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_EXCL, 0o600)
	c.Err("excl-link", unix.Linkat(unix.AT_FDCWD, record.ProcFD(e), unix.AT_FDCWD, "h", unix.AT_SYMLINK_FOLLOW))
}

func openTmpfileErrors(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	c.Must(unix.Chmod("d", 0o555))
	c.Open("rdonly", ".", unix.O_RDONLY|unix.O_TMPFILE, 0o600)
	c.Open("file", "f", unix.O_RDWR|unix.O_TMPFILE, 0o600)
	c.Open("missing", "no", unix.O_RDWR|unix.O_TMPFILE, 0o600)
	c.Open("unwritable", "d", unix.O_RDWR|unix.O_TMPFILE, 0o600)
	c.Open("create", ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CREAT, 0o600)
	c.Must(unix.Symlink("d", "l"))
	c.Open("nofollow", "l", unix.O_RDWR|unix.O_TMPFILE|unix.O_NOFOLLOW, 0o600)
	c.List("list", ".")
}

func openTmpfileEmptyPath(c *record.Seen) {
	fd := c.Open("open", ".", unix.O_WRONLY|unix.O_TMPFILE, 0o640)
	c.Write("write", fd, "x")
	c.Err("link", unix.Linkat(fd, "", unix.AT_FDCWD, "f", unix.AT_EMPTY_PATH))
	c.Stat("stat", "f")
	c.Err("no-flag", unix.Linkat(fd, "", unix.AT_FDCWD, "g", 0))
}

func openCloexec(c *record.Seen) {
	for _, flag := range []int{unix.O_CLOEXEC, 0} {
		fd, err := unix.Open("f", unix.O_WRONLY|unix.O_CREAT|flag, 0o644)
		c.Must(err)
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		c.Must(err)
		c.See(fmt.Sprintf("%#o", flag), got)
		c.Child("child", "has", fmt.Sprint(fd))
	}
}

func openDangling(c *record.Seen) {
	c.Must(unix.Symlink("target", "l"))
	c.Must(unix.Symlink("l", "chain"))
	c.Must(unix.Symlink("no/where", "deep"))
	c.Must(unix.Symlink("target2/", "slash"))
	c.Must(unix.Symlink("/nonexistent-at-all/f", "absolute"))
	c.Open("plain", "l", unix.O_WRONLY, 0)
	c.Open("chain", "chain", unix.O_WRONLY|unix.O_CREAT, 0o640)
	c.Stat("target", "target")
	c.Open("deep", "deep", unix.O_WRONLY|unix.O_CREAT, 0o640)
	c.Open("slash", "slash", unix.O_WRONLY|unix.O_CREAT, 0o640)
	c.Open("absolute", "absolute", unix.O_WRONLY|unix.O_CREAT, 0o640)
	c.List("list", ".")
}

func openSlash(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	c.Must(unix.Symlink("f", "l"))
	for _, n := range []string{"new/", "f/", "d/", "l/", "f/.", "f/..", "d/.", "d/..", "new/.", "new/..", "new/../f"} {
		c.Open(n, n, unix.O_WRONLY|unix.O_CREAT, 0o644)
		c.Open(n+"-rd", n, unix.O_RDONLY, 0)
	}
	c.List("list", ".")
}

func openGetfl(c *record.Seen) {
	for label, flags := range record.Ordered(map[string]int{
		"a-plain": unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC, "b-append": unix.O_RDWR | unix.O_APPEND, "c-nonblock": unix.O_WRONLY | unix.O_NONBLOCK,
		"d-sync": unix.O_WRONLY | unix.O_SYNC, "e-dsync": unix.O_WRONLY | unix.O_DSYNC, "f-nofollow": unix.O_WRONLY | unix.O_NOFOLLOW,
		"g-noatime": unix.O_RDWR | unix.O_NOATIME, "h-noctty": unix.O_RDWR | unix.O_NOCTTY,
		"i-rdonly": unix.O_RDONLY, "j-rdonly-create": unix.O_RDONLY | unix.O_CREAT, "k-async": unix.O_WRONLY | unix.O_ASYNC,
	}) {
		fd, err := unix.Open("f", flags|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		c.Must(err)
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		c.Must(err)
		c.See(label, fmt.Sprintf("%#o", got))
	}
	c.Sort()
}

func openModeOfNew(c *record.Seen) {
	fd := c.Open("zero", "zero", unix.O_RDWR|unix.O_CREAT, 0)
	c.Write("zero-write", fd, "x")
	fd = c.Open("readonly", "readonly", unix.O_WRONLY|unix.O_CREAT, 0o444)
	c.Write("readonly-write", fd, "x")
	c.Open("again", "readonly", unix.O_WRONLY|unix.O_CREAT, 0o444)
	c.Open("again-rdonly", "readonly", unix.O_RDONLY|unix.O_CREAT, 0o444)
	c.Open("excl", "readonly", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o444)
	c.Stat("stat", "zero")
	c.Stat("stat2", "readonly")
}

func openAccmode3(c *record.Seen) {
	c.Put("f", "12345")
	fd := c.Open("open", "f", 3, 0)
	c.Read("read", fd)
	c.Write("write", fd, "x")
	c.Must(unix.Chmod("f", 0o444))
	c.Open("readonly", "f", 3, 0)
}

func openatRelative(c *record.Seen) {
	c.Mkdir("d")
	d := c.Get("d", unix.O_RDONLY|unix.O_DIRECTORY)
	fd, err := unix.Openat(d, "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("create", err)
	c.Write("write", fd, "x")
	_, err = unix.Openat(d, "../g", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("dotdot", err)
	_, err = unix.Openat(-1, "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("bad", err)
	_, err = unix.Openat(-1, "/proc/self/cwd/h", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("absolute", err)
	_, err = unix.Openat(d, "", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("empty", err)
	c.Must(unix.Rename("d", "e"))
	_, err = unix.Openat(d, "after", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("renamed", err)
	c.List("list", "e")
	c.List("list2", ".")
}

func openatOnFile(c *record.Seen) {
	fd := c.Get("f", unix.O_RDWR|unix.O_CREAT)
	for label, path := range record.Ordered(map[string]string{"a-name": "x", "b-dotdot": "..", "c-dot": ".", "d-empty": ""}) {
		_, err := unix.Openat(fd, path, unix.O_RDONLY, 0)
		c.Err(label, err)
		_, err = unix.Openat(fd, path, unix.O_WRONLY|unix.O_CREAT, 0o644)
		c.Err(label+"-create", err)
		_, err = unix.Open(record.ProcFD(fd)+"/"+path, unix.O_WRONLY|unix.O_CREAT, 0o644)
		c.Err(label+"-proc", err)
	}
	c.Sort()
}

func openat2Resolve(c *record.Seen) {
	c.Mkdir("d")
	c.Put("f", "x")
	c.Must(unix.Symlink("../f", "d/up"))
	c.Must(unix.Symlink("inside", "d/in"))
	d := c.Get("d", unix.O_PATH)
	for _, r := range []struct {
		label, path string
		resolve     uint64
	}{
		{"beneath-dotdot", "../f", unix.RESOLVE_BENEATH}, {"beneath-link", "up", unix.RESOLVE_BENEATH}, {"beneath-absolute", "/f", unix.RESOLVE_BENEATH},
		{"beneath-in", "in", unix.RESOLVE_BENEATH}, {"root-dotdot", "../r", unix.RESOLVE_IN_ROOT}, {"root-absolute", "/a", unix.RESOLVE_IN_ROOT},
		{"root-link", "up", unix.RESOLVE_IN_ROOT}, {"no-symlinks", "in", unix.RESOLVE_NO_SYMLINKS}, {"no-symlinks-plain", "n", unix.RESOLVE_NO_SYMLINKS},
		{"no-magic", "/proc/self/cwd/m", unix.RESOLVE_NO_MAGICLINKS}, {"no-xdev", "x", unix.RESOLVE_NO_XDEV}, {"cached", "in", 0x20},
		{"both", "b", unix.RESOLVE_BENEATH | unix.RESOLVE_IN_ROOT},
	} {
		fd, err := unix.Openat2(d, r.path, &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o640, Resolve: r.resolve})
		for err == unix.EAGAIN && r.resolve&(unix.RESOLVE_BENEATH|unix.RESOLVE_IN_ROOT) != 0 { // a rename somewhere on the machine raced: openat2(2)
			fd, err = unix.Openat2(d, r.path, &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o640, Resolve: r.resolve})
		}
		c.Err(r.label, err)
		record.CloseAll(fd)
	}
	c.List("list", "d")
	c.List("list2", ".")
}

func openat2Arguments(c *record.Seen) {
	how := func(flags, mode uint64) *unix.OpenHow { return &unix.OpenHow{Flags: flags, Mode: mode} }
	for _, a := range []struct {
		label string
		how   *unix.OpenHow
	}{
		{"mode-without-create", how(unix.O_WRONLY, 0o600)}, {"unknown-flag", how(1<<40, 0)}, {"mode-too-wide", how(unix.O_WRONLY|unix.O_CREAT, 0o10000)},
		{"path-and-create", how(unix.O_PATH|unix.O_CREAT, 0o600)}, {"good", how(unix.O_WRONLY|unix.O_CREAT, 0o600)},
	} {
		_, err := unix.Openat2(unix.AT_FDCWD, "f", a.how)
		c.Err(a.label, err)
	}
	p, err := unix.BytePtrFromString("f")
	c.Must(err)
	raw := func(label string, how unsafe.Pointer, size uintptr) {
		_, _, e := unix.Syscall6(unix.SYS_OPENAT2, record.FDCwd(), uintptr(unsafe.Pointer(p)), uintptr(how), size, 0, 0)
		c.Err(label, record.NoError(e))
	}
	big := struct {
		unix.OpenHow
		more [2]uint64
	}{OpenHow: *how(unix.O_WRONLY, 0)}
	raw("short", unsafe.Pointer(&big), 8)
	raw("longer-zero", unsafe.Pointer(&big), unsafe.Sizeof(big))
	big.more[1] = 1
	raw("longer-set", unsafe.Pointer(&big), unsafe.Sizeof(big))
	raw("too-long", unsafe.Pointer(&big), 1<<20)
	raw("bad-address", nil, unsafe.Sizeof(unix.OpenHow{}))
	c.List("list", ".")
}

func openat2Create(c *record.Seen) {
	fd, err := unix.Openat2(unix.AT_FDCWD, "f", &unix.OpenHow{Flags: unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: 0o666})
	c.Err("create", err)
	c.Write("write", fd, "12345")
	c.Stat("stat", "f")
	_, err = unix.Openat2(unix.AT_FDCWD, "f", &unix.OpenHow{Flags: unix.O_RDWR | unix.O_CREAT | unix.O_EXCL, Mode: 0o666})
	c.Err("again", err)
	fd, err = unix.Openat2(unix.AT_FDCWD, "f", &unix.OpenHow{Flags: unix.O_RDONLY})
	c.Err("rdonly", err)
	c.Read("read", fd)
	fd, err = unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_TMPFILE, Mode: 0o600})
	c.Err("tmpfile", err)
	c.Write("tmpfile-write", fd, "x")
}
