package mediate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
)

const (
	// maxAddress is what the kernel takes as an address (struct sockaddr_storage).
	maxAddress = 128
	// maxAwaited bounds the calls that wait for others at the other end of a socket: each has a thread of ours.
	maxAwaited = maxWorkers / 2
	// awaitedEvery is how often it is looked whether such a caller is still there and has no signal to handle.
	awaitedEvery = 40 * time.Millisecond

	// Where the parts of an address lie: struct sockaddr_in and sockaddr_in6.
	inetPort, inetAddress, inetSize    = 2, 4, 16
	inet6Address, inet6Least, inet6End = 8, 24, 24
)

// callerSocket is a copy of one of the caller's sockets. What is done to it is done to the caller's.
type callerSocket struct {
	fd, domain, kind, protocol int
}

// close closes the copy. A socket may wait in it, if the caller's own was closed meanwhile.
func (s callerSocket) close() { go rawClose(s.fd) }

// flow is the protocol in the words of [Flow]; empty: there is none that could be decided about.
func (s callerSocket) flow() string {
	if s.domain != unix.AF_INET && s.domain != unix.AF_INET6 {
		return ""
	}
	return map[int]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_ICMPV6: "icmp"}[s.protocol]
}

// socket copies a socket of the caller's.
func (c *call) socket(fd int) (s callerSocket, errno syscall.Errno) {
	if s.fd = c.keptSocket(fd); s.fd < 0 {
		var err error
		if s.fd, err = c.descriptor(fd); errors.Is(err, syscall.EBADF) {
			return s, syscall.EBADF
		} else if err != nil {
			return s, syscall.EACCES
		}
	}
	for option, value := range map[int]*int{unix.SO_DOMAIN: &s.domain, unix.SO_TYPE: &s.kind, unix.SO_PROTOCOL: &s.protocol} {
		n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, option)
		if err != nil {
			s.close()
			return s, syscall.ENOTSOCK
		}
		*value = n
	}
	if !c.valid() { // the number may have become another's
		s.close()
		return s, syscall.EINTR
	}
	return s, 0
}

// address copies an address of the caller's, once: what is looked at is what is used.
func (c *call) address(at, size uint64) ([]byte, syscall.Errno) {
	if size &= 0xffffffff; size > maxAddress {
		return nil, syscall.EINVAL
	}
	raw := make([]byte, size)
	if errno := notify.ReadExactly(c.n.PID, at, raw); errno != 0 {
		return nil, errno
	}
	return raw, 0
}

// family is that of an address, or AF_UNSPEC.
func family(raw []byte) int {
	if len(raw) < 2 {
		return unix.AF_UNSPEC
	}
	return int(binary.NativeEndian.Uint16(raw))
}

// parseInet reads where an address of IPv4 or IPv6 leads, as the kernel does.
func parseInet(raw []byte) (to netip.AddrPort, ok bool) {
	switch f := family(raw); {
	case f == unix.AF_INET && len(raw) >= inetSize:
		a, _ := netip.AddrFromSlice(raw[inetAddress : inetAddress+4])
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(raw[inetPort:])), true
	case f == unix.AF_INET6 && len(raw) >= inet6Least:
		a, _ := netip.AddrFromSlice(raw[inet6Address:inet6End])
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(raw[inetPort:])), true
	}
	return to, false
}

// toLoopback makes an address without a host, which the kernel takes for this machine's, that of the loopback.
func toLoopback(raw []byte, to netip.AddrPort) netip.AddrPort {
	if !to.Addr().IsUnspecified() {
		return to
	}
	at := raw[inetAddress : inetAddress+4]
	if family(raw) == unix.AF_INET6 {
		if at = raw[inet6Address:inet6End]; to.Addr().Is6() {
			at[15] = 1
			return netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
		}
		at = at[12:] // ::ffff:0.0.0.0
	}
	copy(at, []byte{127, 0, 0, 1})
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port())
}

