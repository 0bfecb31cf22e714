package e2b

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

const oneKey, otherKey = "e2b_0123456789abcdef", "e2b_fedcba9876543210"

func keysFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKeys: a key of the file is needed, and the file is read again.
func TestKeys(t *testing.T) {
	path := keysFile(t, "# ours\n\n"+oneKey+"\n", 0o600)
	keys, err := web.OpenKeys(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) { o.Keys = keys })
	for key, want := range map[string]int{"": 401, oneKey: 200, otherKey: 401, oneKey + "x": 401, oneKey[:19]: 401} {
		if a := r.call("GET", "/v2/sandboxes", nil, "X-Api-Key: "+key, "Origin: http://elsewhere.example", "Host: any.example"); a.status != want {
			t.Errorf("key %q: %d %s", key, a.status, a.body)
		}
	}
	if a := r.call("GET", "/health", nil); a.status != 204 {
		t.Errorf("health: %d", a.status)
	}
	if err := os.WriteFile(path, []byte(oneKey+"\n"+otherKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.call("GET", "/v2/sandboxes", nil, "X-Api-Key: "+otherKey); a.status != 200 {
		t.Errorf("a new key: %d", a.status)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.call("GET", "/v2/sandboxes", nil, "X-Api-Key: "+oneKey); a.status != 401 {
		t.Errorf("a file that cannot be read: %d", a.status)
	}
}

// TestOpenToken: a file has one token, and what is wrong with it is said.
func TestOpenToken(t *testing.T) {
	if _, err := OpenToken(keysFile(t, "two lines of\ntokens-of-some-length\n", 0o600)); err == nil {
		t.Error("two lines are a token")
	}
	if token, err := OpenToken(keysFile(t, oneKey+"\n", 0o600)); err != nil || token != oneKey {
		t.Errorf("%q %v", token, err)
	}
}

// TestWithoutKeys: this machine's programs are let in, and no browser.
func TestWithoutKeys(t *testing.T) {
	r := newRig(t, nil)
	for _, c := range []struct {
		header string
		want   int
	}{
		{"Host: 127.0.0.1:3000", 200}, {"Host: localhost", 200}, {"Host: LOCALHOST.:1", 200}, {"Host: [::1]:3000", 200}, {"Host: evil.example", 403}, {"Host: 127.0.0.1.evil.example", 403}, {"Host: 10.0.0.1", 403},
		{"Origin: http://127.0.0.1:3000", 403}, {"Origin: null", 403}, {"Sec-Fetch-Site: cross-site", 403},
	} {
		a := r.call("GET", "/v2/sandboxes", nil, c.header)
		if a.status != c.want {
			t.Errorf("%s: %d %s", c.header, a.status, a.body)
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: another page may read the answer", c.header)
		}
	}
	if a := r.call("OPTIONS", "/v2/sandboxes", nil); a.status < 400 {
		t.Errorf("OPTIONS: %d", a.status)
	}
}

// TestFirstToken: no web page gives a sandbox its first token. It could sign addresses with it, and a browser sends what is signed unasked.
func TestFirstToken(t *testing.T) {
	for _, remote := range []bool{false, true} {
		r := newRig(t, func(o *Options) {
			o.Root, o.Live, o.Remote = "", &fake{id: "pod", dir: t.TempDir(), done: make(chan struct{})}, remote
		})
		body := `{"accessToken":"` + oneKey + `"}`
		refused := []string{"Origin: http://elsewhere.example", "Origin: null", "Sec-Fetch-Site: cross-site"}
		if !remote {
			refused = append(refused, "Host: elsewhere.example")
		}
		for _, header := range refused {
			if a := r.call("POST", "/init", body, "Content-Type: text/plain", header); a.status != 403 {
				t.Errorf("remote %v, %s: %d %s", remote, header, a.status, a.body)
			}
		}
		if a := r.call("POST", "/init", body); a.status != 204 {
			t.Errorf("remote %v: %d %s", remote, a.status, a.body)
		}
	}
}

// TestForeign: tokens, ids and names of others lead nowhere.
func TestForeign(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Domain = "box.example:3000" })
	a, b := r.create(map[string]any{}), r.create(map[string]any{})
	list := func(headers ...string) reply {
		return r.call("POST", "/process.Process/List", "{}", append(headers, "Content-Type: "+jsonType)...)
	}
	host := func(id string) string { return "Host: 49983-" + id + ".box.example:3000" }
	for _, c := range []struct {
		what    string
		headers []string
		want    int
	}{
		{"its own", []string{"E2b-Sandbox-Id: " + a.ID, "X-Access-Token: " + a.Token}, 200},
		{"its own by name", []string{host(a.ID), "X-Access-Token: " + a.Token}, 200},
		{"another's token", []string{"E2b-Sandbox-Id: " + a.ID, "X-Access-Token: " + b.Token}, 401},
		{"another's token by name", []string{host(b.ID), "X-Access-Token: " + a.Token}, 401},
		{"the header counts, not the name", []string{"E2b-Sandbox-Id: " + b.ID, host(a.ID), "X-Access-Token: " + a.Token}, 401},
		{"an id that there is not", []string{"E2b-Sandbox-Id: " + wire.NewID(), "X-Access-Token: " + a.Token}, 502},
		{"a path as an id", []string{"E2b-Sandbox-Id: ../" + a.ID, "X-Access-Token: " + a.Token}, 400},
		{"a port that is none", []string{"E2b-Sandbox-Id: " + a.ID, "E2b-Sandbox-Port: 0", "X-Access-Token: " + a.Token}, 400},
		{"a domain that is not ours", []string{"Host: 49983-" + a.ID + ".evil.example:3000", "X-Access-Token: " + a.Token}, 403},
		{"no sandbox", []string{"X-Access-Token: " + a.Token}, 404},
	} {
		if got := list(c.headers...); got.status != c.want {
			t.Errorf("%s: %d %s", c.what, got.status, got.body)
		}
	}
	for _, path := range []string{"/sandboxes/..", "/sandboxes/%2e%2e%2fsnapshots", "/sandboxes/" + strings.Repeat("a", 5000)} {
		if got := r.call("DELETE", path, nil); got.status < 400 {
			t.Errorf("%.40s: %d", path, got.status)
		}
	}
}

