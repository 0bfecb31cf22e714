package files

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func specialChecks() []record.Named {
	return []record.Named{
		{Name: "fifo", Do: fifo}, {Name: "fifo-blocking-writer", Do: fifoBlocking(unix.O_WRONLY, unix.O_RDONLY)},
		{Name: "fifo-blocking-reader", Do: fifoBlocking(unix.O_RDONLY, unix.O_WRONLY)}, {Name: "fifo-rights", Do: fifoRights}, {Name: "fifo-unlinked", Do: fifoUnlinked},
		{Name: "mknod", Do: mknod}, {Name: "socket", Do: socket}, {Name: "socket-errors", Do: socketErrors}, {Name: "socket-datagram", Do: socketDatagram}, {Name: "socket-names", Do: socketNames},
		{Name: "socket-abstract", Do: socketAbstract},
	}
}

func fifo(c *record.Seen) {
	c.Err("make", unix.Mkfifo("p", 0o666))
	c.Stat("stat", "p")
	c.Err("again", unix.Mkfifo("p", 0o666))
	c.Open("writer-alone", "p", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	r := c.Open("reader", "p", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	w := c.Open("writer", "p", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	c.Write("write", w, "12345")
	c.Read("read", r)
	c.Read("empty", r)
	both := c.Open("both", "p", unix.O_RDWR, 0)
	c.Write("write-both", both, "x")
	c.Read("read2", r)
	c.Open("trunc", "p", unix.O_WRONLY|unix.O_NONBLOCK|unix.O_TRUNC, 0)
	c.Open("creat", "p", unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CREAT, 0o644)
	c.Err("truncate", unix.Truncate("p", 0))
	c.Err("ftruncate", unix.Ftruncate(w, 0))
	c.Err("fchmod", unix.Fchmod(w, 0o600))
	record.CloseAll(w, both)
	c.Stat("stat2", "p")
}

// fifoBlocking has two threads that open a FIFO: each waits for the other.
func fifoBlocking(first, second int) func(c *record.Seen) {
	return func(c *record.Seen) {
		c.Must(unix.Mkfifo("p", 0o666))
		done := make(chan string, 1)
		go func() {
			fd, err := unix.Open("p", first|unix.O_CLOEXEC, 0)
			done <- record.Name(err)
			if first == unix.O_WRONLY {
				_, _ = unix.Write(fd, []byte("12345"))
			}
		}()
		// Meanwhile other calls go on.
		bad := 0
		for i := range 200 {
			n := fmt.Sprint("d", i)
			if unix.Mkdir(n, 0o755) != nil || unix.Rmdir(n) != nil {
				bad++
			}
		}
		c.See("others-failed", bad)
		fd := c.Open("second", "p", second, 0)
		c.See("first", <-done)
		if second == unix.O_RDONLY {
			c.Read("read", fd)
		} else {
			c.Write("write", fd, "x")
		}
	}
}

func fifoRights(c *record.Seen) {
	c.Must(unix.Mkfifo("p", 0o666))
	r := c.Get("p", unix.O_RDONLY|unix.O_NONBLOCK)
	c.Must(unix.Chmod("p", 0o400))
	c.Open("write", "p", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	c.Must(unix.Chmod("p", 0o200))
	c.Open("read", "p", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	c.Open("write2", "p", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	c.Err("access", unix.Access("p", unix.W_OK))
	c.Open("reopen", record.ProcFD(r), unix.O_WRONLY|unix.O_NONBLOCK, 0)
}

func fifoUnlinked(c *record.Seen) {
	c.Must(unix.Mkfifo("p", 0o666))
	r := c.Get("p", unix.O_RDONLY|unix.O_NONBLOCK)
	w := c.Get("p", unix.O_WRONLY|unix.O_NONBLOCK)
	c.Err("unlink", unix.Unlink("p"))
	c.Write("write", w, "x")
	c.Read("read", r)
	c.Open("reopen", record.ProcFD(r), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	c.List("list", ".")
}

func mknod(c *record.Seen) {
	for i, mode := range []uint32{unix.S_IFREG | 0o644, 0o600, unix.S_IFIFO | 0o644, unix.S_IFSOCK | 0o644, unix.S_IFCHR | 0o644, unix.S_IFBLK | 0o644, unix.S_IFDIR | 0o755, unix.S_IFLNK | 0o777} {
		n := fmt.Sprint("n", i)
		c.Err(n, unix.Mknod(n, mode, int(unix.Mkdev(1, 3))))
		c.Stat(n+"-stat", n)
	}
	c.Err("again", unix.Mknod("n0", unix.S_IFREG|0o644, 0))
	unix.Umask(0o077)
	c.Err("umask", unix.Mknod("u", unix.S_IFREG|0o666, 0))
	c.Stat("umask-stat", "u")
	c.Err("whiteout", unix.Mknod("w", unix.S_IFCHR|0o644, 0))
}

func stream() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }

func socket(c *record.Seen) {
	unix.Umask(0o027)
	s, err := stream()
	c.Must(err)
	c.Err("bind", unix.Bind(s, &unix.SockaddrUnix{Name: "s"}))
	c.Stat("stat", "s")
	c.Err("listen", unix.Listen(s, 5))
	a, err := stream()
	c.Must(err)
	c.Err("connect", unix.Connect(a, &unix.SockaddrUnix{Name: "s"}))
	b, _, err := unix.Accept(s)
	c.Err("accept", err)
	c.Write("write", a, "12345")
	c.Read("read", b)
	again, err := stream()
	c.Must(err)
	c.Err("bind-again", unix.Bind(again, &unix.SockaddrUnix{Name: "s"}))
	c.Err("rename", unix.Rename("s", "t"))
	d, err := stream()
	c.Must(err)
	c.Err("connect-renamed", unix.Connect(d, &unix.SockaddrUnix{Name: "t"}))
	c.Err("unlink", unix.Unlink("t"))
	e, err := stream()
	c.Must(err)
	c.Err("connect-unlinked", unix.Connect(e, &unix.SockaddrUnix{Name: "t"}))
	c.Err("bind-after", unix.Bind(again, &unix.SockaddrUnix{Name: "s"}))
	c.Err("fchmod", unix.Fchmod(s, 0o600))
	c.List("list", ".")
}

func socketErrors(c *record.Seen) {
	c.Put("f", "x")
	c.Mkdir("d")
	c.Mkdir("ro")
	c.Must(unix.Chmod("ro", 0o555))
	c.Must(unix.Symlink("no", "dangling"))
	for _, n := range []string{"f", "d", "no/s", "f/s", "ro/s", "dangling", strings.Repeat("n", 107), "d/", "new/"} {
		s, err := stream()
		c.Must(err)
		c.Err("bind-"+n[:min(len(n), 9)], unix.Bind(s, &unix.SockaddrUnix{Name: n}))
		record.CloseAll(s)
	}
	for _, n := range []string{"f", "d", "missing", strings.Repeat("n", 107)} {
		s, err := stream()
		c.Must(err)
		c.Err("connect-"+n[:min(len(n), 9)], unix.Connect(s, &unix.SockaddrUnix{Name: n}))
		record.CloseAll(s)
	}
	s, err := stream()
	c.Must(err)
	c.Err("bind", unix.Bind(s, &unix.SockaddrUnix{Name: "s"}))
	c.Err("bind-bound", unix.Bind(s, &unix.SockaddrUnix{Name: "t"}))
	c.Open("open-write", "s", unix.O_WRONLY, 0)
	c.Open("open-read", "s", unix.O_RDONLY, 0)
	c.Err("not-a-socket", unix.Bind(c.Get("f", unix.O_RDONLY), &unix.SockaddrUnix{Name: "u"}))
	c.List("list", ".")
}

func socketDatagram(c *record.Seen) {
	dgram := func() int {
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		c.Must(err)
		return s
	}
	a, b := dgram(), dgram()
	c.Err("bind", unix.Bind(a, &unix.SockaddrUnix{Name: "a"}))
	c.Err("bind-b", unix.Bind(b, &unix.SockaddrUnix{Name: "b"}))
	c.Err("sendto", unix.Sendto(b, []byte("12345"), 0, &unix.SockaddrUnix{Name: "a"}))
	buf := make([]byte, 50)
	n, from, err := unix.Recvfrom(a, buf, 0)
	c.Err("recvfrom", err)
	c.See("data", string(buf[:max(n, 0)]))
	if u, ok := from.(*unix.SockaddrUnix); ok {
		c.See("from", u.Name)
	}
	c.Must(unix.Chmod("a", 0o400))
	c.Err("unwritable", unix.Sendto(b, []byte("x"), 0, &unix.SockaddrUnix{Name: "a"}))
}

// socketNames sees by which name a bound socket goes.
func socketNames(c *record.Seen) {
	cwd, err := os.Getwd()
	c.Must(err)
	c.Mkdir("d")
	for i, n := range []string{"s", "./t", "d/u", cwd + "/v"} {
		s, err := stream()
		c.Must(err)
		if len(n) > 107 {
			n = "v"
		}
		c.Err(fmt.Sprint("bind", i), unix.Bind(s, &unix.SockaddrUnix{Name: n}))
		sa, err := unix.Getsockname(s)
		c.Err(fmt.Sprint("getsockname", i), err)
		if u, ok := sa.(*unix.SockaddrUnix); ok {
			c.See(fmt.Sprint("same", i), u.Name == n)
		}
	}
	c.List("list", ".")
}

func socketAbstract(c *record.Seen) {
	s, err := stream()
	c.Must(err)
	n := fmt.Sprintf("@fsemantics-%d", os.Getpid())
	c.Err("bind", unix.Bind(s, &unix.SockaddrUnix{Name: n}))
	c.Err("listen", unix.Listen(s, 1))
	a, err := stream()
	c.Must(err)
	c.Err("connect", unix.Connect(a, &unix.SockaddrUnix{Name: n}))
	auto, err := stream()
	c.Must(err)
	c.Err("autobind", unix.Bind(auto, &unix.SockaddrUnix{}))
	c.List("list", ".")
}
