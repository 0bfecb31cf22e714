//go:build linux

package jail_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// netNames resolves what the tests need: addresses that are nobody's (RFC 5737).
type netNames map[string]string

func (n netNames) LookupIPv6(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	if a, ok := n["6."+name]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, time.Minute, nil
	}
	return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (n netNames) LookupIPv4(_ context.Context, name string) ([]netip.Addr, time.Duration, error) {
	if a, ok := n[name]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, time.Minute, nil
	}
	return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// netLab is a jail with a network, whose outside is a web server and one that sends
// datagrams back, at every address of 198.51.100.0/24; the host's own loopback is itself.
type netLab struct {
	*jailed
	python string
	web    *httptest.Server
	echo   net.PacketConn

	mu     sync.Mutex
	events []policy.Event
	silent string // who listens at 198.51.100.99 and says nothing
}

// startNet brings up a jail with a network.
func startNet(t testing.TB, o policy.Options, rules ...string) *netLab {
	t.Helper()
	require.TUN(t)
	l := &netLab{python: systemPython(t)}
	l.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%x %v", sha256.Sum256(body), err)
			return
		}
		if r.URL.Path == "/large" {
			_, _ = w.Write(largeBody())
			return
		}
		_, _ = fmt.Fprintf(w, "hello %s\n", r.URL.Path)
	}))
	t.Cleanup(l.web.Close)
	var err error
	if l.echo, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.echo.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := l.echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = l.echo.WriteTo(buf[:n], from)
		}
	}()
	o.Allow = rules
	o.OnEvent = func(e policy.Event) { l.mu.Lock(); l.events = append(l.events, e); l.mu.Unlock() }
	engine, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	rt := jail.New(jail.Options{GuestBinary: guestBinary, Umask: 0o022, Network: network.Options{
		Resolver: netNames{"named.test": "198.51.100.5", "other.test": "198.51.100.6", "evil.test": "127.0.0.1",
			"6.named.test": "2001:db8:5::5", "6.six.test": "2001:db8:5::6", "6.evil.test": "64:ff9b::7f00:1"},
		Dial: l.dial, HasIPv6: func() bool { return true },
	}})
	l.jailed = startOn(t, rt, func(c *hypervisor.Config) { c.Network = engine })
	return l
}

func (l *netLab) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	switch host, _, _ := net.SplitHostPort(address); {
	case host == "198.51.100.99":
		address = silent
	case (strings.HasPrefix(host, "198.51.100.") || strings.HasPrefix(host, "2001:db8:5:")) && kind == "udp":
		address = l.echo.LocalAddr().String()
	case strings.HasPrefix(host, "198.51.100."), strings.HasPrefix(host, "2001:db8:5:"):
		address = l.web.Listener.Addr().String()
	case host != "127.0.0.1" && host != "::1":
		return nil, fmt.Errorf("the test has no %s", address)
	}
	return new(net.Dialer).DialContext(ctx, kind, address)
}

// denied reports whether the audit has a refusal of such a target.
func (l *netLab) denied(target string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Action == policy.Deny && (e.Target.String() == target || e.Domain == target) {
			return true
		}
	}
	return false
}

// py runs a program that prints what it found, or the name of its error.
func (l *netLab) py(program string) string {
	l.t.Helper()
	const frame = "import socket,urllib.request\n" +
		"def tcp(a,p):\n s=socket.create_connection((a,p),60)\n s.sendall(b'GET /x HTTP/1.0\\r\\n\\r\\n')\n return s.makefile().read().split()[-1]\n" +
		"def udp(a,p):\n s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET,socket.SOCK_DGRAM)\n s.settimeout(60)\n s.connect((a,p))\n s.send(b'datagram')\n return s.recv(100).decode()\n" +
		"try:\n print(%s)\nexcept OSError as e:\n print(type(e).__name__, e.errno)\n"
	out, st, err := l.run(l.python, "-c", fmt.Sprintf(frame, program))
	if err != nil || st.Code != 0 {
		l.t.Errorf("%s: %v, status %d: %s", program, err, st.Code, out)
	}
	return out
}

