package network

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// maxHead bounds the head of a proxy's answer.
const maxHead = 16 << 10

var errRefused = errors.New("proxy: the proxy makes no connection")

// ProxyDialer connects through the proxies of an environment. It is safe for concurrent use.
type ProxyDialer struct {
	http, https, all *url.URL
	noProxy          string

	// TLS is for proxies that are reached by https; nil means the system's certificates.
	TLS *tls.Config
}

// ProxyFromEnvironment returns the dialer of an environment, or nil where that names no proxy.
// An error names the variable, and does not show its value, which may hold a password.
func ProxyFromEnvironment(getenv func(string) string) (*ProxyDialer, error) {
	d := new(ProxyDialer)
	for _, v := range []struct {
		into **url.URL
		name string
	}{{&d.http, "HTTP_PROXY"}, {&d.https, "HTTPS_PROXY"}, {&d.all, "ALL_PROXY"}} {
		name := v.name
		if getenv(name) == "" {
			name = strings.ToLower(name)
		}
		u, err := parse(getenv(name))
		if err != nil {
			return nil, fmt.Errorf("the environment's %s %w; mend or unset it", name, err)
		}
		*v.into = u
	}
	if d.http == nil && d.https == nil && d.all == nil {
		return nil, nil
	}
	d.noProxy = cmp.Or(getenv("NO_PROXY"), getenv("no_proxy"))
	return d, nil
}

// ports are a proxy's, by the scheme of its URL, where that names none.
var ports = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// parse reads the URL of a proxy, or HOST:PORT; nil for an empty one.
func parse(text string) (*url.URL, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), "[]") || ports[u.Scheme] == "" {
		return nil, errors.New("is not the URL of a proxy: http://HOST:PORT, https:// and socks5:// are known")
	}
	if name, err := policy.CanonicalName(u.Hostname()); err == nil && name == policy.HostName {
		return nil, fmt.Errorf("names %s, which only programs inside have: for a proxy on this host write 127.0.0.1", policy.HostName)
	}
	return &url.URL{Scheme: u.Scheme, User: u.User, Host: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[u.Scheme]))}, nil
}

// via returns the proxy for a destination, or nil. A name is looked for in NO_PROXY, and
// so is the address.
func (d *ProxyDialer) via(domain string, to netip.AddrPort) *url.URL {
	p := d.all
	switch to.Port() {
	case 443:
		p = cmp.Or(d.https, p)
	case 80:
		p = cmp.Or(d.http, p)
	}
	if p == nil {
		return nil
	}
	// NO_PROXY is all that is asked here, hence a proxy's URL that is never used.
	ask := (&httpproxy.Config{HTTPProxy: "http://proxy.invalid", NoProxy: d.noProxy}).ProxyFunc()
	for _, host := range []string{domain, to.Addr().String()} {
		if host == "" {
			continue
		}
		u, err := ask(&url.URL{Scheme: "http", Host: net.JoinHostPort(host, fmt.Sprint(to.Port()))})
		if err != nil || u == nil {
			return nil
		}
	}
	return p
}

// Dial connects to an address through its proxy. If it has none, both results are nil.
func (d *ProxyDialer) Dial(ctx context.Context, domain string, to netip.AddrPort) (net.Conn, error) {
	p := d.via(domain, to)
	if p == nil {
		return nil, nil
	}
	target := net.JoinHostPort(cmp.Or(domain, to.Addr().String()), fmt.Sprint(to.Port()))
	if strings.HasPrefix(p.Scheme, "socks5") {
		return dialSOCKS(ctx, p, target)
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.Host)
	if err != nil {
		return nil, fmt.Errorf("the proxy %s: %w", p.Host, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := d.connect(c, p, target)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the proxy %s: %w", p.Host, err), c.Close())
	}
	return tunnel, nil
}

// dialSOCKS asks a SOCKS5 proxy.
func dialSOCKS(ctx context.Context, p *url.URL, target string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.User != nil {
		password, _ := p.User.Password()
		auth = &proxy.Auth{User: p.User.Username(), Password: password}
	}
	s, err := proxy.SOCKS5("tcp", p.Host, auth, new(net.Dialer))
	if err != nil {
		return nil, err
	}
	c, err := s.(proxy.ContextDialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("the proxy %s: %w", p.Host, err)
	}
	return c, nil
}

// connect makes a tunnel to the target of a connection to the proxy.
func (d *ProxyDialer) connect(c net.Conn, p *url.URL, target string) (net.Conn, error) {
	if p.Scheme == "https" {
		conf := d.TLS.Clone()
		if conf == nil {
			conf = new(tls.Config)
		}
		conf.ServerName = p.Hostname()
		c = tls.Client(c, conf)
	}
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if p.User != nil {
		password, _ := p.User.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return nil, err
	}
	return c, readAnswer(c)
}

// readAnswer reads the head of a proxy's answer and nothing behind it.
func readAnswer(r io.Reader) error {
	head := make([]byte, 0, 512)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if len(head) == maxHead {
			return fmt.Errorf("%w: an answer of more than %d bytes", errRefused, maxHead)
		}
		head = append(head, 0)
		if _, err := io.ReadFull(r, head[len(head)-1:]); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%w: %q", errRefused, answer.Status)
	}
	return nil
}
