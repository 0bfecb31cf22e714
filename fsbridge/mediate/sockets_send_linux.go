package mediate

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
)

// Bounds of what is sent for a caller. Of a stream only so much is sent at once as is copied; a datagram that is larger fails with EMSGSIZE.
const (
	maxSent     = 256 << 10 // bytes of one message: the largest datagram of IP has 64 KiB, of a unix socket by default 208 KiB
	maxParts    = 1024      // UIO_MAXIOV
	maxControl  = 64 << 10
	maxMessages = 1024
	maxPassed   = 253 // SCM_MAX_FD

	headerSize  = 56 // struct msghdr, of 64 bits
	messageSize = 64 // struct mmsghdr
)

// outgoing is one message that the caller sends, copied.
type outgoing struct {
	to      []byte // an address, or empty
	data    []byte
	control []byte
	passed  []int // descriptors in control, ours
	clipped bool  // there was more data
}

func (o *outgoing) close() {
	for _, fd := range o.passed {
		go rawClose(fd)
	}
}

// sendTo answers sendto(2) with an address.
func (c *call) sendTo() answer {
	var o outgoing
	errno := c.copyData(&o, [][2]uint64{{c.arg(1), c.arg(2)}})
	if errno == 0 {
		o.to, errno = c.address(c.arg(4), c.arg(5))
	}
	if errno != 0 {
		return failed(errno)
	}
	s, errno := c.socket(c.fd(0))
	if errno != 0 {
		return failed(errno)
	}
	defer s.close()
	return c.send(s, &o, c.flag(3))
}

// sendMessage answers sendmsg(2).
func (c *call) sendMessage() answer {
	s, errno := c.socket(c.fd(0))
	if errno != 0 {
		return failed(errno)
	}
	defer s.close()
	return c.sendHeader(s, c.arg(1), c.flag(2))
}

// sendMessages answers sendmmsg(2): the messages that were sent count, and an error only if it was the first.
func (c *call) sendMessages() answer {
	s, errno := c.socket(c.fd(0))
	if errno != 0 {
		return failed(errno)
	}
	defer s.close()
	var sent int64
	for i := range uint64(min(c.word(2), maxMessages)) {
		at := c.arg(1) + i*messageSize
		a := c.sendHeader(s, at, c.flag(3))
		if a.errno != 0 {
			if sent > 0 {
				break
			}
			return a
		}
		if errno := notify.Write(c.n.PID, at+headerSize, binary.NativeEndian.AppendUint32(nil, uint32(a.value))); errno != 0 {
			return failed(errno)
		}
		sent++
	}
	return answer{value: sent}
}

// sendHeader sends what a struct msghdr of the caller's describes.
func (c *call) sendHeader(s callerSocket, at uint64, flags int) answer {
	var h [headerSize]byte
	if errno := notify.ReadExactly(c.n.PID, at, h[:]); errno != 0 {
		return failed(errno)
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(h[i:]) }
	var o outgoing
	defer o.close()
	errno := syscall.Errno(0)
	if name, size := word(0), uint64(binary.NativeEndian.Uint32(h[8:])); name != 0 && size != 0 {
		o.to, errno = c.address(name, size)
	}
	var parts [][2]uint64
	if errno == 0 {
		parts, errno = c.vector(word(16), word(24))
	}
	if errno == 0 {
		errno = c.copyData(&o, parts)
	}
	if errno == 0 {
		errno = c.copyControl(&o, s, word(32), word(40))
	}
	if errno != 0 {
		return failed(errno)
	}
	return c.send(s, &o, flags)
}

// vector copies an array of struct iovec.
func (c *call) vector(at, count uint64) ([][2]uint64, syscall.Errno) {
	if count > maxParts {
		return nil, syscall.EMSGSIZE
	}
	raw := make([]byte, 16*count)
	if errno := notify.ReadExactly(c.n.PID, at, raw); errno != 0 {
		return nil, errno
	}
	parts := make([][2]uint64, count)
	for i := range parts {
		parts[i] = [2]uint64{binary.NativeEndian.Uint64(raw[16*i:]), binary.NativeEndian.Uint64(raw[16*i+8:])}
	}
	return parts, 0
}

// copyData copies the parts of a message, up to a bound.
func (c *call) copyData(o *outgoing, parts [][2]uint64) syscall.Errno {
	for _, part := range parts {
		size := part[1]
		if room := uint64(maxSent - len(o.data)); size > room {
			size, o.clipped = room, true
		}
		begin := len(o.data)
		o.data = append(o.data, make([]byte, size)...)
		if errno := notify.ReadExactly(c.n.PID, part[0], o.data[begin:]); errno != 0 {
			return errno
		}
	}
	return 0
}

