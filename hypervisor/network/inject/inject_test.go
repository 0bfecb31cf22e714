package inject

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const secret = "sk-0123456789-very-secret"

func getenv(name string) string { return map[string]string{"KEY": secret, "LINES": "a\nb"}[name] }

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"api.test: Authorization: Bearer $KEY":   "Bearer " + secret,
		" API.test. :x-api-key:${KEY}":           secret,
		"api.test: X-Mixed: a:$KEY$$${KEY}b: $$": "a:" + secret + "$" + secret + "b: $",
	} {
		r, err := Parse(text)
		if err == nil {
			r, err = r.Resolve(getenv)
		}
		if err != nil || r.value != want || r.host != "api.test" {
			t.Errorf("%q: %v, %q for %q", text, err, r.value, r.host)
		}
		for _, printed := range []string{fmt.Sprintf("%v %+v %#v %s", r, r, r, r), r.String()} {
			if strings.Contains(printed, secret) {
				t.Errorf("a rule prints %s", printed)
			}
		}
	}
	for _, text := range []string{
		"", "api.test", "api.test: Authorization", "*.api.test: Authorization: $KEY", "localhost: Authorization: $KEY", "10.0.0.1: Authorization: $KEY",
		"api.test: Authorization: literal", "api.test: Host: $KEY", "api.test: a b: $KEY", "api.test: A: ${KEY", "api.test: A: $", "api.test:443: A: $KEY$",
	} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q: %v", text, r)
		}
	}
	for _, name := range []string{"NONE", "LINES"} {
		r, err := Parse("api.test: A: $KEY $" + name)
		if err == nil {
			_, err = r.Resolve(getenv)
		}
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), secret) {
			t.Errorf("$%s: %v", name, err)
		}
	}
}

// lab is an injector before a server that the host trusts.
type lab struct {
	*Injector
	server *httptest.Server
	seen   chan http.Header
}

func newLab(t *testing.T) *lab {
	r, err := Parse("example.com: Authorization: Bearer $KEY") // the test server's certificate is for this name
	if err == nil {
		r, err = r.Resolve(getenv)
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{seen: make(chan http.Header, 10)}
	if l.Injector, err = New([]Rule{r}, "/etc/bundle.pem", nil); err != nil {
		t.Fatal(err)
	}
	l.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.seen <- r.Header.Clone()
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Proto, r.URL, body)
	}))
	l.server.EnableHTTP2 = true
	l.server.StartTLS()
	t.Cleanup(l.server.Close)
	l.Roots = x509.NewCertPool()
	l.Roots.AddCert(l.server.Certificate())
	return l
}

// client is a program inside, which trusts the bundle.
func (l *lab) client(t *testing.T, h2 bool) *http.Client {
	trusted := x509.NewCertPool()
	if _, bundle := l.Trust(); !trusted.AppendCertsFromPEM([]byte(bundle)) {
		t.Fatal("no certificate in the bundle")
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		inside, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return nil, err
		}
		guest, err := listener.Accept()
		if err != nil {
			return nil, err
		}
		go func() {
			_ = l.Serve(t.Context(), guest, "Example.com", func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", l.server.Listener.Addr().String())
			})
		}()
		return inside, nil
	}
	tr := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: h2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestHeaderIsReplaced(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		l := newLab(t)
		c := l.client(t, h2)
		for range 2 { // on one connection
			r, err := http.NewRequest(http.MethodPost, "https://example.com/v1?q=1", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+Placeholder)
			if !h2 {
				r.Header.Set("Connection", "Authorization") // which would have a proxy drop it
			}
			r.Header.Set("X-Own", "kept")
			res, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != 200 || string(body) != "HTTP/2.0 /v1?q=1 body" || (res.ProtoMajor == 2) != h2 {
				t.Errorf("h2 %t: %s, %s %q, %v", h2, res.Proto, res.Status, body, err)
			}
			if h := <-l.seen; h.Get("Authorization") != "Bearer "+secret || len(h.Values("Authorization")) != 1 || h.Get("X-Own") != "kept" || h.Get("X-Forwarded-For") != "" {
				t.Errorf("h2 %t: the server got %v", h2, h)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	l := newLab(t)
	c := l.client(t, false)
	status := func(method, host string) int {
		r, err := http.NewRequest(method, "https://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		if bytes.Contains(body, []byte(secret)) {
			t.Errorf("%s %s tells the secret", method, host)
		}
		return res.StatusCode
	}
	if s := status("GET", "other.test"); s != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d", s)
	}
	if s := status("TRACE", "example.com"); s != http.StatusMethodNotAllowed {
		t.Errorf("TRACE: %d", s)
	}
	if len(l.seen) != 0 {
		t.Error("the server got a request")
	}
	c = l.client(t, false)
	l.Roots = x509.NewCertPool() // the host does not trust this server
	if s := status("GET", "example.com"); s != http.StatusBadGateway || len(l.seen) != 0 {
		t.Errorf("a server that is not trusted: %d, and it got %d requests", s, len(l.seen))
	}
	for host, port := range map[string]uint16{"other.test": 443, "sub.example.com": 443, "example.com": 80} {
		if l.Covers(host, port) {
			t.Errorf("covers %s:%d", host, port)
		}
	}
	if !l.Covers("Example.COM", 443) {
		t.Error("covers nothing")
	}
}

// The authority is good for the hosts of the rules only.
func TestAuthorityIsConstrained(t *testing.T) {
	l := newLab(t)
	ca, err := x509.ParseCertificate(l.certs["example.com"].Certificate[1])
	if err != nil {
		t.Fatal(err)
	}
	if !ca.PermittedDNSDomainsCritical || len(ca.PermittedDNSDomains) != 1 || ca.PermittedDNSDomains[0] != "example.com" || !ca.MaxPathLenZero {
		t.Errorf("%+v", ca)
	}
}

func TestEnvironment(t *testing.T) {
	l := newLab(t)
	got := strings.Join(l.Environment([]string{"PATH=/bin", "KEY=" + secret, "COPY=x " + secret, "SSL_CERT_FILE=/other", "EMPTY="}), "\n")
	if strings.Contains(got, secret) || strings.Contains(got, "COPY") || strings.Contains(got, "/other") {
		t.Errorf("inside:\n%s", got)
	}
	for _, want := range []string{"PATH=/bin", "KEY=" + Placeholder, "SSL_CERT_FILE=/etc/bundle.pem", "NODE_EXTRA_CA_CERTS=/etc/bundle.pem", "EMPTY="} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing:\n%s", want, got)
		}
	}
	if printed := fmt.Sprintf("%v %+v %#v", l.Injector, l.Injector, l.Injector); strings.Contains(printed, secret) {
		t.Errorf("prints %s", printed)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("api.test: Authorization: Bearer $KEY")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Parse(text); err == nil && (r.host == "" || len(r.variables) == 0) {
			t.Errorf("%q: %v", text, r)
		}
	})
}