// TestSigned: addresses are signed with the token, for one path, one way and one user, and for a time.
func TestSigned(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.create(map[string]any{}), r.create(map[string]any{})
	if err := os.WriteFile(filepath.Join(a.home, "f"), []byte("signed"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := r.clock.Now().Unix()
	address := func(s signature, path string) string {
		u := "/files?path=" + path + "&signature=" + strings.ReplaceAll(strings.ReplaceAll(s.given, "+", "%2B"), "/", "%2F")
		if s.user != "" {
			u += "&username=" + s.user
		}
		if s.expires != 0 {
			u += fmt.Sprint("&signature_expiration=", s.expires)
		}
		return u
	}
	made := func(s signature, token string) signature {
		s.given = s.sign(token)
		return s
	}
	good := made(signature{path: "f", operation: "read"}, a.Token)
	if !strings.HasPrefix(good.given, "v1_") || strings.Contains(good.given, "=") {
		t.Errorf("%s", good.given)
	}
	for _, c := range []struct {
		what string
		sig  signature
		path string
		want int
	}{
		{"as it is", good, "f", 200},
		{"for a time", made(signature{path: "f", operation: "read", expires: now + 10}, a.Token), "f", 200},
		{"for a time that is over", made(signature{path: "f", operation: "read", expires: now}, a.Token), "f", 401},
		{"another path", good, "g", 401},
		{"the other way", made(signature{path: "f", operation: "write"}, a.Token), "f", 401},
		{"another user", made(signature{path: "f", operation: "read", user: "user"}, a.Token), "f", 200},
		{"root", made(signature{path: "f", operation: "read", user: "root"}, a.Token), "f", 403},
		{"a longer time than was signed", signature{path: "f", given: good.given, expires: now + 10}, "f", 401},
		{"no token", made(signature{path: "f", operation: "read"}, ""), "f", 401},
		{"another's token", made(signature{path: "f", operation: "read"}, b.Token), "f", 404}, // b has no such file
		{"nothing", signature{given: "v1_"}, "f", 401},
	} {
		if got := r.call("GET", address(c.sig, c.path), nil); got.status != c.want {
			t.Errorf("%s: %d %s", c.what, got.status, got.body)
		}
	}
	if got := r.call("GET", address(made(signature{path: "f", operation: "read"}, b.Token), "f"), nil, "E2b-Sandbox-Id: "+a.ID); got.status != 401 {
		t.Errorf("another's signature: %d", got.status)
	}
}

// TestTraffic: the ports of programs inside, by header and by name.
func TestTraffic(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inside := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s token=%q id=%q", r.Method, r.URL, r.Header.Get("X-Access-Token"), r.Header.Get("E2b-Sandbox-Id"))
	})}
	go func() { _ = inside.Serve(l) }()
	t.Cleanup(func() { _ = inside.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	r := newRig(t, func(o *Options) { o.Domain = "box.example" })
	open, closed := r.create(map[string]any{}), r.create(map[string]any{"network": map[string]any{"allowPublicTraffic": false}})
	got := r.call("POST", "/a/b?c=d", "x", fmt.Sprintf("Host: %d-%s.box.example", port, open.ID), "X-Access-Token: secret")
	if string(got.body) != `POST /a/b?c=d token="" id=""` {
		t.Errorf("%d %s", got.status, got.body)
	}
	at := []string{"E2b-Sandbox-Id: " + closed.ID, fmt.Sprint("E2b-Sandbox-Port: ", port)}
	if got := r.call("GET", "/", nil, at...); got.status != 403 {
		t.Errorf("a port that is not public: %d %s", got.status, got.body)
	}
	m, _, _ := r.s.sandbox(closed.ID).look()
	if got := r.call("GET", "/", nil, append(at, "E2b-Traffic-Access-Token: "+m.Traffic)...); got.status != 200 {
		t.Errorf("with its token: %d %s", got.status, got.body)
	}
	if got := r.call("GET", "/", nil, "Host: 1-"+open.ID+".box.example"); got.status != 502 {
		t.Errorf("nobody there: %d %s", got.status, got.body)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(frame(0, "{}"))
	f.Add(frame(1, "{}"))
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			left := r.Len()
			m, err := readFrame(r)
			if err != nil {
				return
			}
			if len(m)+frameHead != left-r.Len() || len(m) > maxMessage {
				t.Fatalf("%d bytes of a message out of %d", len(m), left-r.Len())
			}
		}
	})
}