// copyControl copies what goes with a message. Descriptors are copied themselves; of the rest only what leads the message nowhere else is left.
func (c *call) copyControl(o *outgoing, s callerSocket, at, size uint64) syscall.Errno {
	switch {
	case at == 0 || size == 0:
		return 0
	case size > maxControl:
		return syscall.ENOBUFS
	}
	raw := make([]byte, size)
	if errno := notify.ReadExactly(c.n.PID, at, raw); errno != 0 {
		return errno
	}
	messages, err := unix.ParseSocketControlMessage(raw)
	if err != nil {
		return syscall.EINVAL
	}
	for _, m := range messages {
		level, kind := int(m.Header.Level), int(m.Header.Type)
		switch {
		case s.domain == unix.AF_UNIX && level == unix.SOL_SOCKET && kind == unix.SCM_RIGHTS:
			if errno := c.copyPassed(o, m.Data); errno != 0 {
				return errno
			}
		case s.domain == unix.AF_UNIX && level == unix.SOL_SOCKET && kind == unix.SCM_CREDENTIALS: // the kernel says whose it is
		case s.flow() != "" && harmless(level, kind):
			o.control = append(o.control, controlMessage(level, kind, m.Data)...)
		default:
			return syscall.EINVAL
		}
	}
	if len(o.passed) > 0 {
		o.control = append(o.control, unix.UnixRights(o.passed...)...)
	}
	return 0
}

// copyPassed copies the descriptors that the caller passes on.
func (c *call) copyPassed(o *outgoing, data []byte) syscall.Errno {
	for ; len(data) >= 4; data = data[4:] {
		if len(o.passed) == maxPassed {
			return syscall.EINVAL
		}
		fd, err := c.descriptor(int(int32(binary.NativeEndian.Uint32(data))))
		if err != nil {
			return syscall.EBADF
		}
		o.passed = append(o.passed, fd)
	}
	return 0
}

// harmless tells whether a control message leaves it as it is where a datagram goes: no routes, and no options by which there could be one.
func harmless(level, kind int) bool {
	switch level {
	case unix.SOL_IP:
		return kind == unix.IP_TOS || kind == unix.IP_TTL || kind == unix.IP_PKTINFO
	case unix.SOL_IPV6:
		return kind == unix.IPV6_TCLASS || kind == unix.IPV6_HOPLIMIT || kind == unix.IPV6_PKTINFO || kind == unix.IPV6_DONTFRAG
	case unix.SOL_UDP:
		return kind == unix.UDP_SEGMENT
	}
	return false
}

// controlMessage writes a control message.
func controlMessage(level, kind int, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

// send sends a message if it may go where it is to, and waits where the caller would.
func (c *call) send(s callerSocket, o *outgoing, flags int) answer {
	switch errno := c.mayGo(s, o); {
	case errno != 0:
		return failed(errno)
	case flags&unix.MSG_ZEROCOPY != 0: // the memory is not the caller's
		return failed(syscall.EINVAL)
	case !c.valid(): // what was copied may be another's
		return failed(syscall.EINTR)
	}
	open, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	waits := err == nil && open&unix.O_NONBLOCK == 0 && flags&unix.MSG_DONTWAIT == 0
	sent := 0
	try := func() (a answer, done bool) {
		n, errno := rawSend(s.fd, o, flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno == 0 {
			sent += n
			o.data, o.control = o.data[min(n, len(o.data)):], nil
		}
		more := errno == syscall.EAGAIN || errno == 0 && s.kind == unix.SOCK_STREAM && len(o.data) > 0
		return answer{value: int64(sent), errno: errno}, !more || !waits
	}
	a, done := try()
	if !done {
		a = c.await(s.fd, unix.SO_SNDTIMEO, syscall.EAGAIN, try)
	}
	if sent > 0 { // of a stream, what was sent counts, and the error comes the next time
		a = answer{value: int64(sent)}
	}
	switch {
	case a.errno == 0 && s.flow() == "udp":
		c.s.bound.add(s.fd) // it has a port now
	case a.errno == syscall.EPIPE && s.kind == unix.SOCK_STREAM && flags&unix.MSG_NOSIGNAL == 0:
		if pid, err := c.process(); err == nil && c.valid() {
			_ = unix.Tgkill(pid, int(c.n.PID), unix.SIGPIPE)
		}
	}
	return a
}

// mayGo returns why a message must not be sent where it says, or 0. Where a socket is connected to was decided before.
func (c *call) mayGo(s callerSocket, o *outgoing) syscall.Errno {
	inet := s.domain == unix.AF_INET || s.domain == unix.AF_INET6
	switch {
	case o.clipped && s.kind != unix.SOCK_STREAM:
		return syscall.EMSGSIZE
	case len(o.to) == 0:
		return 0
	case inet && s.kind == unix.SOCK_STREAM: // where a connection goes stays as it is
		o.to = nil
		return 0
	case inet:
		to, ok := parseInet(o.to)
		if !ok {
			return syscall.EAFNOSUPPORT
		}
		if !c.reaches(s, toLoopback(o.to, to)) {
			return syscall.EACCES
		}
		return 0
	case s.domain == unix.AF_NETLINK && toKernel(o.to):
		return 0
	case s.domain == unix.AF_UNIX && s.kind != unix.SOCK_DGRAM:
		return syscall.EISCONN
	}
	return syscall.EACCES // to a unix socket by its name: connect leads there
}

// rawSend is sendmsg(2).
func rawSend(fd int, o *outgoing, flags int) (int, syscall.Errno) {
	var part unix.Iovec
	var h unix.Msghdr
	if len(o.data) > 0 {
		part.Base = &o.data[0]
		part.SetLen(len(o.data))
	}
	h.Iov = &part
	h.SetIovlen(1)
	if len(o.to) > 0 {
		h.Name, h.Namelen = &o.to[0], uint32(len(o.to))
	}
	if len(o.control) > 0 {
		h.Control = &o.control[0]
		h.SetControllen(len(o.control))
	}
	n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(flags))
	return int(n), errno
}