// connect answers connect(2). Landlock lets nobody inside connect by TCP: so we do, to the address that we have looked at. Unless datagrams are decided about, the rest is the kernel's:
// what the descriptor and the address become meanwhile, it refuses TCP, and abstract sockets of others.
func (c *call) connect() answer {
	raw, errno := c.address(c.arg(1), c.arg(2))
	if errno != 0 {
		return failed(errno)
	}
	all := c.s.guest.Datagrams
	if f := family(raw); !all && f != unix.AF_INET && f != unix.AF_INET6 {
		return native
	}
	s, errno := c.socket(c.fd(0))
	if errno == syscall.EACCES && !all { // no copy of it can be had
		return native
	}
	if errno != 0 {
		return failed(errno)
	}
	defer s.close()
	inet := s.domain == unix.AF_INET || s.domain == unix.AF_INET6
	switch {
	case !all && (!inet || s.kind != unix.SOCK_STREAM):
		return native
	case family(raw) == unix.AF_UNSPEC: // it is connected to nothing from now on
		return failed(rawConnect(s.fd, raw))
	case inet:
		return c.connectInet(s, raw)
	case s.domain == unix.AF_UNIX:
		return c.connectUnix(s, raw)
	case s.domain == unix.AF_NETLINK && toKernel(raw):
		return failed(rawConnect(s.fd, raw))
	}
	return failed(syscall.EACCES)
}

func (c *call) connectInet(s callerSocket, raw []byte) answer {
	to, ok := parseInet(raw)
	if !ok {
		return failed(syscall.EAFNOSUPPORT)
	}
	to = toLoopback(raw, to)
	if l := c.s.guest.Listening; l != nil && s.flow() == "tcp" && c.s.guest.Network.Local(to.Addr()) {
		if at := l.Connects(to); at != to {
			if raw, to = leadTo(raw, s.domain, at), at; raw == nil {
				return failed(syscall.ENETUNREACH)
			}
		}
	}
	if !c.reaches(s, to) {
		return failed(syscall.EACCES)
	}
	a := c.connecting(s, raw, true)
	if a.errno == 0 || a.errno == syscall.EINPROGRESS {
		c.s.kept.drop(s.fd)
	}
	if s.kind != unix.SOCK_STREAM {
		c.s.bound.add(s.fd) // it has a port of its own now, to which answers of programs inside go
	}
	return a
}

// reaches tells whether the caller may reach an address by a socket; it may wait for somebody's decision.
func (c *call) reaches(s callerSocket, to netip.AddrPort) bool {
	n, protocol := c.s.guest.Network, s.flow()
	if protocol == "" {
		return false
	}
	if protocol == "icmp" {
		to = netip.AddrPortFrom(to.Addr(), 0)
	}
	if n.Local(to.Addr()) && c.s.bound.has(protocol, to) {
		return true
	}
	pid, err := c.process()
	if err != nil || !c.valid() {
		return false
	}
	f := Flow{Protocol: protocol, To: to, PID: pid}
	if allowed, decided := n.Judge(f); decided {
		return allowed
	}
	return c.askAbout(f)
}

// askAbout has somebody decide, while others are answered.
func (c *call) askAbout(f Flow) bool {
	if c.s.awaited.Add(1) > maxAwaited {
		c.s.awaited.Add(-1)
		return false
	}
	defer c.s.awaited.Add(-1)
	gone := c.request().Cancel
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.s.asks(c, true)
	defer c.s.asks(c, false)
	c.waitsForAnswer()
	return c.s.guest.Network.Ask(ctx, f) && c.valid()
}

