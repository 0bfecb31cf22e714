package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kubetest"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyA, keyB = "aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb"
	secret     = "0123456789abcdef0123456789abcdef"
	podIP      = "10.0.0.1"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pod is one that answers as ours do.
type pod struct {
	http *httptest.Server

	mu     sync.Mutex
	token  string
	envs   map[string]string
	inits  int
	asked  []*http.Request
	bodies []string
	// answers, if it is set, answers in its place.
	answers http.HandlerFunc
}

func newPod(t *testing.T) *pod {
	p := &pod{}
	p.http = httptest.NewServer(p)
	t.Cleanup(p.http.Close)
	return p
}

func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.answers != nil {
		answers := p.answers
		p.mu.Unlock()
		answers(w, r)
		return
	}
	defer p.mu.Unlock()
	if r.URL.Path == "/init" {
		var m struct {
			AccessToken string            `json:"accessToken"`
			EnvVars     map[string]string `json:"envVars"`
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if p.token != "" && p.token != m.AccessToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		p.token, p.envs = m.AccessToken, m.EnvVars
		p.inits++
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.URL.Path == "/health" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b, _ := io.ReadAll(r.Body)
	p.asked, p.bodies = append(p.asked, r), append(p.bodies, string(b))
	if p.token == "" || r.Header.Get("X-Access-Token") != p.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s:%s", r.Method, r.Header.Get("E2b-Sandbox-Port"), r.URL.Path)
}

// newest is the last request that the pod got.
func (p *pod) newest() (*http.Request, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[len(p.asked)-1], p.bodies[len(p.bodies)-1]
}

func (p *pod) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// lab is a gateway with a cluster of its own.
type lab struct {
	*testing.T
	s     *kubetest.Server
	clock *actortest.FakeClock
	pod   *pod
	g     *Gateway
	url   string
	stop  func()
	// claimed hears of each claim that the gateway knows it has.
	claimed chan struct{}
}

// hears is a log that tells of claims.
type hears struct {
	slog.Handler
	claimed chan struct{}
}

func (hears) Enabled(context.Context, slog.Level) bool { return true }
func (h hears) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h hears) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "sandbox claimed" {
		h.claimed <- struct{}{}
	}
	return nil
}

func newLab(t *testing.T, change func(*lab, *Options)) *lab {
	l := &lab{T: t, s: kubetest.New(t), clock: actortest.NewFakeClock(), pod: newPod(t), claimed: make(chan struct{}, 100)}
	l.s.OnCreate = func(c kube.Claim) {
		l.pod.set(func() { l.pod.token = "" }) // it is another one
		l.s.Ready(c, podIP)
	}
	l.s.OnMode = func(namespace, sandbox, mode string) {
		id := strings.TrimPrefix(sandbox, "warm-")
		if mode == kube.ModeSuspended {
			l.s.SandboxSays(namespace, sandbox, kube.Condition{Type: "Suspended", Status: "True", Reason: "PodTerminated"})
			l.s.NotReady(namespace, id, reasonSuspended, "it is suspended")
			l.pod.set(func() { l.pod.token = "" })
			return
		}
		c, _ := l.s.Claim(namespace, id)
		l.s.Ready(c, podIP)
	}
	file := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(file, []byte(keyA+" team-a\n"+keyB+" team-b\n"), 0o600))
	keys, err := web.OpenKeys(file, nil)
	must(t, err)
	client, err := kube.New(kube.Config{Server: l.s.URL, Clock: l.clock})
	must(t, err)
	o := Options{
		Kube: client, Keys: keys, Secret: []byte(secret), Domain: "boxes.test", Clock: l.clock, Ready: time.Minute, Logger: slog.New(hears{slog.DiscardHandler, l.claimed}),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != net.JoinHostPort(podIP, "49983") {
				return nil, fmt.Errorf("nobody is at %s", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, l.pod.http.Listener.Addr().String())
		},
	}
	if change != nil {
		change(l, &o)
	}
	l.g, err = New(o)
	must(t, err)
	listener, err := web.Listen(web.Listening{Address: "127.0.0.1:0"})
	must(t, err)
	l.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.g.Serve(ctx, listener) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		must(t, actortest.Within(t, "the gateway's end", ended))
		l.g.Close()
		client.Close()
	})
	t.Cleanup(l.stop)
	return l
}

// answered is what a request got.
type answered struct {
	status int
	header http.Header
	text   string
}

func (a answered) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.text), v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.text, err)
	}
}

// send sends a request. Names of headers and their values follow in turn; "Host" is the host's name.
func (l *lab) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
}

