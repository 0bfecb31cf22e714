package mediate

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	maxOwn     = 1 << 14 // sockets of the guest that are remembered
	maxSockets = 1 << 16 // lines that are read of a table of the kernel's
)

// ownSockets are the sockets to which programs inside have given a port, by their inodes, with their addresses: of what listens in this network namespace that tells what is the guest's. A program that makes
// billions of sockets finds one with the inode's number of somebody else's, but not with the same address. The zero value is ready, and methods are safe for concurrent use. mu is a leaf.
type ownSockets struct {
	mu     sync.Mutex
	inodes map[uint64]netip.AddrPort
}

// add remembers a socket.
func (o *ownSockets) add(fd int) {
	var st unix.Stat_t
	at, ok := boundTo(fd)
	if unix.Fstat(fd, &st) != nil || !ok {
		return
	}
	o.mu.Lock()
	full := len(o.inodes) >= maxOwn
	o.mu.Unlock()
	var alive map[uint64]bool
	if full {
		alive = boundInodes()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inodes == nil {
		o.inodes = make(map[uint64]netip.AddrPort)
	}
	for inode := range o.inodes {
		if full && !alive[inode] {
			delete(o.inodes, inode)
		}
	}
	if len(o.inodes) < maxOwn {
		o.inodes[st.Ino] = at
	}
}

// boundTo returns the address that a socket has.
func boundTo(fd int) (netip.AddrPort, bool) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), a.Port != 0
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), a.Port != 0
	}
	return netip.AddrPort{}, false
}

// holds tells whether a socket of a table is the guest's.
func (o *ownSockets) holds(s tableSocket) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.inodes[s.inode]
	return ok && at.Port() == s.local.Port() && (at.Addr() == s.local.Addr() || at.Addr().IsUnspecified())
}

// has tells whether what is sent to an address of this namespace goes to a socket of the guest's, and to none of others'. Several sockets may share a port.
func (o *ownSockets) has(protocol string, to netip.AddrPort) bool {
	if protocol != "tcp" && protocol != "udp" {
		return false
	}
	found, foreign := false, false
	for _, table := range []string{protocol, protocol + "6"} {
		err := eachSocket(table, func(s tableSocket) bool {
			if s.local.Port() == to.Port() && (s.local.Addr().IsUnspecified() || s.local.Addr() == to.Addr()) {
				found, foreign = true, foreign || !o.holds(s)
			}
			return !foreign
		})
		if err != nil {
			return false
		}
	}
	return found && !foreign
}

// Listens returns where a program inside listens at a TCP port of the loopback; false: nobody does, or not the guest alone.
func (s *Server) Listens(port uint16) (at netip.AddrPort, ok bool) {
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		at = netip.AddrPortFrom(a, port)
		if l := s.guest.Listening; l != nil {
			at = l.Connects(at)
		}
		if s.bound.has("tcp", at) {
			return at, true
		}
	}
	return netip.AddrPort{}, false
}

// boundInodes are those of all sockets that have a port.
func boundInodes() map[uint64]bool {
	all := make(map[uint64]bool)
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		_ = eachSocket(table, func(s tableSocket) bool { all[s.inode] = true; return true }) // what is not seen is forgotten
	}
	return all
}

// listens is TCP_LISTEN in a table.
const listens = 0x0a

// tableSocket is a line of /proc/net/tcp and its like.
type tableSocket struct {
	local netip.AddrPort
	state uint64
	inode uint64
}

// eachSocket has use look at the sockets of a table until it returns false: of TCP those that listen. A missing table is empty.
func eachSocket(table string, use func(tableSocket) bool) error {
	f, err := os.Open("/proc/net/" + table)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return readSockets(f, strings.HasPrefix(table, "tcp"), use)
}

// readSockets reads a table.
func readSockets(r io.Reader, listening bool, use func(tableSocket) bool) error {
	lines := bufio.NewScanner(r)
	for n := 0; lines.Scan(); n++ {
		if n == maxSockets {
			return syscall.EFBIG
		}
		s, ok := parseSocket(lines.Text())
		switch {
		case !ok: // the heading
		case listening && s.state != listens: // they come first
			return nil
		case !use(s):
			return nil
		}
	}
	return lines.Err()
}

// parseSocket reads a line.
func parseSocket(line string) (s tableSocket, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return s, false
	}
	host, port, _ := strings.Cut(f[1], ":")
	b, err := hex.DecodeString(host)
	p, err2 := strconv.ParseUint(port, 16, 16)
	state, err3 := strconv.ParseUint(f[3], 16, 8)
	inode, err4 := strconv.ParseUint(f[9], 10, 64)
	if err != nil || err2 != nil || err3 != nil || err4 != nil || len(b) != 4 && len(b) != 16 {
		return s, false
	}
	for i := 0; i < len(b); i += 4 { // words of the machine's order
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return tableSocket{netip.AddrPortFrom(a.Unmap(), uint16(p)), state, inode}, true
}
