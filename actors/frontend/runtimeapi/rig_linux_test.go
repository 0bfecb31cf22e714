package runtimeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/guest/inner"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestMain(m *testing.M) {
	if inner.Invoked(os.Args) {
		os.Exit(inner.Main(os.Args))
	}
	hostfs.ClearUmask()
	actortest.Main(m)
}

// rig is a server, and the session that it serves: a jail with the mediated bridge.
type rig struct {
	t     *testing.T
	live  *actors.Session
	work  string
	s     *Server
	url   string
	token atomic.Value // string
	stop  func()
}

// newRig serves at an address, such as 127.0.0.1:0.
func newRig(t *testing.T, address string, change func(*Options)) *rig {
	t.Helper()
	require.UserNamespaces(t)
	base, err := os.MkdirTemp("/var/cache", "runtimeapi-") // no jail has one of its own in its place
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	r := &rig{t: t, work: filepath.Join(base, "work")}
	if err := errors.Join(os.Chmod(base, 0o755), os.MkdirAll(filepath.Join(r.work, "project/src"), 0o755), os.WriteFile(filepath.Join(r.work, "project/src/main.txt"), []byte("hello\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := api.Config{
		Directories: []api.Directory{{Path: r.work, UndoDir: filepath.Join(base, "undo")}}, Umask: 0o022,
		Runtime: jail.New(jail.Options{Umask: 0o022}), Timing: api.Timing{QuiescenceIdle: time.Millisecond},
	}
	cfg.Bridge = hypervisor.BridgeMediated
	r.live, err = actors.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	r.token.Store("")
	beside, err := e2b.New(e2b.Options{Live: r.live, Environ: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Live: r.live, Environ: beside.Environ, History: beside.History(), Token: func() string { return r.token.Load().(string) }}
	if change != nil {
		change(&o)
	}
	if r.s, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := web.Listen(web.Listening{Address: address, Keys: true, Connections: MaxConnections})
	if err != nil {
		t.Fatal(err)
	}
	r.url = fmt.Sprintf("http://127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
	serving, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.s.Serve(serving, l) }()
	stopped := false
	r.stop = func() {
		end()
		if stopped {
			return
		}
		stopped = true
		if err := actortest.Within(t, "the server's end", ended); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// close ends the session.
func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.live.Close(ctx); err != nil {
		r.t.Error(err)
	}
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// message is that of an error.
func (a reply) message() string {
	var e struct{ Message string }
	if json.Unmarshal(a.body, &e) != nil {
		return ""
	}
	return e.Message
}

// send makes a request. Headers are "Name: value".
func (r *rig) send(method, path string, body io.Reader, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // as theirs
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, b}
}

// asJSON is the header of a command.
const asJSON = "Content-Type: application/json"

// run runs a command as clients do.
func (r *rig) run(command string) result {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		r.t.Fatal(err)
	}
	a := r.send("POST", "/execute", bytes.NewReader(body), asJSON)
	var res result
	if err := json.Unmarshal(a.body, &res); err != nil || a.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s", command, a.status, a.body)
	}
	return res
}

// escaped is a path as clients send it: nothing of it is left but letters, digits and -_.~, and two names that are more than names are escaped, too.
func escaped(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	switch b.String() {
	case ".", "..":
		return strings.ReplaceAll(b.String(), ".", "%2E")
	}
	return b.String()
}

func (r *rig) get(verb, name string) reply {
	r.t.Helper()
	return r.send("GET", "/"+verb+"/"+escaped(name), nil)
}

// put is an upload as Go's client sends it.
func (r *rig) put(name, content string) reply {
	r.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		r.t.Fatal(err)
	}
	return r.send("POST", "/upload", &b, "Content-Type: "+w.FormDataContentType())
}

// on is a file of the folder.
func (r *rig) on(name string) string {
	b, err := os.ReadFile(filepath.Join(r.work, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// steps is how many there are to undo.
func (r *rig) steps() int {
	r.t.Helper()
	h, err := r.live.History(r.t.Context(), api.HistoryRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(h)
}

func want(t *testing.T, what string, a reply, status int, message string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.message(), message) {
		t.Errorf("%s: %d %.300s, want %d %s", what, a.status, a.body, status, message)
	}
	if a.status >= 300 && a.message() == "" {
		t.Errorf("%s: no message: %q", what, a.body)
	}
}

// names are those of a listing.
func names(t *testing.T, a reply) (all []string) {
	t.Helper()
	var entries []entry
	if err := json.Unmarshal(a.body, &entries); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, e := range entries {
		all = append(all, e.Type+" "+path.Base(e.Name))
	}
	return all
}
