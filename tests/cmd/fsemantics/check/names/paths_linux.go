package names

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func pathChecks() []record.Named {
	return []record.Named{
		{Name: "path-empty", Do: onPath("", nil)}, {Name: "path-missing", Do: onPath("no", nil)}, {Name: "path-missing-parent", Do: onPath("no/f", nil)},
		{Name: "path-through-file", Do: onPath("f/x", nil)}, {Name: "path-file-slash", Do: onPath("f/", nil)}, {Name: "path-dir-slash", Do: onPath("d/", nil)},
		{Name: "path-missing-slash", Do: onPath("no/", nil)}, {Name: "path-dot", Do: onPath(".", nil)}, {Name: "path-dotdot", Do: onPath("d/..", nil)},
		{Name: "path-dir-dot", Do: onPath("d/.", nil)}, {Name: "path-file", Do: onPath("f", nil)}, {Name: "path-dir", Do: onPath("d", nil)},
		{Name: "path-full-dir", Do: onPath("full", nil)}, {Name: "path-link", Do: onPath("link", nil)}, {Name: "path-dangling", Do: onPath("dangling", nil)},
		{Name: "path-loop", Do: onPath("loop", nil)}, {Name: "path-loop-inside", Do: onPath("loop/x", nil)}, {Name: "path-link-slash", Do: onPath("link/", nil)},
		{Name: "path-dirlink", Do: onPath("dirlink", nil)}, {Name: "path-dirlink-slash", Do: onPath("dirlink/", nil)}, {Name: "path-dangling-slash", Do: onPath("dangling/", nil)},
		{Name: "path-in-dirlink", Do: onPath("dirlink/g", nil)}, {Name: "path-dirlink-dotdot", Do: onPath("deeplink/../g", nil)},
		{Name: "path-fifo", Do: onPath("fifo", nil)}, {Name: "path-name-255", Do: onPath(strings.Repeat("n", 255), nil)},
		{Name: "path-name-256", Do: onPath(strings.Repeat("n", 256), nil)}, {Name: "path-name-256-below", Do: onPath("no/"+strings.Repeat("n", 256), nil)},
		{Name: "path-4095", Do: onPath(strings.Repeat("/", 4093)+"f", slashed)}, {Name: "path-4096", Do: onPath(strings.Repeat("/", 4094)+"f", slashed)},
		{Name: "path-bytes", Do: onPath("\xff\n\x01", nil)}, {Name: "path-slashes", Do: onPath(".///d////g", nil)},
		{Name: "path-bad-address", Do: pathBadAddress}, {Name: "path-page-end", Do: pathPageEnd}, {Name: "path-40-links", Do: pathManyLinks},
		{Name: "path-deep", Do: pathDeep}, {Name: "path-deep-cwd", Do: pathDeepCwd}, {Name: "path-exdev", Do: pathExdev}, {Name: "path-names-listed", Do: pathNamesListed},
		{Name: "path-bad-descriptor", Do: pathBadDescriptor}, {Name: "path-bad-flags", Do: pathBadFlags}, {Name: "path-proc-cwd", Do: pathProcCwd}, {Name: "path-proc-root", Do: pathProcRoot},
		{Name: "path-links-to-names", Do: pathLinks},
	}
}

// slashed puts the many slashes after the dot of a relative path.
func slashed(path string) string { return "." + path }

// onPath tries every mutation on one path.
func onPath(path string, change func(string) string) func(c *record.Seen) {
	if change != nil {
		path = change(path)
	}
	return func(c *record.Seen) {
		c.EachMutation("results", path, func() {
			c.Put("source", "source")
			c.Put("f", "12345")
			c.Mkdir("d")
			c.Mkdir("d/sub")
			c.Put("d/g", "12345")
			c.Must(unix.Mkdir("full", 0o755))
			c.Put("full/x", "x")
			for link, target := range record.Ordered(map[string]string{"link": "f", "dangling": "no", "loop": "loop", "dirlink": "d", "deeplink": "d/sub"}) {
				c.Must(unix.Symlink(target, link))
			}
			c.Must(unix.Mkfifo("fifo", 0o644))
			if path == "d/" || path == "d/." || path == "dirlink/" || path == "d" { // an empty directory
				c.Must(unix.Unlink("d/g"))
				c.Must(unix.Rmdir("d/sub"))
			}
		}, func() {
			entries, err := os.ReadDir(".")
			c.Must(err)
			for _, e := range entries {
				c.Must(os.RemoveAll(e.Name()))
			}
		})
	}
}