func (l *netLab) prints(program, want string) {
	l.t.Helper()
	if out := l.py(program); out != want {
		l.t.Errorf("%s: %q, want %q", program, out, want)
	}
}

// TestJailNetworkRules: what a rule names is reached, by its name or its address, and
// nothing else; each refusal is one that a program sees at once.
func TestJailNetworkRules(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	ours := open.Addr().(*net.TCPAddr).Port
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist}}, "named.test:80", "198.51.100.7:8080", "udp/198.51.100.8:53", "evil.test")
	host := l.web.Listener.Addr().(*net.TCPAddr).Port
	for _, s := range []struct{ program, want string }{
		{`tcp("named.test",80)`, "/x"},
		{`tcp("named.test",81)`, "ConnectionRefusedError 111"},
		{`tcp("198.51.100.7",8080)`, "/x"},
		{`tcp("198.51.100.9",80)`, "ConnectionRefusedError 111"},
		{`udp("198.51.100.8",53)`, "datagram"},
		{`udp("198.51.100.8",54)`, "ConnectionRefusedError 111"},
		{`tcp("other.test",80)`, "gaierror -5"},
		{`tcp("evil.test",80)`, "gaierror -5"}, // its address is the host's: withheld
		// The loopback inside is its own, and the gateway is the host only for a rule that says so.
		{fmt.Sprintf(`tcp("127.0.0.1",%d)`, ours), "ConnectionRefusedError 111"},
		{fmt.Sprintf(`tcp("localhost",%d)`, ours), "ConnectionRefusedError 111"},
		{fmt.Sprintf(`tcp("host.sandbox.internal",%d)`, host), "ConnectionRefusedError 111"},
		{fmt.Sprintf(`tcp("10.0.2.2",%d)`, host), "ConnectionRefusedError 111"},
	} {
		l.prints(s.program, s.want)
	}
	for _, target := range []string{"198.51.100.9:80", "198.51.100.5:81", "198.51.100.8:54", "other.test", fmt.Sprintf("127.0.0.1:%d", host)} {
		if !l.denied(target) {
			t.Errorf("no refusal of %s in the audit", target)
		}
	}
	if f := l.Facts()["network"]; f != "10.0.2.15 (policy allowlist)" {
		t.Errorf("fact: %q", f)
	}
}

// IPv6 inside is decided and carried as IPv4 is; ::1 is the jail's own.
func TestJailNetworkIPv6(t *testing.T) {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Log("this kernel has no IPv6: neither has the jail")
		return
	}
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Allowlist}}, "[2001:db8:5::1]:80", "udp/[2001:db8:5::1]:53", "*.test:80", "[::1]")
	l.prints("tcp('2001:db8:5::1',80)", "/x")
	l.prints("udp('2001:db8:5::1',53)", "datagram")
	l.prints("tcp('2001:db8:5::1',81)", "ConnectionRefusedError 111")
	l.prints("tcp('2001:db8:5::2',80)", "ConnectionRefusedError 111")
	l.prints("udp('2001:db8:5::2',53)", "ConnectionRefusedError 111")
	l.prints("tcp('six.test',80)", "/x")
	l.prints("socket.getaddrinfo('named.test',80,socket.AF_INET6,socket.SOCK_STREAM)[0][4][0]", "2001:db8:5::5")
	for _, target := range []string{"[2001:db8:5::2]:80", "[2001:db8:5::2]:53"} {
		if !l.denied(target) {
			t.Errorf("the audit has no refusal of %s", target)
		}
	}
	for _, to := range []string{"64:ff9b::7f00:1", "2002:7f00:1::1", "::ffff:0:7f00:1"} {
		l.prints(fmt.Sprintf("tcp('%s',%d)", to, l.web.Listener.Addr().(*net.TCPAddr).Port), "ConnectionRefusedError 111")
	}
	// The jail's own: nobody listens there.
	for _, to := range []string{"::1", "::ffff:127.0.0.1"} {
		l.prints(fmt.Sprintf("tcp('%s',%d)", to, l.web.Listener.Addr().(*net.TCPAddr).Port), "ConnectionRefusedError 111")
	}
	// The host's, where nobody listens at ::1, and where somebody does.
	l.prints(fmt.Sprintf("tcp('fd7a:5bc2:91e4:2::2',%d)", l.web.Listener.Addr().(*net.TCPAddr).Port), "ConnectionRefusedError 111")
	six, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Log("this machine has no ::1, which somebody could listen at")
		return
	}
	server := &http.Server{Handler: l.web.Config.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(six) }()
	t.Cleanup(func() { _ = server.Close() })
	l.prints(fmt.Sprintf("tcp('host.sandbox.internal',%d)", six.Addr().(*net.TCPAddr).Port), "/x")
	l.prints(fmt.Sprintf("tcp('fd7a:5bc2:91e4:2::2',%d)", six.Addr().(*net.TCPAddr).Port), "/x")
}

