package mediate

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inet makes an address as a program gives it to the kernel.
func inet(t testing.TB, family uint16, to string) []byte {
	t.Helper()
	a := netip.MustParseAddrPort(to)
	raw := binary.NativeEndian.AppendUint16(nil, family)
	raw = binary.BigEndian.AppendUint16(raw, a.Port())
	if family == unix.AF_INET {
		return append(append(raw, a.Addr().AsSlice()...), make([]byte, 8)...)
	}
	b := a.Addr().As16()
	return append(append(append(raw, 0, 0, 0, 0), b[:]...), 0, 0, 0, 0)
}

// TestParseInet: an address means what the kernel takes it for; without a host it is the loopback's.
func TestParseInet(t *testing.T) {
	for _, c := range []struct {
		raw            []byte
		want, loopback string
	}{
		{inet(t, unix.AF_INET, "192.0.2.1:80"), "192.0.2.1:80", "192.0.2.1:80"},
		{inet(t, unix.AF_INET, "0.0.0.0:80"), "0.0.0.0:80", "127.0.0.1:80"},
		{inet(t, unix.AF_INET6, "[2001:db8::1]:80"), "[2001:db8::1]:80", "[2001:db8::1]:80"},
		{inet(t, unix.AF_INET6, "[::]:80"), "[::]:80", "[::1]:80"},
		{inet(t, unix.AF_INET6, "[::ffff:0.0.0.0]:80"), "0.0.0.0:80", "127.0.0.1:80"},
		{inet(t, unix.AF_INET6, "[::ffff:127.0.0.9]:80"), "127.0.0.9:80", "127.0.0.9:80"},
		{inet(t, unix.AF_INET6, "[::1]:80")[:24], "[::1]:80", "[::1]:80"}, // without a scope, as in RFC 2133
		{inet(t, unix.AF_INET, "192.0.2.1:80")[:15], "", ""},
		{inet(t, unix.AF_INET6, "[::1]:80")[:23], "", ""},
		{binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), "", ""},
		{nil, "", ""}, {[]byte{2}, "", ""},
	} {
		got, ok := parseInet(c.raw)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%v: %v, %v", c.raw, got, ok)
		}
		if !ok {
			continue
		}
		to := toLoopback(c.raw, got)
		again, _ := parseInet(c.raw) // what is used is what was decided about
		if to.String() != c.loopback || again != to {
			t.Errorf("%v: %v, and used %v", c.raw, to, again)
		}
	}
}

