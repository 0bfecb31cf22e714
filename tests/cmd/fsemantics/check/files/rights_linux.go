package files

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func rightsChecks() []record.Named {
	return []record.Named{
		{Name: "rights-unwritable-file", Do: rightsFile(0o400)}, {Name: "rights-closed-file", Do: rightsFile(0)}, {Name: "rights-writable-only", Do: rightsFile(0o200)},
		{Name: "rights-unwritable-directory", Do: rightsDirectory(0o555)}, {Name: "rights-unsearchable-directory", Do: rightsDirectory(0o600)},
		{Name: "rights-closed-directory", Do: rightsDirectory(0)}, {Name: "rights-sticky-directory", Do: rightsDirectory(0o1777)},
		{Name: "rights-write-only-directory", Do: rightsDirectory(0o300)}, {Name: "rights-others-only", Do: rightsFile(0o066)},
		{Name: "rights-opened-before", Do: rightsOpenedBefore}, {Name: "rights-access", Do: rightsAccess}, {Name: "rights-access-flags", Do: rightsAccessFlags},
		{Name: "rights-existing-in-unwritable", Do: rightsExisting}, {Name: "umask", Do: umask}, {Name: "umask-child", Do: umaskChild}, {Name: "umask-threads", Do: umaskThreads},
		{Name: "umask-changed-often", Do: umaskOften},
	}
}

// rightsFile tries everything on a file with a mode.
func rightsFile(mode uint32) func(c *record.Seen) {
	return func(c *record.Seen) {
		c.EachMutation("results", "f", func() {
			c.Put("source", "s")
			c.Put("f", "12345")
			c.Must(unix.Chmod("f", mode))
		}, func() {
			for _, n := range []string{"f", "source", "linked", "renamed"} {
				_ = unix.Unlink(n)
			}
		})
		c.Put("f", "12345")
		c.Must(unix.Chmod("f", mode))
		for i, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_CREAT} {
			c.Open(fmt.Sprint("open", i), "f", flags, 0o644)
		}
		c.Err("xattr", unix.Setxattr("f", "user.a", []byte("1"), 0))
		c.Stat("stat", "f")
	}
}

// rightsDirectory tries everything below a directory with a mode.
func rightsDirectory(mode uint32) func(c *record.Seen) {
	return func(c *record.Seen) {
		for _, at := range []string{"d/f", "d/new", "d/sub", "d/sub/x"} {
			c.EachMutation(at, at, func() {
				c.Put("source", "s")
				c.Mkdir("d")
				c.Put("d/f", "12345")
				c.Mkdir("d/sub")
				c.Must(unix.Chmod("d", mode))
			}, func() {
				_ = unix.Chmod("d", 0o755)
				for _, n := range []string{"d", "source", "linked", "renamed"} {
					c.Must(os.RemoveAll(n))
				}
			})
		}
		c.Mkdir("d")
		d := c.Get("d", unix.O_PATH)
		c.Must(unix.Chmod("d", mode))
		_, err := unix.Openat(d, "f", unix.O_WRONLY|unix.O_CREAT, 0o644)
		c.Err("openat", err)
		c.Err("mkdirat", unix.Mkdirat(d, "e", 0o755))
		c.Err("directory-chmod", unix.Chmod("d", 0o700))
	}
}

func rightsOpenedBefore(c *record.Seen) {
	c.Put("f", "12345")
	w, r := c.Get("f", unix.O_RDWR), c.Get("f", unix.O_RDONLY)
	c.Must(unix.Chmod("f", 0))
	c.Write("write", w, "ab")
	c.Err("ftruncate", unix.Ftruncate(w, 3))
	c.Read("read", r)
	c.Open("reopen", record.ProcFD(w), unix.O_WRONLY, 0)
	c.Open("reopen-read", record.ProcFD(w), unix.O_RDONLY, 0)
	c.Err("fchmod", unix.Fchmod(r, 0o400))
	c.Open("reopen2", record.ProcFD(w), unix.O_WRONLY, 0)
	c.Open("reopen-read2", record.ProcFD(w), unix.O_RDONLY, 0)
	c.Stat("stat", "f")
}

func rightsAccess(c *record.Seen) {
	for _, mode := range []uint32{0, 0o444, 0o222, 0o111, 0o755, 0o077} {
		n := fmt.Sprintf("f%03o", mode)
		c.Put(n, "x")
		c.Must(unix.Chmod(n, mode))
		var results []string
		for want := range uint32(8) {
			results = append(results, record.Name(unix.Access(n, want)))
		}
		c.See(n, results)
	}
	c.Mkdir("d")
	c.Must(unix.Symlink("no", "dangling"))
	c.Must(unix.Symlink("f000", "l"))
	for _, n := range []string{".", "d", "dangling", "l", "no", "f444/x", "d/"} {
		c.Err(n, unix.Access(n, unix.W_OK))
		c.Err(n+"-exists", unix.Access(n, unix.F_OK))
	}
	c.Must(unix.Chmod("d", 0o555))
	c.Err("unwritable", unix.Access("d", unix.W_OK))
}

