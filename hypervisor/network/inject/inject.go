package inject

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// port is where TLS is expected.
	port = 443
	// validity is longer than a session lives.
	validity = 365 * 24 * time.Hour
	// upstreams bounds the connections that one of the guest's leads to.
	upstreams = 16
	// quiet is how long a connection may be idle, or greet.
	quiet = 5 * time.Minute
	// shortSecret is how long one is that is looked for within other text, in bytes.
	shortSecret = 8
	// Placeholder is what programs inside find in the variables of the rules: many do not
	// start without a key.
	Placeholder = "injected-by-sandbox"
)

// Injector adds headers. Its methods are safe for concurrent use.
type Injector struct {
	rules     map[string][]Rule // by host
	certs     map[string]*tls.Certificate
	bundle    string
	file      string
	variables map[string]bool
	secrets   []string

	// Roots verify servers; nil means the host's. Set it before the first use.
	Roots *x509.CertPool
}

// String tells nothing of the values.
func (i *Injector) String() string { return fmt.Sprintf("injector for %d hosts", len(i.rules)) }

// GoString is String.
func (i *Injector) GoString() string { return i.String() }

// New makes an injector with a key of its own for resolved rules. File is the bundle of
// certificates that programs of this machine trust, with its path; ours is added to it.
func New(rules []Rule, file string, bundle []byte) (*Injector, error) {
	i := &Injector{rules: map[string][]Rule{}, certs: map[string]*tls.Certificate{}, variables: map[string]bool{}, file: file}
	for _, r := range rules {
		for _, other := range i.rules[r.host] {
			if other.header == r.header {
				return nil, fmt.Errorf("inject: two rules for the header %s of %s", r.header, r.host)
			}
		}
		if r.value == "" {
			return nil, fmt.Errorf("inject: the value for %s is empty", r.host)
		}
		i.rules[r.host] = append(i.rules[r.host], r)
		i.secrets = append(i.secrets, r.secrets...)
		for _, v := range r.variables {
			i.variables[v] = true
		}
	}
	ours, err := i.certify()
	if err != nil {
		return nil, fmt.Errorf("inject: making certificates: %w", err)
	}
	i.bundle = strings.TrimRight(string(bundle), "\n") + "\n" + string(ours)
	return i, nil
}

// certify makes the authority, and a certificate for each host. The authority's key is
// not kept.
func (i *Injector) certify() ([]byte, error) {
	hosts := make([]string, 0, len(i.rules))
	for h := range i.rules {
		hosts = append(hosts, h)
	}
	slices.Sort(hosts)
	now := time.Now()
	sign := func(t, parent *x509.Certificate, key, by *ecdsa.PrivateKey) ([]byte, error) {
		serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
		if err != nil {
			return nil, err
		}
		t.SerialNumber, t.NotBefore, t.NotAfter = serial, now.Add(-time.Hour), now.Add(validity)
		return x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, by)
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "sandbox, this session only"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts,
	}
	der, err := sign(ca, ca, root, root)
	if err != nil {
		return nil, err
	}
	parent, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		leaf, err := sign(&x509.Certificate{
			Subject: pkix.Name{CommonName: h[:min(len(h), 64)]}, DNSNames: []string{h}, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, parent, key, root)
		if err != nil {
			return nil, err
		}
		i.certs[h] = &tls.Certificate{Certificate: [][]byte{leaf, der}, PrivateKey: key}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// Covers tells whether connections to a port of this host are to be given to Serve.
func (i *Injector) Covers(host string, p uint16) bool {
	return p == port && i.rules[strings.ToLower(host)] != nil
}

// Trust returns what programs inside are to trust, and the file in which they look for it.
func (i *Injector) Trust() (file, bundle string) { return i.file, i.bundle }

// trustVariables name the bundle to those who do not look at the system's.
var trustVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"}

// Environment returns what programs inside get of an environment: the variables of the
// rules with a placeholder, whatever holds a secret left out, and those that name the
// trusted certificates.
func (i *Injector) Environment(env []string) []string {
	out := make([]string, 0, len(env)+len(trustVariables)+len(i.variables))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		told := slices.ContainsFunc(i.secrets, func(s string) bool { return value == s || len(s) >= shortSecret && strings.Contains(value, s) })
		switch {
		case i.variables[name] || slices.Contains(trustVariables, name):
		case told:
		default:
			out = append(out, e)
		}
	}
	for v := range i.variables {
		out = append(out, v+"="+Placeholder)
	}
	for _, v := range trustVariables {
		out = append(out, v+"="+i.file)
	}
	slices.Sort(out[len(out)-len(i.variables)-len(trustVariables):])
	return out
}