func FuzzSignature(f *testing.F) {
	f.Add("path=f&signature=v1_x", "token-of-some-length")
	f.Add("path=f&signature=v1_x&signature_expiration=12", "")
	f.Fuzz(func(t *testing.T, query, token string) {
		r, err := http.NewRequest(http.MethodGet, "http://localhost/files", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query
		s, err := signatureOf(r)
		if err != nil {
			return
		}
		if err := s.valid(token, time.Unix(0, 0)); err == nil && (token == "" || s.given != s.sign(token)) {
			t.Fatalf("%q is a signature", s.given)
		}
		s.given, s.expires = s.sign(token), 0
		s.given = s.sign(token)
		if err := s.valid(token, time.Unix(0, 0)); (err == nil) != (token != "") {
			t.Fatal(err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"process":{"cmd":"a","args":["b"],"envs":{"c":"d"}},"pty":{"size":{"cols":1,"rows":2}},"signal":"SIGNAL_SIGKILL"}`))
	f.Add([]byte(`{"templateID":"base","timeout":1,"autoResume":{"enabled":true},"network":{"rules":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, into := range []any{&startRequest{}, &processRequest{}, &inputEvent{}, &pathRequest{}, &watchRequest{}, &wire.NewSandbox{}} {
			_ = wire.Decode(b, into)
		}
	})
}