func (l *lab) ask(method, path, body string, headers ...string) answered {
	l.Helper()
	a, err := l.send(l.Context(), method, path, body, headers...)
	must(l.T, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	must(l.T, err)
	return answered{a.StatusCode, a.Header, string(b)}
}

// api asks the REST API as a tenant.
func (l *lab) api(key, method, path, body string) answered {
	l.Helper()
	return l.ask(method, path, body, "X-API-Key", key)
}

// longestPause is how long nobody waits before something is tried again.
const longestPause = 16 * time.Second

// waits asks, and has pauses pass, but no time in which something is under way.
func (l *lab) waits(key, method, path, body string) answered {
	l.Helper()
	return l.passing(longestPause, l.asks(key, method, path, body))
}

// outwaits asks for a sandbox, and has the time pass in which it must be ready once there is a claim.
func (l *lab) outwaits(key, method, path, body string) answered {
	l.Helper()
	ch := l.asks(key, method, path, body)
	actortest.Within(l.T, "the claim", l.claimed)
	l.clock.Advance(time.Minute)
	return l.passing(longestPause, ch)
}

func (l *lab) asks(key, method, path, body string) chan answered {
	ch := make(chan answered, 1)
	go func() { ch <- l.api(key, method, path, body) }()
	return ch
}

// passing has the time pass until the next timer, if that is not later than most, until there is an answer.
func (l *lab) passing(most time.Duration, ch chan answered) (a answered) {
	l.Helper()
	actortest.Eventually(l.T, "an answer", func() bool {
		select {
		case a = <-ch:
			return true
		default:
		}
		if d, ok := l.clock.Next(); ok && d <= most {
			l.clock.Advance(d)
		}
		return false
	})
	return a
}

func (l *lab) create(key, body string) wire.Sandbox {
	l.Helper()
	a := l.api(key, "POST", "/v2/sandboxes", body)
	if a.status != http.StatusCreated {
		l.Fatalf("create: %d %s", a.status, a.text)
	}
	var o wire.Sandbox
	a.into(l.T, &o)
	return o
}

// suspended tells whether a sandbox of the first tenant's is to have no pod.
func (l *lab) suspended(o wire.Sandbox) bool {
	l.Helper()
	box, ok := l.s.Sandbox("team-a", "warm-"+o.SandboxID)
	if !ok {
		l.Errorf("%s has no Sandbox", o.SandboxID)
	}
	return box.Suspended()
}

// expect complains about another status, or another text.
func (l *lab) expect(what string, a answered, status int, says string) {
	l.Helper()
	if a.status != status || !strings.Contains(a.text, says) {
		l.Errorf("%s: %d %s", what, a.status, a.text)
	}
	if status >= 400 {
		var e struct {
			Code    int
			Message string
		}
		if json.Unmarshal([]byte(a.text), &e) != nil || e.Code != status || e.Message == "" {
			l.Errorf("%s: no error in E2B's form: %s", what, a.text)
		}
	}
}

// TestStarting: a server that has just started refuses everything, which says nothing.
func TestStarting(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	l.s.Starting(true)
	timeout := func() chan answered {
		return l.asks(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":60}`)
	}
	asked := timeout()
	actortest.Eventually(t, "a look whether it is ready", func() bool {
		requests, _ := l.s.Requests()
		return slices.Contains(requests, "GET /readyz")
	})
	l.s.Starting(false)
	l.expect("timeout", l.passing(longestPause, asked), 204, "")
	l.s.Starting(true)
	l.expect("for ever", l.passing(longestPause, timeout()), 403, "the cluster refuses it")
}

// TestCreate: a sandbox is a claim, and its pod has its token and variables.
func TestCreate(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, `{"templateID":"python","timeout":600,"metadata":{"user":"u1"},"envVars":{"A":"1"},"secure":true}`)
	if !wire.IsID(o.SandboxID) || o.TemplateID != "python" || o.EnvdVersion != wire.EnvdVersion || len(o.EnvdAccessToken) != 64 || o.Domain == nil || *o.Domain != "boxes.test" || o.TrafficAccessToken != nil {
		t.Errorf("%+v", o)
	}
	c, ok := l.s.Claim("team-a", o.SandboxID)
	if !ok || c.Spec.WarmPoolRef.Name != "python" || c.Spec.Lifecycle.ShutdownPolicy != "Delete" || !c.Expires().Equal(l.clock.Now().Add(10*time.Minute)) || c.Metadata.Annotations[metadataNote] != `{"user":"u1"}` {
		t.Errorf("%+v", c)
	}
	if l.pod.token != o.EnvdAccessToken || l.pod.envs["A"] != "1" || l.pod.inits != 1 {
		t.Errorf("%+v", l.pod)
	}
	var d wire.Detail
	a := l.api(keyA, "GET", "/sandboxes/"+o.SandboxID, "")
	a.into(t, &d)
	if a.status != 200 || d.State != wire.StateRunning || d.Metadata["user"] != "u1" || d.EnvdAccessToken != o.EnvdAccessToken || !d.EndAt.Equal(c.Expires()) || d.StartedAt.IsZero() {
		t.Errorf("%d %+v", a.status, d)
	}
	l.expect("timeout", l.api(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":60}`), 204, "")
	if c, _ := l.s.Claim("team-a", o.SandboxID); !c.Expires().Equal(l.clock.Now().Add(time.Minute)) || c.Spec.Lifecycle.ShutdownPolicy != "Delete" {
		t.Errorf("%+v", c.Spec.Lifecycle)
	}
	l.expect("kill", l.api(keyA, "DELETE", "/sandboxes/"+o.SandboxID, ""), 204, "")
	if names := l.s.Claims("team-a"); len(names) > 0 {
		t.Errorf("%q", names)
	}
	l.expect("kill again", l.api(keyA, "DELETE", "/sandboxes/"+o.SandboxID, ""), 404, "not found")
}

// TestAtOnce: who has changed or killed a sandbox finds that done, whatever the watch has told yet, and when it tells of it, too.
func TestAtOnce(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	kept := l.create(keyA, "{}")
	path := "/sandboxes/" + o.SandboxID
	l.s.WaitWatched("team-a")
	l.s.Late(true)
	ended := func() (end time.Time) {
		var d struct{ EndAt time.Time }
		l.api(keyA, "GET", path, "").into(t, &d)
		return d.EndAt
	}
	l.s.Status("team-a", o.SandboxID, func(*kube.ClaimStatus) {}) // by somebody else, before
	l.expect("timeout", l.api(keyA, "POST", path+"/timeout", `{"timeout":1234}`), 204, "")
	if want := l.clock.Now().Add(1234 * time.Second); !ended().Equal(want) {
		t.Errorf("it ends at %v, not at %v", ended(), want)
	}
	l.s.Status("team-a", o.SandboxID, func(*kube.ClaimStatus) {})
	l.expect("kill", l.api(keyA, "DELETE", path, ""), 204, "")
	gone := func() {
		t.Helper()
		l.expect("what was killed", l.api(keyA, "GET", path, ""), 404, "not found")
		l.expect("its commands", l.ask("GET", "/health", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken), 502, "not found")
		if a := l.api(keyA, "GET", "/v2/sandboxes", ""); strings.Contains(a.text, o.SandboxID) || !strings.Contains(a.text, kept.SandboxID) {
			t.Errorf("the list: %s", a.text)
		}
	}
	gone()
	l.s.Late(false)
	l.expect("kill", l.api(keyA, "DELETE", "/sandboxes/"+kept.SandboxID, ""), 204, "")
	p := l.create(keyA, "{}") // which the watch tells of after all that
	a := l.api(keyA, "GET", "/v2/sandboxes", "")
	if !strings.Contains(a.text, p.SandboxID) || strings.Contains(a.text, o.SandboxID) || strings.Contains(a.text, kept.SandboxID) {
		t.Errorf("the list: %s", a.text)
	}
}

// TestOtherReplica: a replica that has not heard yet that a sandbox has a pod now asks, for who knows the sandbox's token.
func TestOtherReplica(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	var was kube.ClaimStatus
	l.s.Status("team-a", o.SandboxID, func(s *kube.ClaimStatus) { was, *s = *s, kube.ClaimStatus{} })
	ask := func(token string) answered {
		return l.ask("GET", "/health", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", token)
	}
	actortest.Eventually(t, "the pod's end", func() bool { return ask("").status == 502 })
	l.s.WaitWatched("team-a")
	l.s.Late(true)
	l.expect("without a pod", ask(o.EnvdAccessToken), 502, "no pod now")
	l.s.Status("team-a", o.SandboxID, func(s *kube.ClaimStatus) { *s = was })
	l.expect("without the token", ask(""), 502, "no pod now")
	l.expect("with the token", ask(o.EnvdAccessToken), 204, "")
	l.expect("from then on", ask(""), 204, "")
	l.s.Late(false)
}

// TestTenants: what is another tenant's does not exist.
func TestTenants(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, `{"templateID":"base"}`)
	id := o.SandboxID
	l.s.Put(kube.Claim{Metadata: kube.Metadata{Namespace: "team-a", Name: strings.Repeat("x", wire.IDLength)}}) // not ours
	for _, q := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"DELETE", "", ""}, {"POST", "/timeout", `{"timeout":1}`}, {"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/connect", ""}, {"POST", "/undo", "{}"}, {"GET", "/history", ""},
	} {
		l.expect("another's "+q.method+q.path, l.api(keyB, q.method, "/sandboxes/"+id+q.path, q.body), 404, "not found")
		l.expect("nobody's "+q.method+q.path, l.api(keyA, q.method, "/sandboxes/"+strings.Repeat("x", wire.IDLength)+q.path, q.body), 404, "not found")
		l.expect("no id "+q.method+q.path, l.api(keyA, q.method, "/sandboxes/..%2Fteam-b"+q.path, q.body), 404, "not found")
		for _, key := range []string{"", keyA + "x"} {
			l.expect("no key", l.api(key, q.method, "/sandboxes/"+id+q.path, q.body), 401, "X-API-Key")
		}
	}
	if a := l.api(keyB, "GET", "/v2/sandboxes", ""); a.text != "[]" {
		t.Errorf("the list: %s", a.text)
	}
	if names := l.s.Claims("team-a"); len(names) != 2 {
		t.Errorf("%q", names)
	}
	// A token that was made in another namespace is none.
	for _, token := range []string{"", "x", l.g.token(forEnvd, "team-b", id), l.g.token(forTraffic, "team-a", id), l.g.token(forEnvd, "team-a", wire.NewID())} {
		l.expect("token "+token, l.ask("POST", "/process.Process/List", "{}", "E2b-Sandbox-Id", id, "X-Access-Token", token), 401, "X-Access-Token")
	}
	if a := l.ask("POST", "/process.Process/List", "{}", "E2b-Sandbox-Id", id, "X-Access-Token", o.EnvdAccessToken); a.status != 200 {
		t.Errorf("its own: %d %s", a.status, a.text)
	}
}

// TestBadInput: what cannot be had is said, and nothing is made.
func TestBadInput(t *testing.T) {
	l := newLab(t, nil)
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{`:                                     {400, "the request"},
		`[]`:                                    {400, "the request"},
		`{"templateID":"../x"}`:                 {400, "templateID"},
		`{"templateID":"Base"}`:                 {400, "templateID"},
		`{"templateID":"b","timeout":-1}`:       {400, "timeout"},
		`{"templateID":"b","timeout":99999999}`: {400, "timeout"},
		`{"templateID":"b","envVars":{"A=B":"1"}}`:                                       {400, "envVars"},
		`{"templateID":"b","volumeMounts":[{}]}`:                                         {501, "volumeMounts"},
		`{"templateID":"b","mcp":{}}`:                                                    {501, "mcp"},
		`{"templateID":"b","iam":{}}`:                                                    {501, "iam"},
		`{"templateID":"b","allow_internet_access":false}`:                               {501, "NetworkPolicy"},
		`{"templateID":"b","network":{"allowOut":["x"]}}`:                                {501, "NetworkPolicy"},
		`{"templateID":"b","metadata":{"k":"` + strings.Repeat("v", maxMetadata) + `"}}`: {400, "metadata"},
		`{"templateID":"` + strings.Repeat("b", maxBody) + `"}`:                          {413, "more than"},
	} {
		l.expect(body[:min(len(body), 60)], l.api(keyA, "POST", "/v2/sandboxes", body), want.status, want.says)
	}
	for path, says := range map[string]string{"/volumes": "volumes", "/v3/templates": "SandboxWarmPools", "/sandboxes/x/fork": "forked", "/sandboxes/x/snapshots": "marks"} {
		l.expect(path, l.api(keyA, "POST", path, ""), 501, says)
	}
	l.expect("nothing", l.api(keyA, "GET", "/none", ""), 404, "no such request")
	l.expect("two sandboxes", l.ask("GET", "/", "", "E2b-Sandbox-Id", "x"), 400, "no id")
	l.expect("no port", l.ask("GET", "/", "", "E2b-Sandbox-Id", wire.NewID(), "E2b-Sandbox-Port", "0"), 400, "no port")
	l.expect("no sandbox", l.ask("GET", "/", "", "E2b-Sandbox-Id", wire.NewID()), 502, "not found")
	l.expect("no timeout", l.api(keyA, "POST", "/sandboxes/"+wire.NewID()+"/timeout", "{}"), 400, "missing")
	if names := l.s.Claims("team-a"); len(names) > 0 {
		t.Errorf("%q", names)
	}
}

// TestNeverReady: who waits in vain is told why, and nothing is left.
func TestNeverReady(t *testing.T) {
	for name, c := range map[string]struct {
		create func(l *lab, c kube.Claim)
		status int
		says   []string
		ask    func(*lab, string, string, string, string) answered
	}{
		"no pool": {func(l *lab, c kube.Claim) {
			l.s.NotReady("team-a", c.Metadata.Name, "WarmPoolNotFound", `SandboxWarmPool "none" not found`)
		}, 404, []string{"WarmPoolNotFound", "not found"}, (*lab).api},
		"no room": {func(l *lab, c kube.Claim) {
			l.s.NotReady("team-a", c.Metadata.Name, "DependenciesNotReady", "Pod is pending")
			l.s.AddEvent("team-a", "warm-"+c.Metadata.Name, kube.Event{Type: "Warning", Reason: "FailedScheduling", Message: "0/3 nodes", At: time.Unix(2, 0)}) // as the scheduler tells of it
			l.s.AddEvent("team-a", c.Metadata.Name, kube.Event{Type: "Warning", Reason: "Earlier", Message: "earlier", Last: time.Unix(1, 0)})
			l.s.AddEvent("team-a", c.Metadata.Name, kube.Event{Type: "Normal", Reason: "Later", Message: "later", Last: time.Unix(3, 0)})
		}, 504, []string{"1m0s", "DependenciesNotReady: Pod is pending", "FailedScheduling: 0/3 nodes"}, (*lab).outwaits},
		"no controller": {func(*lab, kube.Claim) {}, 504, []string{"nothing is said of it"}, (*lab).outwaits},
		"deleted":       {func(l *lab, c kube.Claim) { l.s.Delete("team-a", c.Metadata.Name) }, 409, []string{"deleted by somebody else"}, (*lab).api},
		"no address":    {func(l *lab, c kube.Claim) { l.s.Ready(c, "169.254.169.254") }, 504, []string{"not ready"}, (*lab).outwaits},
		"no pod there":  {func(l *lab, c kube.Claim) { l.s.Ready(c, "10.0.0.9") }, 504, []string{"does not answer"}, (*lab).waits},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			l.s.OnCreate = func(claim kube.Claim) { c.create(l, claim) }
			a := c.ask(l, keyA, "POST", "/v2/sandboxes", `{"templateID":"base"}`)
			for _, says := range c.says {
				l.expect(name, a, c.status, says)
			}
			if names := l.s.Claims("team-a"); len(names) > 0 {
				t.Errorf("%q are left", names)
			}
			if len(l.g.pending) != 0 {
				t.Error("it is waited for still")
			}
		})
	}
}

// TestLyingPod: a pod that says what it should not gets no sandbox made of it, and leads nowhere.
func TestLyingPod(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went elsewhere") }))
	defer elsewhere.Close()
	for name, answers := range map[string]http.HandlerFunc{
		"somebody's already": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"another program":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"leads away": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		l := newLab(t, nil)
		l.pod.answers = answers
		l.expect(name, l.api(keyA, "POST", "/v2/sandboxes", `{}`), 502, "does not take its token")
		if names := l.s.Claims("team-a"); len(names) > 0 {
			t.Errorf("%s: %q are left", name, names)
		}
	}
	l := newLab(t, nil)
	l.pod.answers = func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 10_000))
		}
	}
	l.expect("endless headers", l.waits(keyA, "POST", "/v2/sandboxes", `{}`), 504, "does not answer")

	// Once it has its token, what it says is its own client's business; it is not followed, and learns no key.
	l = newLab(t, nil)
	o := l.create(keyA, "{}")
	l.pod.set(func() {
		l.pod.answers = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Key") != "" {
				t.Error("it learns a key")
			}
			http.Redirect(w, r, elsewhere.URL, http.StatusMovedPermanently)
		}
	})
	r, err := http.NewRequest("GET", l.url+"/health", nil)
	must(t, err)
	r.Header.Set("E2b-Sandbox-Id", o.SandboxID)
	r.Header.Set("X-Api-Key", keyA)
	transport := &http.Transport{DisableKeepAlives: true}
	a, err := transport.RoundTrip(r)
	must(t, err)
	_ = a.Body.Close()
	if a.StatusCode != http.StatusMovedPermanently {
		t.Errorf("%d", a.StatusCode)
	}
}

// TestLostAnswers: what the API server has done although its answer was lost is not done twice.
func TestLostAnswers(t *testing.T) {
	l := newLab(t, nil)
	l.s.Lose("POST")
	a := l.waits(keyA, "POST", "/v2/sandboxes", `{"templateID":"base"}`)
	var o wire.Sandbox
	a.into(t, &o)
	if names := l.s.Claims("team-a"); a.status != 201 || !slices.Equal(names, []string{o.SandboxID}) {
		t.Errorf("%d %s, %q", a.status, a.text, names)
	}
	l.s.Lose("PATCH")
	l.expect("timeout", l.waits(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":60}`), 204, "")
	l.s.Conflict(3)
	l.expect("timeout beside others", l.waits(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":70}`), 204, "")
	if c, _ := l.s.Claim("team-a", o.SandboxID); c.Expires().Before(l.clock.Now().Add(-time.Minute)) {
		t.Errorf("%v", c.Expires())
	}
	l.s.Refuse("POST", http.StatusForbidden)
	l.expect("no quota", l.api(keyA, "POST", "/v2/sandboxes", `{"templateID":"base"}`), 403, "the test says so")
}

// TestOutage: while the API server is away sandboxes are reached, and what changes one waits for it, but not for ever.
func TestOutage(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	l.s.WaitWatched("team-a")
	l.s.Down(true)
	if a := l.ask("POST", "/process.Process/List", "{}", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken); a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
	l.expect("create", l.waits(keyA, "POST", "/v2/sandboxes", `{}`), 503, "does not answer")
	l.expect("timeout", l.waits(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":60}`), 503, "does not answer")
	before, _ := l.s.Requests()
	ch := l.asks(keyA, "POST", "/v2/sandboxes", `{"templateID":"late"}`)
	actortest.Eventually(t, "a try", func() bool {
		requests, _ := l.s.Requests()
		return slices.ContainsFunc(requests[len(before):], func(q string) bool { return strings.HasPrefix(q, "POST ") })
	})
	l.s.Down(false)
	a := l.passing(longestPause, ch)
	l.expect("create", a, 201, `"templateID":"late"`)
}

// TestDeletedByOthers: a sandbox that somebody deletes is gone, here as there.
func TestDeletedByOthers(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	l.s.Delete("team-a", o.SandboxID)
	actortest.Eventually(t, "its end", func() bool { return l.api(keyA, "GET", "/sandboxes/"+o.SandboxID, "").status == 404 })
	if a := l.ask("GET", "/health", "", "E2b-Sandbox-Id", o.SandboxID); a.status != 502 {
		t.Errorf("health: %d %s", a.status, a.text)
	}
	if a := l.ask("GET", "/files?path=x", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken); a.status != 502 {
		t.Errorf("files: %d %s", a.status, a.text)
	}
	l.expect("connect", l.api(keyA, "POST", "/v2/sandboxes/"+o.SandboxID+"/connect", "{}"), 404, "not found")
}

// TestPause: a paused sandbox has no pod and no end, and when somebody connects both again.
func TestPause(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, `{"timeout":300}`)
	path := "/sandboxes/" + o.SandboxID
	l.expect("pause", l.api(keyA, "POST", path+"/pause", "{}"), 204, "")
	if c, _ := l.s.Claim("team-a", o.SandboxID); !l.suspended(o) || !c.Expires().IsZero() {
		t.Errorf("%+v", c)
	}
	l.expect("pause again", l.api(keyA, "POST", path+"/pause", "{}"), 409, "paused already")
	l.expect("timeout", l.api(keyA, "POST", path+"/timeout", `{"timeout":1}`), 409, "paused")
	l.expect("its commands", l.ask("GET", "/files", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken), 502, "paused")
	if a := l.api(keyA, "GET", "/v2/sandboxes?state=paused", ""); !strings.Contains(a.text, o.SandboxID) || !strings.Contains(a.text, `"state":"paused"`) {
		t.Errorf("%s", a.text)
	}
	a := l.api(keyA, "POST", "/v2"+path+"/connect", `{"timeout":120}`)
	l.expect("connect", a, 201, o.EnvdAccessToken)
	c, _ := l.s.Claim("team-a", o.SandboxID)
	if l.suspended(o) || !c.Expires().Equal(l.clock.Now().Add(2*time.Minute)) || paused(c) || l.pod.inits != 2 {
		t.Errorf("%+v, %d inits", c, l.pod.inits)
	}
	l.expect("connect again", l.api(keyA, "POST", path+"/connect", `{"timeout":60}`), 200, o.SandboxID)
	if after, _ := l.s.Claim("team-a", o.SandboxID); !after.Expires().Equal(c.Expires()) {
		t.Errorf("a connect has shortened it: %v", after.Expires())
	}
	// A pause that got half of the way, and one that is only half done.
	l.s.Refuse("PATCH", http.StatusForbidden)
	l.expect("pause, refused", l.api(keyA, "POST", path+"/pause", "{}"), 403, "")
	l.s.Refuse("PATCH", 0)
	l.expect("pause", l.api(keyA, "POST", path+"/pause", "{}"), 204, "")
}

// TestAutoPause: one that pauses by itself has its end in its Sandbox, which keeps its volumes; the claim is not deleted.
func TestAutoPause(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, `{"timeout":300,"autoPause":true}`)
	path, box := "/sandboxes/"+o.SandboxID, "warm-"+o.SandboxID
	in := func(d time.Duration) time.Time { return l.clock.Now().Add(d).UTC().Truncate(time.Second) }
	expires := func() time.Time {
		c, _ := l.s.Claim("team-a", o.SandboxID)
		return c.Expires()
	}
	detail := func() (d wire.Detail) {
		a := l.api(keyA, "GET", path, "")
		a.into(t, &d)
		return d
	}
	check := func(what string, state string, end time.Time) {
		t.Helper()
		want := ""
		if state == wire.StateRunning {
			want = end.Format(time.RFC3339) + " Retain"
		}
		actortest.Eventually(t, what, func() bool { return detail().State == state })
		if got := l.s.End("team-a", box); got != want || !expires().IsZero() {
			t.Errorf("%s: the Sandbox ends at %q, want %q; the claim at %v", what, got, want, expires())
		}
		if d := detail(); state == wire.StateRunning && !d.EndAt.Equal(end) || d.Lifecycle == nil || d.Lifecycle.OnTimeout != wire.OnTimeoutPause {
			t.Errorf("%s: %+v", what, d)
		}
	}
	check("made", wire.StateRunning, in(5*time.Minute))
	l.expect("timeout", l.api(keyA, "POST", path+"/timeout", `{"timeout":60}`), 204, "")
	check("shorter", wire.StateRunning, in(time.Minute))
	l.expect("connect", l.api(keyA, "POST", path+"/connect", `{"timeout":600}`), 200, o.SandboxID)
	check("longer", wire.StateRunning, in(10*time.Minute))
	l.expect("connect", l.api(keyA, "POST", path+"/connect", `{"timeout":6}`), 200, o.SandboxID)
	check("no shorter", wire.StateRunning, in(10*time.Minute))

	end := l.s.End("team-a", box)
	l.s.Expire("team-a", o.SandboxID)
	actortest.Eventually(t, "its pause", func() bool { return detail().State == wire.StatePaused })
	if l.s.End("team-a", box) != end {
		t.Error("the gateway has changed it")
	}
	l.expect("pause", l.api(keyA, "POST", path+"/pause", "{}"), 409, "paused already")
	l.expect("timeout", l.api(keyA, "POST", path+"/timeout", `{"timeout":1}`), 409, "paused")
	l.expect("its commands", l.ask("GET", "/files", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken), 502, "paused")
	l.expect("connect", l.api(keyA, "POST", path+"/connect", `{"timeout":60}`), 201, o.SandboxID)
	check("again", wire.StateRunning, in(time.Minute))

	l.expect("pause", l.api(keyA, "POST", path+"/pause", "{}"), 204, "")
	check("by request", wire.StatePaused, time.Time{})
	l.expect("connect", l.api(keyA, "POST", path+"/connect", `{"timeout":60}`), 201, o.SandboxID)
	check("after that", wire.StateRunning, in(time.Minute))

	// Where the Sandbox cannot be told, nothing is left; until then the claim has an end of its own.
	ends := make(chan time.Time, 1)
	l.s.OnCreate = func(c kube.Claim) {
		ends <- c.Expires()
		l.s.Refuse("PATCH", http.StatusForbidden)
		l.s.Ready(c, podIP)
	}
	l.pod.set(func() { l.pod.token = "" })
	l.expect("refused", l.api(keyA, "POST", "/v2/sandboxes", `{"timeout":300,"autoPause":true}`), 403, "")
	if at := <-ends; !at.Equal(in(5*time.Minute + l.g.o.Ready)) {
		t.Errorf("it would have ended at %v", at)
	}
	if names := l.s.Claims("team-a"); !slices.Equal(names, []string{o.SandboxID}) {
		t.Errorf("%q are left", names)
	}
}

// TestList: all sandboxes of a tenant, the newest first, page by page.
func TestList(t *testing.T) {
	l := newLab(t, nil)
	var ids []string
	for i := range 5 {
		o := l.create(keyA, fmt.Sprintf(`{"templateID":"t%d","metadata":{"n":"%d & more","all":"1"}}`, i%2, i))
		ids = append([]string{o.SandboxID}, ids...)
	}
	l.create(keyB, "{}")
	list := func(query string) (got []string, next string) {
		t.Helper()
		a := l.api(keyA, "GET", "/v2/sandboxes"+query, "")
		var all []wire.Detail
		a.into(t, &all)
		for _, d := range all {
			got = append(got, d.SandboxID)
		}
		return got, a.header.Get("X-Next-Token")
	}
	actortest.Eventually(t, "all", func() bool { got, _ := list(""); return len(got) == 5 })
	first, next := list("?limit=2")
	second, next := list("?limit=2&nextToken=" + next)
	third, end := list("?limit=2&nextToken=" + next)
	if got := slices.Concat(first, second, third); !slices.Equal(got, ids) || end != "" {
		t.Errorf("%q of %q, then %q", got, ids, end)
	}
	metadata := url.QueryEscape(url.Values{"n": {url.QueryEscape("3 & more")}, "all": {"1"}}.Encode())
	for query, want := range map[string][]string{
		"?template=t1": {ids[1], ids[3]}, "?metadata=" + metadata: {ids[1]}, "?state=paused": nil, "?state=running,paused&limit=1": {ids[0]}, "?startedAfter=2030-01-01T00:00:00Z": nil, "?order=asc&limit=1": {ids[4]},
	} {
		if got, _ := list(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q", query, got)
		}
	}
	for _, query := range []string{"?state=x", "?limit=0", "?limit=x", "?limit=101", "?startedAfter=x", "?metadata=%25zz", "?order=up", "?nextToken=%2F"} {
		l.expect(query, l.api(keyA, "GET", "/v2/sandboxes"+query, ""), 400, "")
	}
}

// TestProxy: commands and files by header, ports by header or name; nothing of the tenant's gets to the pod.
func TestProxy(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	l.s.WaitWatched("team-a")
	host := "8080-" + o.SandboxID + ".boxes.test"
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"commands":          {[]string{"E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken}, "POST 49983:/x"},
		"commands, by name": {[]string{"Host", "49983-" + o.SandboxID + ".boxes.test", "X-Access-Token", o.EnvdAccessToken}, "POST 49983:/x"},
		"a port":            {[]string{"E2b-Sandbox-Id", o.SandboxID, "E2b-Sandbox-Port", "8080"}, "POST 8080:/x"},
		"a port, by name":   {[]string{"Host", host}, "POST 8080:/x"},
		"a name's port":     {[]string{"Host", strings.ToUpper(host) + ":443", "Origin", "https://page.test", "X-API-Key", keyA, "X-Access-Token", "guessed"}, "POST 8080:/x"},
	} {
		a := l.ask("POST", "/x", "body", c.headers...)
		if a.status != 200 || a.text != c.want {
			t.Errorf("%s: %d %s", name, a.status, a.text)
			continue
		}
		r, body := l.pod.newest()
		if body != "body" || r.Header.Get("X-Api-Key") != "" || r.Header.Get("X-Access-Token") != o.EnvdAccessToken || r.Header.Get("E2b-Sandbox-Id") != o.SandboxID || r.Header.Get("X-Forwarded-For") == "" {
			t.Errorf("%s: %q %v", name, body, r.Header)
		}
	}
	if r, _ := l.pod.newest(); r.Host == "" {
		t.Error("no Host")
	}
	// Names that only look like it.
	for _, host := range []string{"8080-" + o.SandboxID + ".evil.test", o.SandboxID + ".boxes.test", "08080-" + o.SandboxID + ".boxes.test", "8080-" + o.SandboxID + ".x.boxes.test", "8080-" + o.SandboxID[1:] + ".boxes.test"} {
		l.expect(host, l.ask("GET", "/x", "", "Host", host), 401, "X-API-Key")
	}
	// A signed address is for the pod to check, and of files alone.
	a := l.ask("GET", "/files?path=a&signature=v1_x", "", "E2b-Sandbox-Id", o.SandboxID)
	if r, _ := l.pod.newest(); a.status != 401 || r.URL.Query().Get("signature") != "v1_x" || r.Header.Get("X-Access-Token") != "" {
		t.Errorf("signed: %d %v", a.status, r.Header)
	}
	l.expect("signed elsewhere", l.ask("POST", "/process.Process/Start?signature=v1_x", "", "E2b-Sandbox-Id", o.SandboxID), 401, "X-Access-Token")

	p := l.create(keyB, `{"network":{"allowPublicTraffic":false}}`)
	if p.TrafficAccessToken == nil {
		t.Fatal("no token for its ports")
	}
	// Both have the one pod of this test, which has the second's token now.
	port := []string{"E2b-Sandbox-Id", p.SandboxID, "E2b-Sandbox-Port", "80"}
	l.s.WaitWatched("team-b")
	l.pod.set(func() { l.pod.token = p.EnvdAccessToken })
	l.expect("private", l.ask("GET", "/", "", port...), 403, "E2b-Traffic-Access-Token")
	l.expect("private, with the other token", l.ask("GET", "/", "", append(port, "E2b-Traffic-Access-Token", p.EnvdAccessToken)...), 403, "E2b-Traffic-Access-Token")
	if a := l.ask("GET", "/", "", append(port, "E2b-Traffic-Access-Token", *p.TrafficAccessToken)...); a.status != 200 {
		t.Errorf("private: %d %s", a.status, a.text)
	}
}

// TestStreams: what a pod says goes on at once, and a WebSocket goes both ways, until somebody ends it.
func TestStreams(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	next, left := make(chan struct{}), make(chan struct{})
	l.pod.set(func() {
		l.pod.answers = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				c, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_ = rw.Flush()
				line, _ := rw.ReadString('\n')
				_, _ = rw.WriteString("echo " + line)
				_ = rw.Flush()
				_, _ = rw.ReadString('\n') // until it ends
				close(left)
				return
			}
			for i := range 2 {
				_, _ = fmt.Fprintf(w, "part %d\n", i)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		}
	})
	a, err := l.send(t.Context(), "POST", "/process.Process/Start", "{}", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken)
	must(t, err)
	lines := bufio.NewReader(a.Body)
	for i := range 2 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("part %d\n", i) {
			t.Errorf("%q %v", line, err)
		}
		next <- struct{}{}
	}
	_ = a.Body.Close()

	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: 3000-"+o.SandboxID+".boxes.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	must(t, err)
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	must(t, err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%d", res.StatusCode)
	}
	_, err = io.WriteString(c, "hello\n")
	must(t, err)
	if line, err := in.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q %v", line, err)
	}
	must(t, c.Close())
	actortest.Within(t, "the pod's end of it", left)
}

