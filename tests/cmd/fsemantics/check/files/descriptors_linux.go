package files

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

func descriptorChecks() []record.Named {
	return []record.Named{
		{Name: "descriptor-passed", Do: descriptorPassed}, {Name: "descriptor-duplicated", Do: descriptorDuplicated}, {Name: "descriptor-flags", Do: descriptorFlags},
		{Name: "descriptor-ioctls", Do: descriptorIoctls}, {Name: "descriptor-closed", Do: descriptorClosed}, {Name: "descriptor-info", Do: descriptorInfo},
		{Name: "descriptor-poll", Do: descriptorPoll}, {Name: "descriptor-owner", Do: descriptorOwner}, {Name: "descriptor-outside", Do: descriptorOutside},
		{Name: "device-files", Do: deviceFiles},
	}
}

// descriptorPassed gives a child descriptors over a socket.
func descriptorPassed(c *record.Seen) {
	c.Put("f", "12345")
	c.Put("g", "12345")
	c.Mkdir("d")
	w, d, p := c.Get("f", unix.O_WRONLY), c.Get("d", unix.O_RDONLY), c.Get("g", unix.O_PATH)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	c.Must(err)
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	cmd := exec.Command("/proc/self/exe", record.Word, "child", "receive", "made")
	cmd.Stdin = theirs
	var out strings.Builder
	cmd.Stdout = &out
	c.Must(cmd.Start())
	c.Must(theirs.Close())
	c.Err("send", unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(w, d, p), nil, 0))
	record.CloseAll(w, d, p)
	c.Err("wait", cmd.Wait())
	c.See("child", out.String())
	c.Content("f", "f")
	c.Content("g", "g")
	c.List("d", "d")
	c.Stat("d-stat", "d")
}

func descriptorDuplicated(c *record.Seen) {
	c.Put("f", "12345")
	a := c.Get("f", unix.O_RDWR)
	b, err := unix.Dup(a)
	c.Err("dup", err)
	c.Write("a", a, "AB")
	c.Write("b", b, "CD")
	c.Content("content", "f")
	c.Put("g", "g")
	g := c.Get("g", unix.O_WRONLY)
	c.Err("dup3", unix.Dup3(g, a, unix.O_CLOEXEC))
	c.Write("a2", a, "X")
	c.Write("b2", b, "Y")
	c.Content("g-content", "g")
	c.Content("f-content", "f")
	high, err := unix.FcntlInt(uintptr(g), unix.F_DUPFD_CLOEXEC, 200)
	c.Err("dupfd", err)
	c.See("number", high)
}

func descriptorFlags(c *record.Seen) {
	c.Put("f", "12345")
	w := c.Get("f", unix.O_WRONLY)
	for i, flags := range []int{unix.O_APPEND, unix.O_NONBLOCK, unix.O_NOATIME, unix.O_DIRECT, unix.O_ASYNC, unix.O_RDWR | unix.O_TRUNC, 0} {
		_, err := unix.FcntlInt(uintptr(w), unix.F_SETFL, flags)
		c.Err(fmt.Sprint("set", i), err)
		got, err := unix.FcntlInt(uintptr(w), unix.F_GETFL, 0)
		c.Must(err)
		c.See(fmt.Sprint("get", i), fmt.Sprintf("%#o", got))
	}
	c.Stat("stat", "f")
}

func descriptorIoctls(c *record.Seen) {
	c.Put("f", "12345")
	for i, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
		fd := c.Get("f", flags)
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		c.Err(fmt.Sprint("fionread", i), err)
		c.See(fmt.Sprint("n", i), n)
		c.Err(fmt.Sprint("fioclex", i), unix.IoctlSetInt(fd, 0x5451, 0))
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		c.Must(err)
		c.See(fmt.Sprint("fd", i), got)
		_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		c.Err(fmt.Sprint("tcgets", i), err)
	}
}

func descriptorClosed(c *record.Seen) {
	c.Put("f", "12345")
	w := c.Get("f", unix.O_WRONLY)
	c.Err("close", unix.Close(w))
	c.Err("again", unix.Close(w))
	_, err := unix.Write(w, []byte("x"))
	c.Err("write", err)
	a := c.Get("f", unix.O_WRONLY)
	_ = c.Get("f", unix.O_WRONLY)
	c.Err("range", unix.CloseRange(uint(a), uint(a+1), 0))
	_, err = unix.Write(a+1, []byte("x"))
	c.Err("write2", err)
}