func rightsAccessFlags(c *record.Seen) {
	c.Put("f", "x")
	c.Must(unix.Chmod("f", 0o444))
	c.Must(unix.Symlink("f", "l"))
	c.Must(unix.Symlink("no", "dangling"))
	for label, flags := range record.Ordered(map[string]int{"a-eaccess": unix.AT_EACCESS, "b-nofollow": unix.AT_SYMLINK_NOFOLLOW, "c-both": unix.AT_EACCESS | unix.AT_SYMLINK_NOFOLLOW}) {
		for _, n := range []string{"f", "l", "dangling"} {
			c.Err(label+"-"+n, record.Faccessat2(unix.AT_FDCWD, n, unix.W_OK, flags))
		}
	}
	for label, fd := range record.Ordered(map[string]int{"d-path": c.Get("f", unix.O_PATH), "e-reader": c.Get("f", unix.O_RDONLY), "f-directory": c.Get(".", unix.O_RDONLY)}) {
		c.Err(label, record.Faccessat2(fd, "", unix.W_OK, unix.AT_EMPTY_PATH))
		c.Err(label+"-no-flag", record.Faccessat2(fd, "", unix.W_OK, 0))
	}
	c.Err("proc", unix.Access(record.ProcFD(c.Get("f", unix.O_RDONLY)), unix.W_OK))
	c.Sort()
}

// rightsExisting: what exists already is told before a right is asked for, or after it.
func rightsExisting(c *record.Seen) {
	c.Mkdir("d")
	c.Put("d/f", "x")
	c.Mkdir("d/sub")
	c.Must(unix.Chmod("d", 0o555))
	c.Err("mkdir", unix.Mkdir("d/sub", 0o755))
	c.Err("symlink", unix.Symlink("x", "d/f"))
	c.Err("mknod", unix.Mknod("d/f", unix.S_IFREG|0o644, 0))
	c.Open("open", "d/f", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Open("excl", "d/f", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	c.Err("rmdir-file", unix.Rmdir("d/f"))
	c.Err("unlink-directory", unix.Unlink("d/sub"))
	c.Err("unlink-missing", unix.Unlink("d/no"))
	c.Err("rmdir-missing", unix.Rmdir("d/no"))
	c.Err("rename-self", unix.Rename("d/f", "d/f"))
	c.Err("rename-missing", unix.Rename("d/no", "d/x"))
	c.Must(unix.Chmod("d", 0o755))
}

func umask(c *record.Seen) {
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		unix.Umask(mask)
		n := fmt.Sprintf("%03o", mask)
		record.CloseAll(c.Open(n, "f"+n, unix.O_WRONLY|unix.O_CREAT, 0o666))
		c.Must(unix.Mkdir("d"+n, 0o777))
		c.Must(unix.Mkfifo("p"+n, 0o666))
		for _, kind := range "fdp" {
			c.Stat(string(kind)+n, string(kind)+n)
		}
		fd := c.Open("t"+n, ".", unix.O_WRONLY|unix.O_TMPFILE, 0o666)
		c.Fstat("t-stat"+n, fd)
		s, err := stream()
		c.Must(err)
		c.Err("s"+n, unix.Bind(s, &unix.SockaddrUnix{Name: "s" + n}))
		c.Stat("s-stat"+n, "s"+n)
	}
	c.See("last", unix.Umask(0o022))
}

func umaskChild(c *record.Seen) {
	unix.Umask(0o027)
	c.Child("child", "create", "a")
	c.Stat("a", "a")
	c.Child("child-own", "create", "b", "0")
	c.Stat("b", "b")
	record.CloseAll(c.Open("parent", "c", unix.O_WRONLY|unix.O_CREAT, 0o666))
	c.Stat("c", "c")
}

// umaskThreads: threads share a umask until one takes its own.
func umaskThreads(c *record.Seen) {
	unix.Umask(0o022)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and end it
		unix.Umask(0o007)
		c.Put("shared", "x")
		c.Err("unshare", unix.Unshare(unix.CLONE_FS))
		unix.Umask(0o077)
		fd, err := unix.Open("own", unix.O_WRONLY|unix.O_CREAT, 0o666)
		c.Err("own", err)
		record.CloseAll(fd)
		c.Mkdir("d")
		c.Must(unix.Chdir("d"))
		c.Put("in-d", "x")
	}()
	<-done
	record.CloseAll(c.Open("after", "after", unix.O_WRONLY|unix.O_CREAT, 0o666))
	for _, n := range []string{"shared", "own", "after", "d/in-d"} {
		c.Stat(n+"-stat", n)
	}
}

// umaskOften: an answer never uses an old umask.
func umaskOften(c *record.Seen) {
	wrong := 0
	for i := range 300 {
		mask := i % 64
		unix.Umask(mask)
		n := fmt.Sprint("d", i)
		c.Must(unix.Mkdir(n, 0o777))
		var st unix.Stat_t
		c.Must(unix.Stat(n, &st))
		if st.Mode&0o777 != uint32(0o777&^mask) {
			wrong++
		}
	}
	c.See("wrong", wrong)
}