// TestPodAgain: a pod that has started anew gets its token again, and what was asked is asked again.
func TestPodAgain(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	l.pod.set(func() { l.pod.token = "" })
	ask := func(body string) answered {
		return l.ask("POST", "/process.Process/List", body, "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken)
	}
	if a := ask(`{"a":1}`); a.status != 200 || l.pod.inits != 2 {
		t.Errorf("%d %s, %d inits", a.status, a.text, l.pod.inits)
	}
	if _, body := l.pod.newest(); body != `{"a":1}` {
		t.Errorf("%q", body)
	}
	l.pod.set(func() { l.pod.token = "" })
	if a := ask(strings.Repeat("x", maxReplay+1)); a.status != 401 { // too long to be kept
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := ask(strings.Repeat("x", maxReplay+1)); a.status != 200 || l.pod.inits != 3 {
		t.Errorf("%d %s, %d inits", a.status, a.text, l.pod.inits)
	}
	if a := l.api(keyA, "GET", "/sandboxes/"+o.SandboxID+"/metrics", ""); a.status != 200 || a.text != "GET 49983:/sandboxes/"+o.SandboxID+"/metrics" {
		t.Errorf("metrics: %d %s", a.status, a.text)
	}
	a := l.api(keyA, "POST", "/sandboxes/"+o.SandboxID+"/undo", `{"count":1}`)
	if _, body := l.pod.newest(); a.status != 200 || a.text != "POST 49983:/sandboxes/"+o.SandboxID+"/undo" || body != `{"count":1}` {
		t.Errorf("undo: %d %s %q", a.status, a.text, body)
	}
}

// TestVanishedClient: what nobody waits for any more is not left in the cluster.
func TestVanishedClient(t *testing.T) {
	l := newLab(t, nil)
	created := make(chan struct{})
	l.s.OnCreate = func(kube.Claim) { close(created) }
	ctx, vanish := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if a, err := l.send(ctx, "POST", "/v2/sandboxes", "{}", "X-API-Key", keyA); err == nil {
			_ = a.Body.Close()
			t.Errorf("%d", a.StatusCode)
		}
	}()
	<-created
	vanish()
	<-gone
	actortest.Eventually(t, "its end", func() bool { return len(l.s.Claims("team-a")) == 0 })
}

// replica is another gateway with the same settings, which reaches the API server at an address.
func (l *lab) replica(server string) *Gateway {
	l.Helper()
	client, err := kube.New(kube.Config{Server: server, Clock: l.clock})
	must(l.T, err)
	l.Cleanup(client.Close)
	o := l.g.o
	o.Kube = client
	g, err := New(o)
	must(l.T, err)
	l.Cleanup(g.Close)
	return g
}

// TestTwoReplicas: what one has made the other knows, from the token alone.
func TestTwoReplicas(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	other := l.replica(l.s.URL)
	r := httptest.NewRequest("POST", "/process.Process/List", strings.NewReader("{}"))
	r.Header.Set("E2b-Sandbox-Id", o.SandboxID)
	r.Header.Set("X-Access-Token", o.EnvdAccessToken)
	w := httptest.NewRecorder()
	other.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestReady: a gateway is ready when it knows what there is somewhere, and not while it ends.
func TestReady(t *testing.T) {
	l := newLab(t, func(l *lab, _ *Options) { l.s.Down(true) })
	l.expect("away", l.ask("GET", "/ready", ""), 503, "not told yet")
	l.expect("health", l.ask("GET", "/health", ""), 204, "")
	l.s.Down(false)
	actortest.Eventually(t, "what there is", func() bool {
		if d, ok := l.clock.Next(); ok && d <= longestPause {
			l.clock.Advance(d)
		}
		return l.ask("GET", "/ready", "").status == 204
	})
	l.g.ending.Store(true)
	l.expect("ending", l.ask("GET", "/ready", ""), 503, "ending")
	l.expect("health", l.ask("GET", "/health", ""), 204, "")
}

// TestEnds: a gateway that ends lets requests go on.
func TestEnds(t *testing.T) {
	l := newLab(t, nil)
	created := make(chan kube.Claim, 1)
	l.s.OnCreate = func(c kube.Claim) { created <- c }
	got := make(chan answered, 1)
	go func() { got <- l.api(keyA, "POST", "/v2/sandboxes", "{}") }()
	c := <-created
	ended := make(chan struct{})
	go func() { defer close(ended); l.stop() }()
	l.s.Ready(c, podIP)
	if a := actortest.Within(t, "the answer", got); a.status != 201 {
		t.Errorf("%d %s", a.status, a.text)
	}
	actortest.Within(t, "the end", ended)
}

// TestSecret: tokens differ by what they are for, and a short secret is none.
func TestSecret(t *testing.T) {
	l := newLab(t, nil)
	id := wire.NewID()
	seen := map[string]bool{}
	for _, token := range []string{l.g.token(forEnvd, "a", id), l.g.token(forTraffic, "a", id), l.g.token(forEnvd, "b", id), l.g.token(forEnvd, "a", wire.NewID())} {
		if seen[token] || len(token) != 64 {
			t.Errorf("%q", token)
		}
		seen[token] = true
	}
	o := l.g.o
	o.Secret = []byte(secret[:31])
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "31 bytes") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(file, []byte(keyA+"\n"), 0o600))
	keys, err := web.OpenKeys(file, nil)
	must(t, err)
	o = l.g.o
	o.Keys = keys
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("%v", err)
	}
}