func FuzzParseInet(f *testing.F) {
	f.Add(inet(f, unix.AF_INET, "0.0.0.0:80"))
	f.Add(inet(f, unix.AF_INET6, "[::ffff:127.0.0.1]:80"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		to, ok := parseInet(raw)
		if !ok {
			return
		}
		to = toLoopback(raw, to)
		if again, _ := parseInet(raw); again != to || to.Addr().IsUnspecified() || to.Addr().Is4In6() {
			t.Errorf("%v: %v, and used %v", raw, to, again)
		}
	})
}

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0000000000000000 20 4 30 10 -1
`

// TestReadSockets: of TCP the sockets that listen, of UDP all; a table that is too long is an error.
func TestReadSockets(t *testing.T) {
	for listening, want := range map[bool]string{true: "127.0.0.1:8080 4711, 0.0.0.0:80 4712, ", false: "127.0.0.1:8080 4711, 0.0.0.0:80 4712, 127.0.0.1:40000 4713, "} {
		var got strings.Builder
		err := readSockets(strings.NewReader(tcpTable), listening, func(s tableSocket) bool {
			got.WriteString(s.local.String() + " " + strconv.FormatUint(s.inode, 10) + ", ")
			return true
		})
		if err != nil || got.String() != want {
			t.Errorf("listening %v: %q, %v", listening, got.String(), err)
		}
	}
	long := strings.Repeat("x\n", maxSockets+1)
	if err := readSockets(strings.NewReader(long), false, func(tableSocket) bool { return true }); err == nil {
		t.Error("a table without end")
	}
}

func FuzzParseSocket(f *testing.F) {
	for line := range strings.Lines(tcpTable) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if s, ok := parseSocket(line); ok && (!s.local.IsValid() || s.local.Addr().Is4In6()) {
			t.Errorf("%q: %+v", line, s)
		}
	})
}

// TestHarmless: what goes with a datagram sets no route.
func TestHarmless(t *testing.T) {
	for _, c := range []struct {
		level, kind int
		want        bool
	}{
		{unix.SOL_IP, unix.IP_TOS, true}, {unix.SOL_IP, unix.IP_RETOPTS, false}, {unix.SOL_IPV6, unix.IPV6_RTHDR, false}, {unix.SOL_IPV6, unix.IPV6_2292RTHDR, false},
		{unix.SOL_IPV6, unix.IPV6_PKTINFO, true}, {unix.SOL_UDP, unix.UDP_SEGMENT, true}, {unix.SOL_SOCKET, unix.SCM_RIGHTS, false},
	} {
		if got := harmless(c.level, c.kind); got != c.want {
			t.Errorf("%d, %d: %v", c.level, c.kind, got)
		}
	}
	b := controlMessage(unix.SOL_IP, unix.IP_TTL, []byte{7, 0, 0, 0})
	m, err := unix.ParseSocketControlMessage(b)
	if err != nil || len(m) != 1 || m[0].Header.Level != unix.SOL_IP || m[0].Header.Type != unix.IP_TTL || !bytes.Equal(m[0].Data, []byte{7, 0, 0, 0}) {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestOwnSockets: what listens at an address is the guest's if its socket is, by its number and its address, and nobody else's shares the port.
func TestOwnSockets(t *testing.T) {
	listen := func(network, at string) (l net.Listener, fd int, to netip.AddrPort) {
		t.Helper()
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close(); f.Close() })
		return l, int(f.Fd()), l.Addr().(*net.TCPAddr).AddrPort()
	}
	var o ownSockets
	_, one, at := listen("tcp4", "127.0.0.1:0")
	if o.has("tcp", at) {
		t.Error("somebody's listener is the guest's")
	}
	o.add(one)
	elsewhere := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port())
	if !o.has("tcp", at) || o.has("udp", at) || o.has("icmp", at) || o.has("tcp", elsewhere) {
		t.Error("the guest's listener is not found, or where it is not")
	}
	_, _, _ = listen("tcp4", elsewhere.String())
	if o.has("tcp", elsewhere) || !o.has("tcp", at) {
		t.Error("somebody else's listener at another address of the port")
	}
	_, all, any := listen("tcp", "[::]:0")
	o.add(all)
	for _, a := range []string{"127.0.0.1", "::1", "127.0.0.9"} {
		if to := netip.AddrPortFrom(netip.MustParseAddr(a), any.Port()); !o.has("tcp", to) {
			t.Errorf("%v is not found", to)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(one, &st); err != nil {
		t.Fatal(err)
	}
	o.inodes[st.Ino] = elsewhere // a socket whose number was used again
	if o.has("tcp", at) {
		t.Error("the number alone makes it the guest's")
	}
	for i := range uint64(maxOwn) { // those that are gone make room
		o.inodes[1<<40+i] = at
	}
	o.add(one)
	if len(o.inodes) > maxOwn || !o.has("tcp", at) {
		t.Errorf("%d are remembered", len(o.inodes))
	}
}

// TestKeptSockets: a copy is kept until it is dropped, or too many others came.
func TestKeptSockets(t *testing.T) {
	var k keptSockets
	defer k.close()
	inode := func(fd int) uint64 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	var first uint64
	for n := range maxKept {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = inode(fd)
		}
		k.keep(fd)
	}
	c := k.copy(first)
	if c < 0 || inode(c) != first || k.copy(first+1<<40) >= 0 {
		t.Fatalf("descriptor %d", c)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := inode(fd)
	k.keep(fd)
	if k.copy(first) >= 0 {
		t.Error("the oldest is still kept")
	}
	if d := k.copy(last); d < 0 {
		t.Error("the newest is not kept")
	} else {
		k.drop(d)
		rawClose(d)
	}
	if k.copy(last) >= 0 || !k.any() {
		t.Error("it was dropped")
	}
	rawClose(c)
}

// TestLeadTo: an address leads elsewhere, as the socket knows it; what is neither host nor port stays.
func TestLeadTo(t *testing.T) {
	device := netip.MustParseAddrPort("127.0.0.2:4000")
	for _, c := range []struct {
		raw    []byte
		domain int
		to     netip.AddrPort
		want   []byte
	}{
		{inet(t, unix.AF_INET, "127.0.0.1:3000"), unix.AF_INET, device, inet(t, unix.AF_INET, "127.0.0.2:4000")},
		{inet(t, unix.AF_INET6, "[::1]:3000"), unix.AF_INET6, device, inet(t, unix.AF_INET6, "[::ffff:127.0.0.2]:4000")},
		{inet(t, unix.AF_INET6, "[::1]:3000")[:24], unix.AF_INET6, netip.MustParseAddrPort("[::1]:4000"), inet(t, unix.AF_INET6, "[::1]:4000")[:24]},
		{inet(t, unix.AF_INET, "127.0.0.1:3000"), unix.AF_INET6, device, nil},
		{inet(t, unix.AF_INET, "127.0.0.1:3000"), unix.AF_INET, netip.MustParseAddrPort("[::1]:1"), nil},
	} {
		was := bytes.Clone(c.raw)
		if got := leadTo(c.raw, c.domain, c.to); !bytes.Equal(got, c.want) || !bytes.Equal(c.raw, was) {
			t.Errorf("%v to %v: %v", was, c.to, got)
		}
	}
}
