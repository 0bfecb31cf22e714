package mediate

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// bindInet binds a socket of TCP or UDP, where [Listening] says: in our network namespace the port is one of the guest's own from now on. The kernel decides whether that may be.
func (c *call) bindInet(raw []byte) answer {
	shared, l := c.s.guest.Network != nil, c.s.guest.Listening
	if family(raw) == unix.AF_UNSPEC { // which the kernel takes for IPv4
		binary.NativeEndian.PutUint16(raw, unix.AF_INET)
	}
	at, ok := parseInet(raw)
	asked := l != nil && ok && at.Port() != 0 // without a port the kernel chooses one that nobody has
	if !shared && !asked {
		return native
	}
	s, errno := c.socket(c.fd(0))
	if errno == syscall.EACCES && asked { // it cannot be copied: whatever it is, the kernel binds it where the caller says, or nobody does
		f := Flow{Protocol: "tcp", To: at}
		if to, allowed := l.Binds(f); !allowed || to != at {
			return failed(syscall.EACCES)
		}
		l.Bound(f)
		return native
	}
	if errno != 0 {
		return native
	}
	defer s.close()
	if s.domain != unix.AF_INET && s.domain != unix.AF_INET6 {
		return native
	}
	f := Flow{Protocol: s.flow(), To: at}
	if asked = asked && (f.Protocol == "tcp" || f.Protocol == "udp"); asked {
		to, allowed := l.Binds(f)
		switch {
		case !allowed:
			return failed(syscall.EACCES)
		case to != at:
			if raw = leadTo(raw, s.domain, to); raw == nil {
				return failed(syscall.EADDRNOTAVAIL)
			}
		case !shared && at.Port() < unprivileged: // we might, and the caller may not
			return native
		}
	}
	if errno = rawBind(s.fd, raw); errno != 0 {
		return failed(errno)
	}
	if shared {
		c.s.bound.add(s.fd)
		c.s.kept.drop(s.fd) // else the port would stay taken
	}
	if asked {
		l.Bound(f)
	}
	return answer{}
}

// unprivileged is the first port that needs no right.
const unprivileged = 1024

// leadTo makes an address for a socket of the domain out of the one that a program has given: it keeps what is neither host nor port. Nil: the socket's domain has no such address.
func leadTo(raw []byte, domain int, to netip.AddrPort) []byte {
	out := append([]byte(nil), raw...)
	binary.BigEndian.PutUint16(out[inetPort:], to.Port())
	switch a := to.Addr(); {
	case family(raw) == unix.AF_INET && domain == unix.AF_INET && a.Is4():
		b := a.As4()
		copy(out[inetAddress:], b[:])
	case family(raw) == unix.AF_INET6 && domain == unix.AF_INET6:
		b := a.As16() // an IPv4 address as the socket knows it
		copy(out[inet6Address:], b[:])
	default:
		return nil
	}
	return out
}
