package mediate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bind answers bind(2) of a unix socket to a path: we bind the caller's socket on the
// host's mount. The name that the socket has from then on is the path's last.
func (c *call) bind() answer {
	var raw [maxAddress]byte
	size := c.arg(2) & 0xffffffff
	if size <= 2 || size > uint64(len(raw)) {
		return native
	}
	if errno := c.memory(1, raw[:size]); errno != 0 {
		return failed(errno)
	}
	switch f := family(raw[:size]); {
	case c.s.guest.Network == nil && c.s.guest.Listening == nil && f != unix.AF_UNIX:
		return native
	case f == unix.AF_INET || f == unix.AF_INET6 || f == unix.AF_UNSPEC:
		return c.bindInet(raw[:size])
	case f != unix.AF_UNIX || raw[2] == 0 || size > unix.SizeofSockaddrUnix:
		return native
	}
	path := raw[2:size]
	if end := bytes.IndexByte(path, 0); end >= 0 {
		path = path[:end]
	}
	p := &c.b
	if !c.resolve(p, atCwd, path, 0) {
		return c.lost(p.errno)
	}
	defer p.close()
	if errno, free := c.free(p, false); !free {
		if errno == syscall.EEXIST {
			errno = syscall.EADDRINUSE
		}
		return failed(errno)
	}
	dir, err := c.dirNode(p)
	if err == nil {
		err = c.masked()
	}
	if err != nil {
		return outcome(err)
	}
	socket, err := c.descriptor(c.fd(0))
	if err != nil {
		return native
	}
	defer rawClose(socket)
	if domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX || !c.valid() {
		return native
	}
	f, name := p.folder, p.text()
	e, err := f.tree.Bind(c.request(), dir, name, func(dirfd int) error { return bindAt(socket, dirfd, name) })
	if err == nil {
		f.tree.Forget(e.Node, 1)
	}
	return outcome(err)
}

// bindAt binds a socket to a name in a directory: the thread has a working directory of
// its own, where a name has as much room as in the caller's.
func bindAt(socket, dirfd int, name string) error {
	if err := unix.Fchdir(dirfd); err != nil {
		return err
	}
	return errors.Join(unix.Bind(socket, &unix.SockaddrUnix{Name: name}), unix.Chdir("/"))
}

// descriptor duplicates a descriptor of the caller's.
func (c *call) descriptor(fd int) (int, error) {
	pid, err := c.process()
	if err != nil {
		return -1, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer rawClose(process)
	return unix.PidfdGetfd(process, fd, 0)
}

// process returns the number of the process that the calling thread belongs to.
func (c *call) process() (int, error) {
	data, err := c.status()
	if err != nil {
		return 0, err
	}
	pid, ok := procProcess(data)
	if !ok {
		return 0, syscall.ESRCH
	}
	return pid, nil
}

// status is what the kernel says of the calling thread.
func (c *call) status() ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/status", c.n.PID)) }
