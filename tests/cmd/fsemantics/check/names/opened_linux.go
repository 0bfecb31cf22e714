package names

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func openLowest(c *record.Seen) {
	c.Put("f", "x")
	a := c.Get("f", unix.O_WRONLY)
	b := c.Get("f", unix.O_WRONLY)
	c.Must(unix.Close(a))
	again := c.Get("f", unix.O_WRONLY)
	c.See("lowest-again", again == a)
	c.Must(unix.Close(again))
	r := c.Get("f", unix.O_RDONLY)
	c.See("reading-lowest", r == a)
	next := c.Get("f", unix.O_RDWR)
	c.See("next", next > b)
}

func openSameFile(c *record.Seen) {
	c.Put("f", "12345")
	var byPath, byReader, byWriter unix.Stat_t
	c.Must(unix.Stat("f", &byPath))
	c.Must(unix.Fstat(c.Get("f", unix.O_RDONLY), &byReader))
	c.Must(unix.Fstat(c.Get("f", unix.O_RDWR), &byWriter))
	c.See("inode", byPath.Ino == byReader.Ino && byPath.Ino == byWriter.Ino)
	c.See("device", byPath.Dev == byReader.Dev && byPath.Dev == byWriter.Dev)
	c.See("owner", byPath.Uid == byWriter.Uid && byPath.Gid == byWriter.Gid)
	c.See("times", byPath.Mtim == byWriter.Mtim)
}

func openFDPath(c *record.Seen) {
	b := make([]byte, 4096)
	n, err := unix.Getcwd(b)
	c.Must(err)
	cwd := strings.TrimRight(string(b[:n]), "\x00")
	look := func(label string, fd int) {
		n, err := unix.Readlink(record.ProcFD(fd), b)
		if c.Err(label, err) {
			c.See(label+"-path", strings.ReplaceAll(string(b[:n]), cwd, "CWD"))
		}
	}
	c.Put("f", "x")
	look("reader", c.Get("f", unix.O_RDONLY))
	w := c.Get("f", unix.O_WRONLY)
	look("writer", w)
	c.Must(unix.Rename("f", "g"))
	look("renamed", w)
	c.Must(unix.Unlink("g"))
	look("unlinked", w)
}

func openDirect(c *record.Seen) {
	fd, err := unix.Open("f", unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT, 0o644)
	c.Err("open", err)
	b, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	c.Must(err)
	copy(b, "direct")
	n, err := unix.Write(fd, b[:4096])
	c.Err("write", err)
	c.See("n", n)
	n, err = unix.Pread(fd, b[4096:], 0)
	c.Err("read", err)
	c.See("same", n == 4096 && string(b[:4096]) == string(b[4096:]))
}

func openSync(c *record.Seen) {
	for label, flag := range record.Ordered(map[string]int{"a-sync": unix.O_SYNC, "b-dsync": unix.O_DSYNC, "c-rsync": unix.O_RSYNC}) {
		fd := c.Open(label, "f", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|flag, 0o644)
		c.Write(label+"-write", fd, "x")
		c.Err(label+"-fsync", unix.Fsync(fd))
	}
	c.Content("content", "f")
	c.Sort()
}

func openSpecialBits(c *record.Seen) {
	c.Open("setuid", "u", unix.O_WRONLY|unix.O_CREAT, 0o4755)
	c.Stat("setuid-stat", "u")
	c.Open("setgid", "g", unix.O_WRONLY|unix.O_CREAT, 0o2755)
	c.Stat("setgid-stat", "g")
	c.Open("sticky", "s", unix.O_WRONLY|unix.O_CREAT, 0o1644)
	c.Stat("sticky-stat", "s")
}