// largeBody is what python calls bytes(range(251))*32768.
func largeBody() []byte {
	body := make([]byte, 251*32768)
	for i := range body {
		body[i] = byte(i % 251)
	}
	return body
}

// TestJailNetworkBytes: nothing is lost or changed in either direction, of a stream or of
// datagrams of any size, though nobody makes checksums.
func TestJailNetworkBytes(t *testing.T) {
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Open}})
	l.prints(`urllib.request.urlopen("http://198.51.100.5/large").read() == bytes(range(251))*32768`, "True")
	l.prints(`urllib.request.urlopen("http://198.51.100.5/sum",data=bytes(range(251))*32768).read().decode()`, fmt.Sprintf("%x <nil>", sha256.Sum256(largeBody())))
	for _, size := range []int{1, 1399, 65000, 65507} {
		l.prints(fmt.Sprintf(`(lambda s,d:(s.settimeout(60),s.connect(("198.51.100.8",53)),s.send(d),s.recv(1<<17)==d)[3])(socket.socket(socket.AF_INET,socket.SOCK_DGRAM),bytes(i%%251 for i in range(%d)))`, size), "True")
	}
	if f := l.Facts()["network_dropped"]; f != "" {
		t.Errorf("%s frames were dropped", f)
	}
}

// TestJailNetworkHost: a rule that names the host's loopback opens that port of it.
func TestJailNetworkHost(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the host's\n") }))
	defer web.Close()
	port := web.Listener.Addr().(*net.TCPAddr).Port
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Open}}, fmt.Sprintf("127.0.0.1:%d", port))
	l.prints(fmt.Sprintf(`tcp("host.sandbox.internal",%d)`, port), "host's")
	l.prints(fmt.Sprintf(`tcp("127.0.0.1",%d)`, port), "ConnectionRefusedError 111")
	l.prints(fmt.Sprintf(`tcp("host.sandbox.internal",%d)`, l.web.Listener.Addr().(*net.TCPAddr).Port), "ConnectionRefusedError 111")
	l.prints(`tcp("203.0.113.1",80)`, "ConnectionRefusedError 111") // allowed, but nobody is there
}

// TestJailNetworkAsk: the flow waits for the answer; no answer is a no.
func TestJailNetworkAsk(t *testing.T) {
	answers := map[string]bool{"198.51.100.20:80": true, "198.51.100.21:80": false, "asked.test": false, "other.test": true}
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Ask}, AskTimeout: 3 * time.Second, Ask: func(ctx context.Context, q policy.Question) (policy.Answer, error) {
		what := q.Domain
		if !q.Lookup {
			what = q.Target.Address.String()
		}
		allow, ok := answers[what]
		if !ok {
			<-ctx.Done() // nobody is there
			return policy.Answer{}, ctx.Err()
		}
		return policy.Answer{Allow: allow}, nil
	}})
	l.prints(`tcp("198.51.100.20",80)`, "/x")
	l.prints(`tcp("198.51.100.21",80)`, "ConnectionRefusedError 111")
	l.prints(`tcp("198.51.100.22",80)`, "ConnectionRefusedError 111")
	l.prints(`tcp("asked.test",80)`, "gaierror -5")
	l.prints(`tcp("other.test",80)`, "/x")
}