// badCalls gives calls an address.
func badCalls(c *record.Seen, label string, p *byte) {
	c.Put("f", "12345")
	good, err := unix.BytePtrFromString("f")
	c.Must(err)
	cwd := unix.AT_FDCWD
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"open", func() error { return record.PathCall(unix.SYS_OPENAT, cwd, p, unix.O_WRONLY|unix.O_CREAT, 0o644, 0) }},
		{"mkdir", func() error { return record.PathCall(unix.SYS_MKDIRAT, cwd, p, 0o755, 0, 0) }},
		{"unlink", func() error { return record.PathCall(unix.SYS_UNLINKAT, cwd, p, 0, 0, 0) }},
		{"rename", func() error {
			_, _, e := unix.Syscall6(unix.SYS_RENAMEAT2, uintptr(cwd), uintptr(unsafe.Pointer(good)), uintptr(cwd), uintptr(unsafe.Pointer(p)), 0, 0)
			return record.NoError(e)
		}},
		{"symlink", func() error {
			_, _, e := unix.Syscall(unix.SYS_SYMLINKAT, uintptr(unsafe.Pointer(p)), uintptr(cwd), uintptr(unsafe.Pointer(good)))
			return record.NoError(e)
		}},
		{"chmod", func() error { return record.PathCall(unix.SYS_FCHMODAT, cwd, p, 0o644, 0, 0) }},
		{"utimens", func() error { return record.PathCall(unix.SYS_UTIMENSAT, cwd, good, uintptr(unsafe.Pointer(p)), 0, 0) }},
		{"xattr-name", func() error {
			_, _, e := unix.Syscall6(unix.SYS_SETXATTR, uintptr(unsafe.Pointer(good)), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(good)), 1, 0, 0)
			return record.NoError(e)
		}},
		{"xattr-value", func() error {
			key, err := unix.BytePtrFromString("user.t")
			c.Must(err)
			_, _, e := unix.Syscall6(unix.SYS_SETXATTR, uintptr(unsafe.Pointer(good)), uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(p)), 100, 0, 0)
			return record.NoError(e)
		}},
	} {
		c.Err(label+"-"+call.name, call.do())
	}
}

func pathBadAddress(c *record.Seen) {
	page := c.Pages()
	badCalls(c, "unmapped", (*byte)(unsafe.Add(unsafe.Pointer(&page[0]), len(page))))
	copy(page[len(page)-3:], "abc") // without a terminator
	badCalls(c, "unterminated", &page[len(page)-3])
	c.List("list", ".")
}

func pathPageEnd(c *record.Seen) {
	page := c.Pages()
	for _, n := range []string{"g", "name", strings.Repeat("n", 255), strings.Repeat("./", 2000) + "h"} {
		at := len(page) - len(n) - 1
		copy(page[at:], n+"\x00")
		c.Err(fmt.Sprint("create", len(n)), record.PathCall(unix.SYS_OPENAT, unix.AT_FDCWD, &page[at], unix.O_WRONLY|unix.O_CREAT, 0o644, 0))
		c.Err(fmt.Sprint("unlink", len(n)), record.PathCall(unix.SYS_UNLINKAT, unix.AT_FDCWD, &page[at], 0, 0, 0))
	}
	long := []byte(strings.Repeat("./", 3000) + "f\x00")
	c.Err("too-long", record.PathCall(unix.SYS_MKDIRAT, unix.AT_FDCWD, &long[0], 0o755, 0, 0))
	c.List("list", ".")
}

