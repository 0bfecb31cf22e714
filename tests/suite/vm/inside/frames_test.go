//go:build inguest

package inside

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The network that the host has told us of.
var (
	ownIP    = []byte{10, 0, 2, 15}
	gateway  = []byte{10, 0, 2, 2}
	resolver = []byte{10, 0, 2, 3}
)

// rawFrames opens the network card beside the kernel's own use of it.
func rawFrames(t *testing.T) (send func([]byte), own net.HardwareAddr) {
	t.Helper()
	card, err := net.InterfaceByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0) // to send only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	to := &unix.SockaddrLinklayer{Ifindex: card.Index}
	return func(frame []byte) {
		if err := unix.Sendto(fd, frame, 0, to); err != nil && err != unix.ENOBUFS { // full: it is lost
			t.Fatalf("a frame of %d bytes: %v", len(frame), err)
		}
	}, card.HardwareAddr
}

// ipv4 is a packet whose lengths and sums are right.
func ipv4(protocol byte, from, to, payload []byte) []byte {
	p := make([]byte, 20, 20+len(payload))
	p[0], p[8], p[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(payload)))
	copy(p[12:], from)
	copy(p[16:], to)
	binary.BigEndian.PutUint16(p[10:], sum(p))
	return append(p, payload...)
}

func sum(b []byte) uint16 {
	var s uint32
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// sound are frames as a driver would send them: what is made of these gets
// further than noise does.
func sound(own net.HardwareAddr, port uint16) [][]byte {
	frame := func(kind uint16, body []byte) []byte {
		f := append([]byte{0x52, 0x55, 0x0a, 0, 2, 2}, own...)
		return append(binary.BigEndian.AppendUint16(f, kind), body...)
	}
	arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, own...)
	arp = append(append(append(arp, ownIP...), 0, 0, 0, 0, 0, 0), gateway...)
	syn := binary.BigEndian.AppendUint16([]byte{0x30, 0x39}, port)
	syn = append(syn, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1)
	query := append([]byte{0x30, 0x39, 0, 53, 0, 36, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x04host\x03com\x00\x00\x01\x00\x01"...)
	echo := append([]byte{8, 0, 0, 0, 0, 7, 0, 1}, "0123456789"...)
	dhcp := append([]byte{0, 68, 0, 67, 0, 252, 0, 0, 1, 1, 6, 0}, make([]byte, 232)...)
	return [][]byte{
		frame(0x0806, arp), frame(0x0800, ipv4(6, ownIP, gateway, syn)), frame(0x0800, ipv4(17, ownIP, resolver, query)),
		frame(0x0800, ipv4(1, ownIP, gateway, echo)), frame(0x0800, ipv4(17, []byte{0, 0, 0, 0}, []byte{255, 255, 255, 255}, dhcp)),
		frame(0x0800, ipv4(6, ownIP, []byte{203, 0, 113, 9}, syn)), frame(0x86dd, make([]byte, 40)),
	}
}

// TestFrames sends what no driver would, as fast as it goes: the host serves on.
func TestFrames(t *testing.T) {
	const frames = 20000
	at := strings.TrimSpace(os.Getenv("WEB")) // a server that the policy allows
	fetch := func() error {
		c, err := net.DialTimeout("tcp", at, 2*time.Minute)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 1))
		return err
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	addr, err := net.ResolveTCPAddr("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	send, own := rawFrames(t)
	seeds := sound(own, uint16(addr.Port))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range frames {
		f := append([]byte(nil), seeds[rng.IntN(len(seeds))]...)
		switch i % 4 {
		case 0: // noise, of any length
			f = f[:14]
			for range rng.IntN(1500) {
				f = append(f, byte(rng.Uint32()))
			}
		case 1: // a few bytes changed
			for range 1 + rng.IntN(4) {
				f[rng.IntN(len(f))] = byte(rng.Uint32())
			}
		case 2: // changed behind the addresses, with a right sum of the header
			f[14+rng.IntN(len(f)-14)] ^= 1 << rng.IntN(8)
			if len(f) >= 34 && f[12] == 8 && f[13] == 0 {
				f[14], f[24], f[25] = 0x45, 0, 0
				copy(f[26:30], ownIP)
				binary.BigEndian.PutUint16(f[24:], sum(f[14:34]))
			}
		case 3: // cut off, or another fragment
			f = f[:14+rng.IntN(len(f)-14)]
			if len(f) > 34 {
				binary.BigEndian.PutUint16(f[20:], uint16(rng.Uint32())&0x3fff)
				f[24], f[25] = 0, 0
				binary.BigEndian.PutUint16(f[24:], sum(f[14:34]))
			}
		}
		send(f)
	}
	if err := fetch(); err != nil {
		t.Errorf("after %d frames: %v", frames, err)
	}
}