// TestJailNetworkInside: the card is set up once and for all. Nobody inside may change
// it, or send what is no TCP, UDP or ping of an address that it has.
func TestJailNetworkInside(t *testing.T) {
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Open}})
	if out := l.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"); out != "lo\neth0" && out != "eth0\nlo" {
		t.Errorf("interfaces: %q", out)
	}
	if out := l.sh("cat /etc/resolv.conf"); !strings.Contains(out, "nameserver 10.0.2.3") {
		t.Errorf("resolv.conf: %s", out)
	}
	for _, s := range []struct{ program, want string }{
		{`socket.socket(socket.AF_PACKET,socket.SOCK_RAW)`, "PermissionError 1"},
		{`socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_ICMP)`, "PermissionError 1"},
		{`socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_RAW)`, "PermissionError 1"},
		{`open("/dev/net/tun","r+b")`, "FileNotFoundError 2"},
		{`open("/proc/sys/net/ipv4/ip_forward","w")`, "PermissionError 13"},
	} {
		if out := l.py(s.program); out != s.want && (out != "OSError 30" || !strings.HasPrefix(s.program, "open")) {
			t.Errorf("%s: %q, want %q", s.program, out, s.want)
		}
	}
	// A route by netlink: RTM_DELROUTE of the default, RTM_NEWADDR, RTM_SETLINK.
	out := l.py(`[(lambda s:(s.send(bytes.fromhex(m)),int.from_bytes(s.recv(999)[16:20],"little",signed=True))[1])(socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0)) for m in (
 "1c000000190005000100000000000000"+"020000000000000000000000",
 "1800000014000500010000000000000002180000e8030000",
 "2000000013000500010000000000000000000000e80300000000000001000000")]`)
	if out != "[-1, -1, -1]" {
		t.Errorf("netlink: %s, want EPERM for each", out)
	}
	l.prints(`tcp("198.51.100.5",80)`, "/x")
}

// TestJailNetworkEnds: with the jail go its network, the flows in it, and all that held them.
func TestJailNetworkEnds(t *testing.T) {
	l := startNet(t, policy.Options{Network: policy.Network{Mode: policy.Open}})
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l.mu.Lock()
	l.silent = far.Addr().String()
	l.mu.Unlock()
	p, err := l.Exec(t.Context(), hypervisor.Command{ID: l.nextID(), Dir: l.dir, Stdout: w, Argv: []string{l.python, "-c",
		`import socket; s=socket.create_connection(("198.51.100.99",80)); print("connected",flush=True); s.recv(1)`}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 10)
	if _, err := io.ReadFull(r, line); err != nil || !bytes.HasPrefix(line, []byte("connected")) {
		t.Fatalf("%v: %q", err, line)
	}
	c, err := far.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Wait(t.Context())
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the connection's other end: %v", err)
	}
}

// TestJailDial: a port that is published is reached where a server listens that is for the
// jail alone, whatever the network; what is no port of the jail's is refused.
func TestJailDial(t *testing.T) {
	python := systemPython(t)
	j := start(t, nil)
	d := j.Guest.(hypervisor.Dialer)
	for _, address := range []string{"127.0.0.1", "::1", "0.0.0.0"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p, err := j.Exec(t.Context(), hypervisor.Command{ID: j.nextID(), Dir: j.dir, Stdout: w, Stderr: w, Argv: []string{python, "-c", `
import socket, sys
s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(s.getsockname()[1], flush=True)
c, _ = s.accept()
data = c.makefile("rb").read()
c.sendall(b"got %d" % len(data))
`, address}})
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		var port uint16
		if _, err := fmt.Fscan(r, &port); err != nil {
			t.Fatal(err)
		}
		c, err := d.Dial(t.Context(), port)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != "got 1048576" {
			t.Errorf("%s: %v, %q", address, err, got)
		}
		c.Close()
		if _, err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		r.Close()
		if _, err := d.Dial(t.Context(), port); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: dialling a port that nobody listens at: %v", address, err)
		}
	}
}