// TestRights: packaging/kubernetes/gateway.yaml gives the gateway the rights that it uses, and no others.
func TestRights(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	l.expect("timeout", l.api(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":60}`), 204, "")
	l.expect("pause", l.api(keyA, "POST", "/sandboxes/"+o.SandboxID+"/pause", ""), 204, "")
	l.expect("kill", l.api(keyA, "DELETE", "/sandboxes/"+o.SandboxID, ""), 204, "")
	l.s.OnCreate = func(c kube.Claim) { l.s.NotReady("team-a", c.Metadata.Name, "DependenciesNotReady", "") }
	<-l.claimed // the first
	l.expect("late", l.outwaits(keyA, "POST", "/v2/sandboxes", "{}"), 504, "")
	l.s.WaitWatched("team-a")
	used := map[string]bool{}
	requests, _ := l.s.Requests()
	for _, q := range requests {
		method, path, _ := strings.Cut(q, " ")
		parts := strings.Split(path[strings.Index(path, "/namespaces/"):], "/")
		verb := map[string]string{"POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]
		switch {
		case method == "GET" && len(parts) == 5:
			verb = "get"
		case method == "GET" && parts[3] == "sandboxclaims":
			used[parts[3]+" watch"] = true // by the same path
			verb = "list"
		case method == "GET":
			verb = "list"
		}
		used[parts[3]+" "+verb] = true
	}
	b, err := os.ReadFile("../../../packaging/kubernetes/gateway.yaml")
	must(t, err)
	given := map[string]bool{}
	for _, m := range regexp.MustCompile(`resources: \["(\w+)"\]\s+verbs: \[([^\]]+)\]`).FindAllStringSubmatch(string(b), -1) {
		for verb := range strings.SplitSeq(m[2], ",") {
			given[m[1]+" "+strings.Trim(verb, ` "`)] = true
		}
	}
	if !maps.Equal(used, given) {
		t.Errorf("used: %v\ngiven: %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(given)))
	}
}