// Serve serves a connection that a guest opens to a host of the rules, until it is closed
// or ctx ends, and closes it. Dial connects to the server. The error says why nothing was
// served.
func (i *Injector) Serve(ctx context.Context, guest net.Conn, host string, dial func(context.Context) (net.Conn, error)) error {
	host = strings.ToLower(host)
	cert := i.certs[host]
	if cert == nil {
		_ = guest.Close()
		return fmt.Errorf("inject: no rule for %s", host)
	}
	up := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		TLSClientConfig: &tls.Config{ServerName: host, RootCAs: i.Roots, MinVersion: tls.VersionTLS12},
		// What the guest may ask for is what it gets.
		DisableCompression: true, ForceAttemptHTTP2: true, MaxConnsPerHost: upstreams, TLSHandshakeTimeout: time.Minute, IdleConnTimeout: quiet,
	}
	defer up.CloseIdleConnections()
	discard := log.New(io.Discard, "", 0)
	handler := &httputil.ReverseProxy{
		Transport: up, FlushInterval: -1, ErrorLog: discard,
		Rewrite: func(r *httputil.ProxyRequest) { i.rewrite(r.Out, host) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "sandbox: "+host+" cannot be reached: "+reason(err), http.StatusBadGateway)
		},
	}
	server := &http.Server{
		ErrorLog: discard, ReadHeaderTimeout: quiet, IdleTimeout: quiet, MaxHeaderBytes: 1 << 20,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodTrace || r.Method == http.MethodConnect:
				http.Error(w, "sandbox: "+r.Method+" is refused where a header is added", http.StatusMethodNotAllowed)
			case !strings.EqualFold(strings.TrimSuffix(r.Host, ":443"), host):
				http.Error(w, "sandbox: this connection is for "+host+" only", http.StatusMisdirectedRequest)
			default:
				handler.ServeHTTP(w, r)
			}
		}),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !strings.EqualFold(strings.TrimSuffix(h.ServerName, "."), host) {
				return nil, errors.New("another server's name")
			}
			return cert, nil
		}},
	}
	c := &once{Conn: guest, closed: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = server.ServeTLS(&single{conn: c}, "", "") // ends when there is no second connection
	<-c.closed
	return nil
}

// rewrite makes the request that the server gets.
func (i *Injector) rewrite(out *http.Request, host string) {
	out.URL.Scheme, out.URL.Host, out.Host = "https", host, host
	for _, r := range i.rules[host] {
		out.Header.Set(r.header, r.value)
		out.Trailer.Del(r.header)
	}
}

// reason is an error without anything of a request.
func reason(err error) string {
	var verify *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &verify):
		return "its certificate is not one that the host trusts"
	case errors.As(err, &op):
		return op.Op + " failed"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	}
	return "the connection failed"
}

// single is a listener with one connection.
type single struct {
	mu   sync.Mutex
	conn *once
}

// Accept implements [net.Listener].
func (s *single) Accept() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conn; c != nil {
		s.conn = nil
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (*single) Close() error { return nil }

// Addr implements [net.Listener].
func (*single) Addr() net.Addr { return &net.TCPAddr{} }

// once is a connection that says when it was closed.
type once struct {
	net.Conn
	do     sync.Once
	closed chan struct{}
}

// Close implements [net.Conn].
func (c *once) Close() error {
	err := c.Conn.Close()
	c.do.Do(func() { close(c.closed) })
	return err
}