// descriptorInfo looks at what /proc says of descriptors.
func descriptorInfo(c *record.Seen) {
	c.Put("f", "12345")
	w := c.Get("f", unix.O_RDWR|unix.O_APPEND)
	_, err := unix.Seek(w, 3, 0)
	c.Must(err)
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w))
	c.Err("read", err)
	for _, l := range strings.Split(string(b), "\n") {
		if key, value, _ := strings.Cut(l, ":"); key == "pos" || key == "flags" {
			c.See(key, strings.TrimSpace(value))
		}
	}
	var st unix.Stat_t
	c.Err("lstat", unix.Lstat(record.ProcFD(w), &st))
	c.See("mode", fmt.Sprintf("%o", st.Mode))
}

func descriptorPoll(c *record.Seen) {
	c.Put("f", "12345")
	fds := []unix.PollFd{{Fd: int32(c.Get("f", unix.O_RDWR)), Events: unix.POLLIN | unix.POLLOUT}}
	n, err := unix.Poll(fds, 0)
	c.Err("poll", err)
	c.See("events", fmt.Sprint(n, ",", fds[0].Revents))
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	c.Must(err)
	c.Err("epoll", unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, int(fds[0].Fd), &unix.EpollEvent{Events: unix.EPOLLIN}))
}

func descriptorOwner(c *record.Seen) {
	fd := c.Get("f", unix.O_WRONLY|unix.O_CREAT)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, os.Getpid())
	c.Err("setown", err)
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GETOWN, 0)
	c.Err("getown", err)
	c.See("own", got == os.Getpid())
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	c.Err("seals", err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	c.Err("pipe-size", err)
}

// descriptorOutside: files outside work as ever, also in new files' company.
func descriptorOutside(c *record.Seen) {
	other, remove := c.Elsewhere()
	defer remove()
	fd := c.Open("create", other+"/f", unix.O_RDWR|unix.O_CREAT, 0o600)
	c.Write("write", fd, "12345")
	c.Open("excl", other+"/f", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	c.Err("mkdir", unix.Mkdir(other+"/d", 0o755))
	c.Err("rename", unix.Rename(other+"/f", other+"/d/g"))
	c.Err("chmod", unix.Chmod(other+"/d/g", 0o640))
	c.Stat("stat", other+"/d/g")
	d := c.Get(other+"/d", unix.O_RDONLY)
	_, err := unix.Openat(d, "h", unix.O_WRONLY|unix.O_CREAT, 0o600)
	c.Err("openat", err)
	c.Err("fchmod", unix.Fchmod(d, 0o700))
	c.Err("reopen", func() error { _, err := unix.Open(record.ProcFD(fd), unix.O_WRONLY, 0); return err }())
	c.Must(unix.Chdir(other))
	c.Open("relative", "r", unix.O_WRONLY|unix.O_CREAT, 0o600)
	c.Err("unlink", unix.Unlink("r"))
	l, err := net.Listen("unix", "s")
	c.Err("listen", err)
	if err == nil {
		_ = l.Close()
	}
	c.Must(unix.Fchdir(d))
	c.Err("truncate", unix.Truncate("g", 0))
	c.List("list", ".")
	c.Must(unix.Chdir("/"))
}

func deviceFiles(c *record.Seen) {
	fd := c.Open("null", "/dev/null", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o644)
	c.Write("write", fd, "x")
	c.Open("zero", "/dev/zero", unix.O_RDWR, 0)
	c.Open("full", "/dev/full", unix.O_WRONLY|unix.O_APPEND, 0)
	c.Must(unix.Symlink("/dev/null", "l"))
	c.Open("link", "l", unix.O_WRONLY|unix.O_CREAT, 0o644)
	c.Open("oom", "/proc/self/oom_score_adj", unix.O_WRONLY, 0)
	comm := c.Open("comm", "/proc/self/comm", unix.O_WRONLY|unix.O_TRUNC, 0)
	c.Write("comm-write", comm, "renamed")
	c.Err("access", unix.Access("/dev/null", unix.W_OK))
}
