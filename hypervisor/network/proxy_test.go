package network

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func environ(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

// TestVia: which proxy a destination has.
func TestVia(t *testing.T) {
	env := []string{"HTTP_PROXY", "http://web:3128", "https_proxy", "secure", "ALL_PROXY", "socks5://any", "NO_PROXY", "direct.test,.below.test,192.0.2.0/24,other.test:443"}
	for _, c := range []struct {
		env      []string
		domain   string
		to, want string
	}{
		{env, "a.test", "198.51.100.1:80", "http://web:3128"},
		{env, "a.test", "198.51.100.1:443", "http://secure:80"},
		{env, "a.test", "198.51.100.1:22", "socks5://any:1080"},
		{env, "", "198.51.100.1:80", "http://web:3128"},
		{env, "direct.test", "198.51.100.1:80", ""},
		{env, "x.below.test", "198.51.100.1:80", ""},
		{env, "other.test", "198.51.100.1:443", ""},
		{env, "other.test", "198.51.100.1:80", "http://web:3128"},
		{env, "a.test", "192.0.2.9:80", ""},
		{env, "", "127.0.0.1:80", ""},
		{env[:2], "a.test", "198.51.100.1:443", ""},
		{[]string{"ALL_PROXY", "any:1"}, "a.test", "198.51.100.1:443", "http://any:1"},
		{[]string{"ALL_PROXY", "any:1", "NO_PROXY", "*"}, "a.test", "198.51.100.1:443", ""},
		{[]string{"HTTP_PROXY", "http://[2001:db8::1]"}, "a.test", "198.51.100.1:80", "http://[2001:db8::1]:80"},
	} {
		d, err := ProxyFromEnvironment(environ(c.env...))
		if err != nil {
			t.Fatalf("%q: %v", c.env, err)
		}
		got := ""
		if p := d.via(c.domain, netip.MustParseAddrPort(c.to)); p != nil {
			got = p.String()
		}
		if got != c.want {
			t.Errorf("%q: %s %s: %q, want %q", c.env, c.domain, c.to, got, c.want)
		}
	}
	if d, err := ProxyFromEnvironment(environ("NO_PROXY", "*", "HTTP_PROXY", " ")); d != nil || err != nil {
		t.Errorf("no proxy at all: %v, %v", d, err)
	}
}

// TestUnusableVariables: the error says which variable it is, not its password.
func TestUnusableVariables(t *testing.T) {
	for _, value := range []string{"ftp://user:hunter2@host", "http://", "http://user:hunter2@:80", "http://host:hunter2", "\x00", "http://HOST.sandbox.internal:3128", "host.sandbox.internal.:1"} {
		_, err := ProxyFromEnvironment(environ("https_proxy", value))
		if err == nil || !strings.Contains(err.Error(), "https_proxy") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// proxyServe answers each connection to a listener of its own, and returns its address.
func proxyServe(t testing.TB, answer func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); answer(c) }()
		}
	}()
	return l.Addr().String()
}

var web = netip.MustParseAddrPort("198.51.100.1:443")

// TestTunnel: the proxy is told the name, and its password; what the other end says at
// once is not lost, and half of the connection can be closed.
func TestTunnel(t *testing.T) {
	asked := make(chan string, 1)
	at := proxyServe(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		asked <- req.Method + " " + req.RequestURI + " " + req.Header.Get("Proxy-Authorization")
		_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\nX-Of: the proxy\r\n\r\nfirst ")
		_, _ = io.Copy(c, r)
	})
	d, err := ProxyFromEnvironment(environ("HTTPS_PROXY", "http://user:p%40ss@"+at))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ domain, want string }{{"named.test", "CONNECT named.test:443 Basic dXNlcjpwQHNz"}, {"", "CONNECT 198.51.100.1:443 Basic dXNlcjpwQHNz"}} {
		conn, err := d.Dial(t.Context(), c.domain, web)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != c.want {
			t.Errorf("asked %q, want %q", got, c.want)
		}
		_, _ = io.WriteString(conn, "then")
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "first then" {
			t.Errorf("%q, %v", got, err)
		}
		_ = conn.Close()
	}
}

// TestSOCKS: a SOCKS5 proxy is told the name.
func TestSOCKS(t *testing.T) {
	at := proxyServe(t, func(c net.Conn) {
		head := make([]byte, 3)
		_, _ = io.ReadFull(c, head) // version 5, one method, none
		_, _ = c.Write([]byte{5, 0})
		head = make([]byte, 5)
		_, _ = io.ReadFull(c, head) // version 5, connect, 0, a name, its length
		rest := make([]byte, int(head[4])+2)
		_, _ = io.ReadFull(c, rest)
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		_, _ = fmt.Fprintf(c, "%s %d", rest[:head[4]], binary.BigEndian.Uint16(rest[head[4]:]))
	})
	d, err := ProxyFromEnvironment(environ("ALL_PROXY", "socks5h://"+at))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(t.Context(), "named.test", web)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "named.test 443" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRefusals: whatever a proxy says that is no tunnel is an error, and a silent one is
// waited for no longer than the caller wants.
func TestRefusals(t *testing.T) {
	for name, answer := range map[string]string{
		"forbidden": "HTTP/1.1 403 Forbidden\r\n\r\n", "garbage": "SSH-2.0-x\r\n\r\n", "cut": "HTTP/1.1 200 O", "nothing": "",
		"endless": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead),
	} {
		at := proxyServe(t, func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, answer)
		})
		d, _ := ProxyFromEnvironment(environ("ALL_PROXY", at))
		if c, err := d.Dial(t.Context(), "", web); c != nil || !errors.Is(err, errRefused) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	asked := make(chan struct{})
	at := proxyServe(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		close(asked)
		_, _ = io.Copy(io.Discard, c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	d, _ := ProxyFromEnvironment(environ("ALL_PROXY", at))
	start := time.Now()
	if c, err := d.Dial(ctx, "", web); c != nil || err == nil {
		t.Errorf("a silent proxy: %v, %v, after %v", c, err, time.Since(start))
	}
	d, _ = ProxyFromEnvironment(environ("ALL_PROXY", "127.0.0.1:1"))
	if c, err := d.Dial(t.Context(), "", web); c != nil || err == nil {
		t.Errorf("nobody there: %v, %v", c, err)
	}
}

// FuzzAnswer: no answer of a proxy's takes more than its head off the connection.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest"))
	f.Add([]byte("HTTP/1.1 407 No\r\nContent-Length: 5\r\n\r\nhello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := strings.NewReader(string(b))
		err := readAnswer(r)
		taken := len(b) - r.Len()
		if taken > maxHead {
			t.Errorf("%d bytes taken", taken)
		}
		if end := strings.Index(string(b), "\r\n\r\n"); err == nil && end+4 != taken {
			t.Errorf("the head ends at %d, and %d were taken", end+4, taken)
		}
	})
}

// FuzzParse: what is taken for a proxy has a host and a port.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"http://u:p@host:1", "host", "socks5://[::1]", "https://x/y?z", "]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parse(s)
		if err != nil || u == nil {
			return
		}
		if host, port, err := net.SplitHostPort(u.Host); err != nil || host == "" || port == "" {
			t.Errorf("%q: %q", s, u.Host)
		}
	})
}
