package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestLife: create, list, pause, connect, time, and the end, of which nothing is left.
func TestLife(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Templates = map[string]string{"tmpl": t.TempDir()} })
	if err := os.WriteFile(filepath.Join(r.s.o.Templates["tmpl"], "from"), []byte("the template"), 0o640); err != nil {
		t.Fatal(err)
	}
	sb := r.create(map[string]any{"templateID": "tmpl", "timeout": 60, "metadata": map[string]string{"k&": "v"}})
	if b, _ := os.ReadFile(filepath.Join(sb.home, "from")); string(b) != "the template" {
		t.Errorf("%q", b)
	}
	other := r.create(map[string]any{"timeout": 100, "autoPause": true})
	list := func(query string) (ids []string) {
		var all []wire.Detail
		r.call("GET", "/v2/sandboxes?"+query, nil).into(t, &all)
		for _, d := range all {
			ids = append(ids, d.SandboxID+" "+d.State)
		}
		return ids
	}
	if got := list("metadata=k%2526%3Dv&state=running"); len(got) != 1 || got[0] != sb.ID+" running" {
		t.Errorf("%q", got)
	}
	first, next := list("limit=1"), r.call("GET", "/v2/sandboxes?limit=1", nil).header.Get("X-Next-Token")
	if got := list("limit=1&nextToken=" + next); next == "" || len(first) != 1 || len(got) != 1 || got[0] == first[0] {
		t.Errorf("%q after %q", got, first)
	}
	path := "/sandboxes/" + sb.ID
	for _, want := range []int{204, 409} {
		if a := r.call("POST", path+"/pause", map[string]any{}); a.status != want {
			t.Errorf("pause: %d %s", a.status, a.body)
		}
	}
	if !sb.fake.closed.Load() {
		t.Error("the session of a sandbox that is paused runs")
	}
	if a := r.call("GET", "/health", nil, sb.headers()...); a.status != 502 {
		t.Errorf("the health of a sandbox that is paused: %d", a.status)
	}
	for _, want := range []int{201, 200} {
		if a := r.call("POST", "/v2"+path+"/connect", map[string]any{"timeout": 30}); a.status != want {
			t.Errorf("connect: %d %s", a.status, a.body)
		}
	}
	if a := r.call("GET", "/health", nil, sb.headers()...); a.status != 204 {
		t.Errorf("health: %d", a.status)
	}
	if a := r.call("POST", path+"/timeout", map[string]any{"timeout": 10}); a.status != 204 {
		t.Errorf("timeout: %d %s", a.status, a.body)
	}
	for _, body := range []string{`{}`, `{"timeout":-1}`, `{"timeout":99999999}`, `{"timeout":"x"}`} {
		if a := r.call("POST", path+"/timeout", body); a.status != 400 {
			t.Errorf("timeout %s: %d", body, a.status)
		}
	}
	r.clock.Advance(11 * time.Second)
	actortest.Eventually(t, "the end of its time", func() bool { return r.call("GET", path, nil).status == 404 })
	actortest.Eventually(t, "its directory", func() bool { _, err := os.Stat(filepath.Dir(sb.home)); return os.IsNotExist(err) })
	r.clock.Advance(100 * time.Second)
	actortest.Eventually(t, "the pause of the other", func() bool { got := list("state=paused"); return len(got) == 1 && got[0] == other.ID+" paused" })
	if a := r.call("DELETE", "/sandboxes/"+other.ID, nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.call("DELETE", "/sandboxes/"+other.ID, nil); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if left, _ := os.ReadDir(filepath.Join(r.root, sandboxesName)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSnapshots: made, used, listed, and removed.
func TestSnapshots(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(sb.home, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("then")
	var o snapshotObject
	a := r.call("POST", "/sandboxes/"+sb.ID+"/snapshots", map[string]any{"name": "point"})
	a.into(t, &o)
	if a.status != 201 || len(o.Names) != 1 || sb.fake.marks[0].Name != "snapshot-"+o.SnapshotID {
		t.Fatalf("%d %s %v", a.status, a.body, sb.fake.marks)
	}
	write("now")
	for _, name := range []string{o.SnapshotID, "point", "point:default"} {
		if b, _ := os.ReadFile(filepath.Join(r.create(map[string]any{"templateID": name}).home, "f")); string(b) != "then" {
			t.Errorf("%s: %q", name, b)
		}
	}
	sb.fake.mu.Lock()
	sb.fake.busy = true
	sb.fake.mu.Unlock()
	if a := r.call("POST", "/sandboxes/"+sb.ID+"/snapshots", nil); a.status != 409 {
		t.Errorf("while a command runs: %d %s", a.status, a.body)
	}
	contains(t, string(r.call("GET", "/snapshots?sandboxID="+sb.ID, nil).body), o.SnapshotID)
	for _, want := range []int{204, 404} {
		if a := r.call("DELETE", "/templates/"+o.SnapshotID, nil); a.status != want {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(r.root, snapshotsName)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	gone := filepath.Join(r.root, snapshotsName, o.SnapshotID, homeName)
	var p *wire.Problem
	if err := r.s.copyFolder(t.Context(), filepath.Join(t.TempDir(), homeName), gone); !errors.As(err, &p) || p.Status != 404 { // it was found, and removed then
		t.Errorf("%v", err)
	}
	if a := r.call("POST", "/v2/sandboxes", map[string]any{"templateID": "point"}); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestLeftOut: what is not there says so.
func TestLeftOut(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	for _, c := range []string{"POST /sandboxes/" + sb.ID + "/fork", "PUT /sandboxes/" + sb.ID + "/network", "GET /sandboxes/" + sb.ID + "/logs", "GET /volumes", "POST /secrets", "POST /v3/templates", "GET /teams", "GET /v2/templates/x/builds"} {
		method, path, _ := strings.Cut(c, " ")
		if a := r.call(method, path, "{}"); a.status != 501 {
			t.Errorf("%s: %d %s", c, a.status, a.body)
		}
	}
	for body, want := range map[string]int{
		`{"volumeMounts":[{"name":"a","path":"/b"}]}`: 501, `{"mcp":{}}`: 501, `{"network":{"denyOut":["1.1.1.1"]}}`: 501, `{"iam":{"tokens":{}}}`: 501,
		`{"templateID":"../x"}`: 400, `{"templateID":"none"}`: 404, `{"timeout":-5}`: 400, `{"envVars":{"=":"a"}}`: 400, `{`: 400,
	} {
		if got, _ := errorOf(t, r.call("POST", "/v2/sandboxes", body)); got != want {
			t.Errorf("%s: %d", body, got)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(r.root, sandboxesName)); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestResumed: a sandbox that a request has started again has an end, too: after the time that it was made with, and five minutes at least.
func TestResumed(t *testing.T) {
	for asked, lives := range map[int]time.Duration{60: 5 * time.Minute, 900: 15 * time.Minute} {
		r := newRig(t, nil)
		sb := r.create(map[string]any{"timeout": asked, "autoPause": true, "autoResume": map[string]any{"enabled": true}})
		state := func() string {
			var d wire.Detail
			r.call("GET", "/sandboxes/"+sb.ID, nil).into(t, &d)
			return d.State
		}
		paused := func() bool { return state() == wire.StatePaused }
		r.clock.Advance(time.Duration(asked) * time.Second)
		actortest.Eventually(t, "the end of its time", paused)
		if a := r.call("GET", "/envs", nil, sb.headers()...); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		r.clock.Advance(lives - time.Second)
		if paused() {
			t.Errorf("of %d s: paused before its time", asked)
		}
		r.clock.Advance(time.Second)
		actortest.Eventually(t, "the end of its time again", paused)
	}
}

// TestMoreTime: who gives a sandbox more time while something else has its turn, as a copy that takes long, has it, although its time ends meanwhile.
func TestMoreTime(t *testing.T) {
	r := newRig(t, nil)
	for _, pauses := range []bool{false, true} {
		made := r.create(map[string]any{"timeout": 60, "autoPause": pauses})
		sb := r.s.sandbox(made.ID)
		back, err := sb.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sb.mu.Lock()
		round := sb.round
		sb.mu.Unlock()
		over := make(chan struct{})
		go func() {
			defer close(over)
			sb.expire(round) // its time has ended
		}()
		if a := r.call("POST", "/sandboxes/"+made.ID+"/timeout", map[string]any{"timeout": 60}); a.status != 204 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		back()
		<-over
		if a := r.call("GET", "/health", nil, made.headers()...); a.status != 204 {
			t.Errorf("autoPause %v: %d %s", pauses, a.status, a.body)
		}
	}
}

// TestPausedHasNoEnd: whoever asks for more time for a sandbox that is paused, or that is paused before its new time has begun, sets no timer, which would end
// it with all that is in it.
func TestPausedHasNoEnd(t *testing.T) {
	r := newRig(t, nil)
	before := r.clock.Timers()
	path := "/sandboxes/" + r.create(map[string]any{"timeout": 60}).ID
	if a := r.call("POST", path+"/pause", nil); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, ask := range []struct{ path, body string }{{"/timeout", `{"timeout":1}`}, {"/refreshes", `{"duration":1}`}} {
		if a := r.call("POST", path+ask.path, ask.body); a.status != 409 {
			t.Errorf("%s: %d %s", ask.path, a.status, a.body)
		}
	}
	r.s.sandbox(path[len("/sandboxes/"):]).arm() // as one who has asked just before the pause
	if n := r.clock.Timers(); n != before {
		t.Errorf("%d timers, and %d before", n, before)
	}
}

// TestPauseKept: a sandbox is not paused unless that can be written down. A server that takes it up would end it with its time.
func TestPauseKept(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	inTheWay := filepath.Join(filepath.Dir(sb.home), fileName+".new")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if a := r.call("POST", "/sandboxes/"+sb.ID+"/pause", nil); a.status != 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.call("GET", "/health", nil, sb.headers()...); a.status != 204 {
		t.Errorf("it is paused: %d", a.status)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if a := r.call("POST", "/sandboxes/"+sb.ID+"/pause", nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestTakenUp: a server that begins takes up what another has left, and one root has one server.
func TestTakenUp(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{"autoResume": map[string]any{"enabled": true}, "autoPause": true})
	if err := os.WriteFile(filepath.Join(sb.home, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Root: r.root, Start: r.start}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Fatalf("a second server: %v", err)
	}
	r.s.drain(t.Context())
	if _, err := New(Options{Root: r.root, Start: r.start}); err == nil {
		t.Error("a second server took the root while requests of the first were under way")
	}
	r.s.unlock()
	cut := filepath.Join(r.root, sandboxesName, wire.NewID()) // a server was killed while it made it
	if err := os.MkdirAll(filepath.Join(cut, homeName), 0o700); err != nil {
		t.Fatal(err)
	}
	var forgotten []string
	again := newRig(t, func(o *Options) {
		o.Root = r.root
		o.Forget = func(_ context.Context, folder, undoDir string) error {
			_, err := os.Stat(folder) // it says what is its own
			forgotten = append(forgotten, folder+" "+undoDir)
			return err
		}
	})
	if want := filepath.Join(cut, homeName) + " "; len(forgotten) != 1 || forgotten[0] != want {
		t.Errorf("forgotten: %q, want %q", forgotten, want)
	}
	if _, err := os.Stat(cut); !os.IsNotExist(err) {
		t.Errorf("half a sandbox is still there: %v", err)
	}
	a := again.call("GET", "/sandboxes/"+sb.ID, nil)
	contains(t, string(a.body), `"state":"paused"`)
	if a := again.call("GET", "/files?path=kept", nil, sb.headers()...); a.status != 200 { // it resumes by itself
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestPod: one session, and a token that comes with the first request.
func TestPod(t *testing.T) {
	f := &fake{id: "pod", dir: t.TempDir(), done: make(chan struct{})}
	r := newRig(t, func(o *Options) { o.Root, o.Live, o.Remote = "", f, true })
	list := func(token string) int {
		return r.call("POST", "/process.Process/List", "{}", "Content-Type: "+jsonType, "X-Access-Token: "+token).status
	}
	if got := list(""); got != 401 {
		t.Errorf("before there is a token: %d", got)
	}
	for _, path := range []string{"/health", "/ready"} {
		if a := r.call("GET", path, nil); a.status != 204 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	for _, c := range []struct {
		body string
		want int
	}{
		{`{}`, 401}, {`{"accessToken":"short"}`, 400}, {`{"accessToken":"` + oneKey + `","envVars":{"A":"b"}}`, 204}, {`{"accessToken":"` + otherKey + `"}`, 401}, {`{"accessToken":"` + oneKey + `"}`, 204}, {`{}`, 401},
	} {
		if a := r.call("POST", "/init", c.body); a.status != c.want {
			t.Errorf("%s: %d %s", c.body, a.status, a.body)
		}
	}
	if list(oneKey) != 200 || list(otherKey) != 401 || list("") != 401 {
		t.Error("the token does not count")
	}
	contains(t, string(r.call("GET", "/envs", nil, "X-Access-Token: "+oneKey).body), `"A":"b"`)
	if a := r.call("POST", "/sandboxes/any/undo", nil, "X-Access-Token: "+oneKey); a.status != 200 {
		t.Errorf("undo: %d %s", a.status, a.body)
	}
	if a := r.call("POST", "/sandboxes/any/undo", nil); a.status != 401 {
		t.Errorf("undo without the token: %d", a.status)
	}
	if a := r.call("GET", "/sandboxes/any/metrics", nil); a.status != 401 {
		t.Errorf("metrics without the token: %d", a.status)
	}
	var measured []metric
	r.call("GET", "/sandboxes/any/metrics", nil, "X-Access-Token: "+oneKey).into(t, &measured)
	if len(measured) != 1 || measured[0].MemTotal <= 0 || measured[0].DiskTotal <= 0 {
		t.Errorf("metrics: %+v", measured)
	}
	if a := r.call("POST", "/v2/sandboxes", "{}", "X-Access-Token: "+oneKey); a.status != 404 {
		t.Errorf("the REST API: %d", a.status)
	}
	r.s.drain(t.Context())
	if a := r.call("GET", "/ready", nil); a.status != 503 || !f.closed.Load() {
		t.Errorf("ready while it ends: %d", a.status)
	}
	if a := r.call("POST", "/init", `{"accessToken":"`+oneKey+`"}`); a.status != 503 {
		t.Errorf("init while it ends: %d", a.status)
	}
}

// TestKept: the variables that POST /init gives are there for the next server of the same folder, once it is given the same token; for no other.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	serve := func(token string) (r *rig, envs func() string) {
		t.Helper()
		r = newRig(t, func(o *Options) {
			o.Root, o.Live, o.Remote, o.Kept, o.Token = "", &fake{id: "pod", dir: t.TempDir(), done: make(chan struct{})}, true, dir, token
		})
		return r, func() string { return string(r.call("GET", "/envs", nil, "X-Access-Token: "+oneKey).body) }
	}
	give := func(r *rig, body string, want int) {
		t.Helper()
		if a := r.call("POST", "/init", body, "X-Access-Token: "+oneKey); a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	r, envs := serve("")
	give(r, `{"accessToken":"`+oneKey+`","envVars":{"A":"secret","B":"1"}}`, 204)
	give(r, `{"envVars":{"B":"2"}}`, 204)
	give(r, `{"envVars":{"L":"`+strings.Repeat("x", 100<<10)+`","M":"`+strings.Repeat("x", 100<<10)+`"}}`, 413)
	if got := envs(); got != `{"A":"secret","B":"2"}` {
		t.Errorf("%s", got)
	}
	if st, err := os.Stat(filepath.Join(dir, keptName)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, keptName)); err != nil || bytes.Contains(b, []byte(oneKey)) {
		t.Errorf("%s, %v", b, err)
	}
	r, envs = serve("")
	give(r, `{}`, 401)
	give(r, `{"accessToken":"`+oneKey+`","envVars":{"B":"3"}}`, 204)
	if got := envs(); got != `{"A":"secret","B":"3"}` {
		t.Errorf("after a restart: %s", got)
	}
	if _, envs = serve(oneKey); envs() != `{"A":"secret","B":"3"}` {
		t.Errorf("with the token from a file: %s", envs())
	}
	r, _ = serve("")
	give(r, `{"accessToken":"`+otherKey+`"}`, 204)
	if got := string(r.call("GET", "/envs", nil, "X-Access-Token: "+otherKey).body); got != `{}` {
		t.Errorf("somebody else got %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, keptName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, envs = serve(oneKey); envs() != `{}` {
		t.Errorf("of a file that is broken: %s", envs())
	}
}

// TestManyConnections: a thousand that say nothing are in nobody's way, and leave no actor behind.
func TestManyConnections(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	var idle []net.Conn
	for range 1000 {
		c, err := net.Dial("tcp", r.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
		_, _ = io.WriteString(c, "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Le") // a slow one
	}
	if a := sb.rpc("process.Process/List", map[string]any{}); a.status != 200 {
		t.Errorf("%d", a.status)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	r.http.Client().CloseIdleConnections()
	actortest.Eventually(t, "the end of the connections", func() bool { return r.s.clients.Len() == 0 })
	for _, a := range sb.fake.attached {
		if !a.detached.Load() || a.told == 0 {
			t.Error("a connection has gone, and its actor is there")
		}
	}
}

// TestVanished: a client that vanishes in the middle of an upload changes nothing, and one that vanishes from a command leaves it running.
func TestVanished(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	if err := os.WriteFile(filepath.Join(sb.home, "f"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	head := func(path, kind string, length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: %s\r\nX-Access-Token: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, sb.ID, sb.Token, kind, length)
	}
	c, err := net.Dial("tcp", r.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, head("/files?path=f", "application/octet-stream", 1000)+"half")
	_ = c.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(c)
	contains(t, string(answer), "400 Bad Request")
	if b, _ := os.ReadFile(filepath.Join(sb.home, "f")); string(b) != "old" {
		t.Errorf("%q", b)
	}
	message := frame(0, `{"process":{"cmd":"sleep","args":["1000"]}}`)
	c, err = net.Dial("tcp", r.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, head("/process.Process/Start", streamType, len(message))+string(message))
	buf := make([]byte, 4096)
	for got := ""; !strings.Contains(got, `"start"`); {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += string(buf[:n])
	}
	_ = c.Close()
	var l struct{ Processes []processInfo }
	sb.rpc("process.Process/List", map[string]any{}).into(t, &l)
	if len(l.Processes) != 1 {
		t.Fatalf("%+v", l)
	}
	_ = sb.fake.commands[0].cmd.Process.Kill()
}

// TestAtOnce: lifecycle calls of one sandbox come one after the other, whoever asks.
func TestAtOnce(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			switch i % 3 {
			case 0:
				r.call("POST", "/sandboxes/"+sb.ID+"/pause", map[string]any{})
			case 1:
				r.call("POST", "/v2/sandboxes/"+sb.ID+"/connect", map[string]any{})
			default:
				r.call("POST", "/sandboxes/"+sb.ID+"/snapshots", map[string]any{})
			}
		})
	}
	all.Wait()
	if a := r.call("DELETE", "/sandboxes/"+sb.ID, nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for i, f := range r.fakes {
		if !f.closed.Load() {
			t.Errorf("session %d is still there", i)
		}
	}
}

// TestMetadataFile: the file has the token, and nobody else may read it.
func TestMetadataFile(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(map[string]any{})
	b, err := os.ReadFile(filepath.Join(filepath.Dir(sb.home), fileName))
	if err != nil {
		t.Fatal(err)
	}
	var m metadata
	if err := json.Unmarshal(bytes.TrimSpace(b), &m); err != nil || m.Token != sb.Token {
		t.Errorf("%v %s", err, b)
	}
	st, err := os.Stat(filepath.Join(filepath.Dir(sb.home), fileName))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
}

// TestMetrics: how much of the processors a sandbox takes is told from look to look; a sandbox that does not run takes nothing.
func TestMetrics(t *testing.T) {
	r := newRig(t, nil)
	sb, other := r.create(map[string]any{}), r.create(map[string]any{})
	all := time.Duration(runtime.NumCPU())
	for _, c := range []struct {
		passed, had time.Duration
		want        float64
	}{
		{10 * time.Second, 5 * all * time.Second, 50},  // since its start
		{20 * time.Second, 10 * all * time.Second, 25}, // since the last look
		{time.Millisecond, 11 * all * time.Second, 25}, // too soon
		{time.Second, 11 * all * time.Second, 100},
		{4 * time.Second, 0, 0}, // its runtime has started afresh
		{4 * time.Second, all * time.Second, 25},
	} {
		r.clock.Advance(c.passed)
		sb.fake.spent.Store(int64(c.had))
		var list []metric
		r.call("GET", "/sandboxes/"+sb.ID+"/metrics", nil).into(t, &list)
		var inner struct {
			Used float64 `json:"cpu_used_pct"`
		}
		r.call("GET", "/metrics", nil, sb.headers()...).into(t, &inner) // at the same time, and so the same
		if len(list) != 1 || math.Abs(list[0].CPUUsedPct-c.want) > 0.1 || inner.Used != list[0].CPUUsedPct || list[0].CPUCount != runtime.NumCPU() || list[0].MemTotal <= 0 || !list[0].Timestamp.Equal(r.clock.Now()) {
			t.Errorf("%+v: %+v, %v", c, list, inner.Used)
		}
	}
	if a := r.call("POST", "/sandboxes/"+other.ID+"/pause", map[string]any{}); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	other.fake.spent.Store(int64(time.Hour))
	var both struct{ Sandboxes map[string]metric }
	r.call("GET", "/sandboxes/metrics?sandbox_ids="+sb.ID+","+other.ID+",x", nil).into(t, &both)
	if len(both.Sandboxes) != 2 || both.Sandboxes[other.ID].CPUUsedPct != 0 || both.Sandboxes[sb.ID].CPUUsedPct < 20 {
		t.Errorf("%+v", both)
	}
}

// TestRootIsOursToTheEnd: a server that ends keeps its root until no request is under way, although their clients were sent away: one may make a
// sandbox, which the next server would remove as half of one.
func TestRootIsOursToTheEnd(t *testing.T) {
	starts, goOn := make(chan struct{}), make(chan struct{})
	root := t.TempDir()
	var f *fake
	s, err := New(Options{Root: root, Clock: actortest.NewFakeClock(), Start: func(_ context.Context, q StartRequest) (api.Live, error) {
		f = &fake{id: "slow", dir: q.Folder, done: make(chan struct{})}
		close(starts)
		<-goOn
		return f, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.grace = time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served, sentAway := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	go func() {
		a, err := http.Post("http://"+l.Addr().String()+"/sandboxes", jsonType, strings.NewReader(`{"templateID":"base"}`))
		if err == nil {
			err = errors.Join(fmt.Errorf("status %d", a.StatusCode), a.Body.Close())
		}
		sentAway <- err
	}()
	actortest.Within(t, "the start", starts)
	end()
	if err := actortest.Within(t, "the end of the connection", sentAway); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	for range 3 {
		if _, err := New(Options{Root: root, Start: s.o.Start}); err == nil || !strings.Contains(err.Error(), "another server") {
			t.Fatalf("a second server: %v", err)
		}
	}
	close(goOn)
	if err := actortest.Within(t, "the server's end", served); err != nil || !f.closed.Load() {
		t.Errorf("%v; closed: %v", err, f.closed.Load())
	}
	again, err := New(Options{Root: root, Start: s.o.Start})
	if err != nil {
		t.Fatal(err)
	}
	again.unlock()
}
