package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// headerSize is that of a struct virtio_net_hdr, which stands before each frame
// (IFF_VNET_HDR): a byte of flags, a byte for the kind of segmentation, and the lengths of
// the headers and of a segment, then where the checksum begins and its place behind that.
const (
	headerSize = 10
	checksumAt = 6
	placeAt    = 8
)

// Parts of a frame.
const (
	tapEthernetSize = 14
	tapIpv4Size     = 20
	tapIpv6Size     = 40
	tcpChecksum     = 16 // in a TCP header
	udpChecksum     = 6  // in a UDP header
)

// TapCable is the host's end of a device. It implements network.LocalCable.
type TapCable struct {
	f   *os.File
	raw syscall.RawConn

	in, out [headerSize]byte // of the frames that Take and Put have
	parts   [][]byte
}

// NewTap makes a cable of an attached descriptor, which does not block. If there is no error
// it takes the descriptor over.
func NewTap(f *os.File) (*TapCable, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	// The kernel inside need not make checksums for us, either.
	if cerr := raw.Control(func(fd uintptr) { err = unix.IoctlSetInt(int(fd), unix.TUNSETOFFLOAD, unix.TUN_F_CSUM) }); cerr != nil || err != nil {
		return nil, fmt.Errorf("setting the network device up: %w", errors.Join(cerr, err))
	}
	return &TapCable{f: f, raw: raw}, nil
}

// Local implements network.LocalCable.
func (c *TapCable) Local() {}

// Take reads a frame. The kernel cuts off what does not fit.
func (c *TapCable) Take(frame []byte) (n int, err error) {
	into := [][]byte{c.in[:], frame}
	rerr := c.raw.Read(func(fd uintptr) bool {
		n, err = unix.Readv(int(fd), into)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: TapPath, Err: err}
	case n == 0:
		return 0, io.EOF
	}
	return max(n-headerSize, 0), nil
}

// Put sends a frame at once. What the device does not take, because it is down or has
// no memory, is lost, as on any cable.
func (c *TapCable) Put(parts [][]byte) (err error) {
	c.out = headerOf(parts)
	if binary.NativeEndian.Uint16(c.out[placeAt:]) == udpChecksum {
		fillIn(parts, tapEthernetSize+tapIpv6Size+udpChecksum)
	}
	c.parts = append(append(c.parts[:0], c.out[:]), parts...)
	werr := c.raw.Write(func(fd uintptr) bool {
		_, err = unix.Writev(int(fd), c.parts)
		return true // what would have to wait is lost
	})
	clear(c.parts)
	switch {
	case werr != nil:
		return werr
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EAGAIN):
		return nil
	}
	return err
}

// headerOf is what stands before a frame. The checksum of a TCP segment has not been made,
// and the kernel inside takes this for right. That of a UDP datagram is zero, which says
// that there is none; over IPv6 that may not be, see [fillIn].
func headerOf(parts [][]byte) (h [headerSize]byte) {
	var start [tapEthernetSize + tapIpv4Size]byte
	n := 0
	for _, p := range parts {
		n += copy(start[n:], p)
	}
	ip := start[tapEthernetSize:]
	if n == len(start) && binary.BigEndian.Uint16(start[12:]) == unix.ETH_P_IPV6 {
		return headerOf6(ip[6])
	}
	if n < len(start) || binary.BigEndian.Uint16(start[12:]) != unix.ETH_P_IP || ip[9] != unix.IPPROTO_TCP {
		return h
	}
	if binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 { // a fragment
		return h
	}
	h[0] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	binary.NativeEndian.PutUint16(h[checksumAt:], tapEthernetSize+uint16(ip[0]&0xf)*4)
	binary.NativeEndian.PutUint16(h[placeAt:], tcpChecksum)
	return h
}

// headerOf6 is the same for IPv6, where the stack makes no fragments.
func headerOf6(protocol byte) (h [headerSize]byte) {
	var place uint16
	switch protocol {
	case unix.IPPROTO_TCP:
		place = tcpChecksum
	case unix.IPPROTO_UDP:
		place = udpChecksum
	default:
		return h
	}
	h[0] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM
	binary.NativeEndian.PutUint16(h[checksumAt:], tapEthernetSize+tapIpv6Size)
	binary.NativeEndian.PutUint16(h[placeAt:], place)
	return h
}

// fillIn sets a byte of a frame that is our own. The kernel drops a UDP datagram over IPv6
// whose checksum is zero, even if it is still to be made.
func fillIn(parts [][]byte, at int) {
	for _, p := range parts {
		if at < len(p) {
			p[at] = 1
			return
		}
		at -= len(p)
	}
}

// Flush does nothing.
func (c *TapCable) Flush() error { return nil }

// Close ends both ends.
func (c *TapCable) Close() error { return c.f.Close() }