// The kernel counts the links of a look-up that it begins anew, because of something beside it, on
// top of those of the first try: up to 40 links ELOOP is no answer, and it is asked again.
func pathManyLinks(c *record.Seen) {
	c.Put("l0", "12345")
	for i := range 41 {
		c.Must(unix.Symlink(fmt.Sprintf("l%d", i), fmt.Sprintf("l%d", i+1)))
	}
	patient := func(links int, try func() error) error {
		err := try()
		for n := 0; err == unix.ELOOP && links <= 40 && n < 100; n++ {
			err = try()
		}
		return err
	}
	for _, n := range []int{39, 40, 41} {
		link := fmt.Sprintf("l%d", n)
		c.Err(fmt.Sprint("write", n), patient(n, func() error {
			fd, err := unix.Open(link, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}))
		c.Err(fmt.Sprint("chmod", n), patient(n, func() error { return unix.Chmod(link, 0o600) }))
	}
	c.Mkdir("d")
	c.Must(unix.Symlink(".", "d/self"))
	for _, n := range []int{39, 40, 41} {
		c.Err(fmt.Sprint("mkdir", n), patient(n, func() error {
			return unix.Mkdir("d/"+strings.Repeat("self/", n)+fmt.Sprint("new", n), 0o755)
		}))
	}
}

// pathDeep works 5,000 bytes below the working directory.
func pathDeep(c *record.Seen) {
	fd := c.Get(".", unix.O_RDONLY|unix.O_DIRECTORY)
	const depth = 50
	long := strings.Repeat("d", 100)
	fds := []int{fd}
	for range depth {
		c.Must(unix.Mkdirat(fd, long, 0o755))
		next, err := unix.Openat(fd, long, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		c.Must(err)
		fds, fd = append(fds, next), next
	}
	f, err := unix.Openat(fd, "f", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	c.Err("create", err)
	c.Write("write", f, "x")
	_, err = unix.Openat(fd, "f", unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	c.Err("again", err)
	c.Err("chmod", unix.Fchmodat(fd, "f", 0o600, 0))
	c.Err("rename", unix.Renameat(fd, "f", fd, "g"))
	c.Err("link", unix.Linkat(fd, "g", fds[0], "top", 0))
	c.Err("symlink", unix.Symlinkat("g", fd, "s"))
	c.Err("utimens", record.Utimensat(fd, "g", nil, 0))
	c.Err("fchmod", unix.Fchmod(fd, 0o700))
	c.Err("far-rename", unix.Renameat(fd, "g", fds[1], "near"))
	c.Err("unlink", unix.Unlinkat(fd, "s", 0))
	c.Stat("top", "top")
	bad := 0
	for i := depth; i > 1; i-- {
		if unix.Unlinkat(fds[i-1], long, unix.AT_REMOVEDIR) != nil {
			bad++
		}
	}
	c.See("not-removed", bad)
}

func pathDeepCwd(c *record.Seen) {
	top := c.Get(".", unix.O_RDONLY|unix.O_DIRECTORY)
	long := strings.Repeat("c", 200)
	for range 25 {
		c.Must(unix.Mkdir(long, 0o755))
		c.Must(unix.Chdir(long))
	}
	c.Put("f", "12345")
	c.Open("write", "f", unix.O_WRONLY, 0)
	c.Err("mkdir", unix.Mkdir("d", 0o755))
	c.Err("chmod", unix.Chmod(".", 0o700))
	c.Err("rename", unix.Rename("f", "../g"))
	c.Err("dotdot", unix.Unlink("../g"))
	c.Err("rmdir", unix.Rmdir("d"))
	b := make([]byte, 4096)
	_, err := unix.Getcwd(b)
	c.Err("getcwd", err)
	c.List("list", ".")
	c.Must(unix.Fchdir(top))
}

func pathExdev(c *record.Seen) {
	other, remove := c.Elsewhere()
	defer remove()
	c.Put("f", "12345")
	c.Put(other+"/g", "12345")
	c.Mkdir("d")
	c.Err("rename-out", unix.Rename("f", other+"/f"))
	c.Err("rename-in", unix.Rename(other+"/g", "g"))
	c.Err("link-out", unix.Link("f", other+"/f"))
	c.Err("link-in", unix.Link(other+"/g", "g"))
	c.Err("missing-out", unix.Rename("no", other+"/f"))
	c.Err("to-missing", unix.Rename("f", other+"/no/f"))
	c.Err("directory-out", unix.Rename("d", other+"/d"))
	c.Err("exchange", unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, other+"/g", unix.RENAME_EXCHANGE))
	c.Err("noreplace-existing", unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, other+"/g", unix.RENAME_NOREPLACE))
	c.Must(unix.Symlink(other+"/g", "out"))
	c.Open("write-out", "out", unix.O_WRONLY, 0)
	c.Must(unix.Symlink(other+"/new", "new"))
	c.Open("create-out", "new", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("chmod-out", unix.Chmod("out", 0o600))
	c.Stat("outside", other+"/g")
	c.List("outside-list", other)
	c.Err("unlink-out", unix.Unlink("out"))
	c.List("list", ".")
}

func pathNamesListed(c *record.Seen) {
	for i, n := range []string{"a\nb", "\xe9\xff", "-rf", " ", "tab\t", "é", "...", "*", strings.Repeat("é", 127)} {
		fd := c.Open(fmt.Sprint("create", i), n, unix.O_WRONLY|unix.O_CREAT, 0o644)
		record.CloseAll(fd)
		c.Err(fmt.Sprint("chmod", i), unix.Chmod(n, 0o600))
	}
	c.List("list", ".")
}

func pathBadDescriptor(c *record.Seen) {
	c.Err("fchmod", unix.Fchmod(-1, 0o600))
	c.Err("fchown", unix.Fchown(999, -1, -1))
	c.Err("futimens", record.Futimens(-1, nil))
	c.Err("ftruncate", unix.Ftruncate(999, 0))
	c.Err("fsetxattr", unix.Fsetxattr(999, "user.a", nil, 0))
	c.Err("mkdirat", unix.Mkdirat(999, "d", 0o755))
	c.Err("unlinkat", unix.Unlinkat(999, "d", 0))
	c.Err("renameat", unix.Renameat(unix.AT_FDCWD, "x", 999, "d"))
	c.Err("symlinkat", unix.Symlinkat("x", 999, "d"))
	c.Err("linkat", unix.Linkat(999, "x", unix.AT_FDCWD, "d", 0))
	c.Err("proc", unix.Chmod("/proc/self/fd/999", 0o600))
	f := c.Get("f", unix.O_RDONLY|unix.O_CREAT)
	c.Err("file-mkdirat", unix.Mkdirat(f, "d", 0o755))
	c.Err("file-unlinkat", unix.Unlinkat(f, "d", 0))
	c.Err("file-absolute", unix.Mkdirat(f, "/proc/self/cwd/d", 0o755))
	r, w, err := record.Pipe()
	c.Must(err)
	c.Err("pipe-fchmod", unix.Fchmod(r, 0o600))
	c.Err("pipe-mkdirat", unix.Mkdirat(w, "e", 0o755))
	c.Open("pipe-reopen", record.ProcFD(r), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	c.List("list", ".")
}

func pathBadFlags(c *record.Seen) {
	c.Put("f", "x")
	cwd := unix.AT_FDCWD
	c.Err("unlinkat", unix.Unlinkat(cwd, "f", 1))
	c.Err("unlinkat-missing", unix.Unlinkat(cwd, "no", 0x8000))
	c.Err("linkat", unix.Linkat(cwd, "f", cwd, "g", 0x8000))
	c.Err("renameat2-unknown", unix.Renameat2(cwd, "f", cwd, "g", 1<<10))
	c.Err("renameat2-both", unix.Renameat2(cwd, "f", cwd, "g", unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE))
	c.Err("utimensat", record.Utimensat(cwd, "f", nil, 0x8000))
	c.Err("fchownat", unix.Fchownat(cwd, "f", -1, -1, 0x8000))
	c.Err("fchmodat2", record.Fchmodat2(cwd, "f", 0o644, 0x8000))
	c.Err("faccessat2", record.Faccessat2(cwd, "f", unix.W_OK, 0x8000))
	c.Err("access-mode", record.Faccessat2(cwd, "f", 0o100|unix.W_OK, 0))
	c.Err("setxattr", unix.Setxattr("f", "user.a", []byte("1"), 8))
	c.Err("mknod", unix.Mknod("h", unix.S_IFMT|0o644, 0))
	c.Err("null-path", record.PathCall(unix.SYS_UTIMENSAT, cwd, nil, 0, 0, 0))
	c.List("list", ".")
}

func pathProcCwd(c *record.Seen) {
	c.Mkdir("d")
	for i, base := range []string{"/proc/self/cwd/", "/proc/thread-self/cwd/", fmt.Sprintf("/proc/%d/cwd/", os.Getpid()), "/proc/self/task/../cwd/", "/proc/self/cwd/d/../"} {
		fd := c.Open(fmt.Sprint("create", i), base+fmt.Sprint("f", i), unix.O_WRONLY|unix.O_CREAT, 0o644)
		c.Write(fmt.Sprint("write", i), fd, "x")
		c.Err(fmt.Sprint("mkdir", i), unix.Mkdir(base+fmt.Sprint("d", i), 0o755))
		c.Err(fmt.Sprint("rename", i), unix.Rename(base+fmt.Sprint("f", i), fmt.Sprint("g", i)))
	}
	d := c.Get("d", unix.O_RDONLY)
	c.Err("fd-mkdir", unix.Mkdir(record.ProcFD(d)+"/in", 0o755))
	c.Open("fd-create", record.ProcFD(d)+"/f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Open("dev-fd", fmt.Sprintf("/dev/fd/%d/g", d), unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Err("rmdir-fd", unix.Rmdir(record.ProcFD(d)))
	c.Err("unlink-fd", unix.Unlink(record.ProcFD(d)))
	c.Err("chmod-fd", unix.Chmod(record.ProcFD(d), 0o700))
	c.Stat("d", "d")
	c.List("list", ".")
	c.List("list-d", "d")
}

func pathProcRoot(c *record.Seen) {
	cwd, err := os.Getwd()
	c.Must(err)
	fd := c.Open("create", "/proc/self/root"+cwd+"/f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Write("write", fd, "x")
	c.Err("mkdir", unix.Mkdir("/proc/self/root"+cwd+"/d", 0o755))
	c.Err("above", unix.Mkdir("/../../../.."+cwd+"/e", 0o755))
	c.Err("absolute", unix.Mkdir(cwd+"/a", 0o755))
	c.List("list", ".")
}

func pathLinks(c *record.Seen) {
	cwd, err := os.Getwd()
	c.Must(err)
	c.Mkdir("d")
	for link, target := range record.Ordered(map[string]string{"absolute": cwd + "/d", "relative": "./d/", "up": "../path-links-to-names/d", "proc": "/proc/self/cwd/d", "two": "relative"}) {
		c.Must(unix.Symlink(target, link))
	}
	for _, l := range []string{"absolute", "relative", "up", "proc", "two"} {
		c.Err(l, unix.Mkdir(l+"/"+l, 0o755))
		c.Open(l+"-file", l+"/f-"+l, unix.O_WRONLY|unix.O_CREAT, 0o644)
		c.Err(l+"-unlink", unix.Unlink(l+"/f-"+l))
	}
	c.List("list", "d")
}