// connecting connects, and waits where the caller would. With others, somebody else may need to do something first.
func (c *call) connecting(s callerSocket, raw []byte, begins bool) answer {
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		return failed(rawConnect(s.fd, raw))
	}
	// The thread must not wait in the kernel: nobody could end that. Meanwhile nobody uses the socket, because it is not connected yet.
	_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
	errno := rawConnect(s.fd, raw)
	_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags)
	switch {
	case begins && (errno == syscall.EINPROGRESS || errno == syscall.EALREADY):
		return c.await(s.fd, unix.SO_SNDTIMEO, syscall.EINPROGRESS, func() (answer, bool) {
			if !writable(s.fd) {
				return answer{}, false
			}
			n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				n = int(syscall.EBADF)
			}
			return failed(syscall.Errno(n)), true
		})
	case !begins && errno == syscall.EAGAIN: // a unix socket whose queue is full
		return c.await(s.fd, unix.SO_SNDTIMEO, syscall.EAGAIN, func() (answer, bool) {
			_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
			errno := rawConnect(s.fd, raw)
			_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags)
			return failed(errno), errno != syscall.EAGAIN
		})
	}
	return failed(errno)
}

// await repeats what must not block until it is done, the time of the socket's option is over, the caller has gone, or it has a signal to handle. Others are answered meanwhile.
func (c *call) await(fd, option int, late syscall.Errno, try func() (a answer, done bool)) answer {
	if c.s.awaited.Add(1) > maxAwaited {
		c.s.awaited.Add(-1)
		return failed(syscall.EAGAIN)
	}
	defer c.s.awaited.Add(-1)
	var until time.Time
	if tv, err := unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, option); err == nil && tv.Nano() > 0 {
		until = time.Now().Add(time.Duration(tv.Nano()))
	}
	c.waits()
	for {
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		_, _ = unix.Poll(fds[:], int(awaitedEvery/time.Millisecond))
		if a, done := try(); done {
			return a
		}
		interrupted := c.interrupted()
		switch {
		case !c.valid():
			return failed(syscall.EINTR)
		case interrupted:
			return failed(errRestart)
		case !until.IsZero() && time.Now().After(until):
			return failed(late)
		}
	}
}

// writable tells whether a socket can be written to, or has failed: then a connection was made or refused.
func writable(fd int) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(fds[:], 0)
	return err == nil && n > 0
}

// connectUnix connects to a socket with a path, as the workload and in its view. Abstract names, which everybody in the network namespace shares, lead nowhere.
func (c *call) connectUnix(s callerSocket, raw []byte) answer {
	if family(raw) != unix.AF_UNIX {
		return failed(syscall.EINVAL)
	}
	path := raw[2:]
	if len(path) == 0 || path[0] == 0 {
		return failed(syscall.ECONNREFUSED)
	}
	if end := bytes.IndexByte(path, 0); end >= 0 {
		path = path[:end]
	}
	p := &c.b
	if !c.resolve(p, atCwd, path, follow|whole|anywhere) || p.dir < 0 {
		errno := p.errno
		if errno == 0 {
			errno = syscall.ECONNREFUSED
		}
		return failed(errno)
	}
	defer p.close()
	if p.is == nil {
		return failed(syscall.ENOENT)
	}
	if err := unix.Fchdir(p.dir); err != nil {
		return failed(syscall.EACCES)
	}
	defer func() { _ = unix.Chdir("/") }()
	named := append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), p.name...)
	if len(named) >= unix.SizeofSockaddrUnix {
		return failed(syscall.ENAMETOOLONG)
	}
	c.identity.Peer(true)
	defer c.identity.Peer(false)
	return c.connecting(s, append(named, 0), false)
}

// toKernel tells whether an address of netlink is the kernel's, and not another program's.
func toKernel(raw []byte) bool {
	return family(raw) == unix.AF_NETLINK && len(raw) >= unix.SizeofSockaddrNetlink && binary.NativeEndian.Uint32(raw[4:]) == 0 && binary.NativeEndian.Uint32(raw[8:]) == 0
}

func rawConnect(fd int, raw []byte) syscall.Errno { return onAddress(unix.SYS_CONNECT, fd, raw) }
func rawBind(fd int, raw []byte) syscall.Errno    { return onAddress(unix.SYS_BIND, fd, raw) }

func onAddress(call uintptr, fd int, raw []byte) syscall.Errno {
	_, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(raw))), uintptr(len(raw)))
	return errno
}
