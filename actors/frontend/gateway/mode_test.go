package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// slow is a cluster whose pods take their time to end, and, as with agent-sandbox, are taken for those that are wanted until then.
type slow struct {
	l    *lab
	mode chan string // of each change
	mu   sync.Mutex
	ends bool // there is a pod that ends
}

func newSlow(t *testing.T) (*lab, *slow) {
	l := newLab(t, nil)
	s := &slow{l: l, mode: make(chan string, 100)}
	l.s.OnMode = s.set
	return l, s
}

func (s *slow) set(namespace, sandbox, mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strings.TrimPrefix(sandbox, "warm-")
	c, _ := s.l.s.Claim(namespace, id)
	box, _ := s.l.s.Sandbox(namespace, sandbox)
	switch {
	case mode == kube.ModeRunning && s.ends:
		s.l.Error("a pod is asked for while the old one ends")
		s.l.s.Ready(c, podIP) // with the old one
	case mode == kube.ModeRunning:
		s.l.s.Ready(c, podIP)
	case !box.PodEnded():
		s.ends = true
		s.l.s.SandboxSays(namespace, sandbox, kube.Condition{Type: "Suspended", Status: "False", Reason: "PodTerminating"})
		s.l.s.Status(namespace, id, func(st *kube.ClaimStatus) {
			st.Sandbox = kube.SandboxStatus{Name: sandbox, PodIPs: []string{podIP}}
			st.Conditions = []kube.Condition{{Type: "Ready", Status: "False", Reason: reasonSuspended, Message: "Sandbox is suspending"}}
		})
	}
	s.mode <- mode
}

// end has the pod end, of which the Sandbox tells, and then the claim.
func (s *slow) end(o wire.Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = false
	s.l.pod.set(func() { s.l.pod.token = "" })
	s.l.s.SandboxSays("team-a", "warm-"+o.SandboxID, kube.Condition{Type: "Suspended", Status: "True", Reason: "PodTerminated"})
	s.l.s.NotReady("team-a", o.SandboxID, reasonSuspended, "Sandbox is suspended")
}

// TestConnectEnding: who connects while the pod of a pause is still ending gets the next one, and the pause is over.
func TestConnectEnding(t *testing.T) {
	for _, auto := range []string{"false", "true"} {
		l, s := newSlow(t)
		o := l.create(keyA, `{"timeout":300,"autoPause":`+auto+`}`)
		path := "/sandboxes/" + o.SandboxID
		if auto == "true" {
			actortest.Within(t, "its end in the Sandbox", s.mode)
		}
		pause := l.asks(keyA, "POST", path+"/pause", "")
		actortest.Within(t, "the pause", s.mode)
		l.expect("pause again", l.api(keyA, "POST", path+"/pause", ""), 409, "paused already")
		connect := l.asks(keyA, "POST", path+"/connect", `{"timeout":60}`)
		l.expect("the pause", actortest.Within(t, "the pause", pause), 503, "connected to by somebody else meanwhile")
		l.expect("its commands", l.ask("GET", "/files", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken), 502, "")
		s.end(o)
		l.expect("connect", actortest.Within(t, "the connection", connect), 201, o.EnvdAccessToken)
		if l.suspended(o) || l.pod.inits != 2 {
			t.Errorf("%d inits", l.pod.inits)
		}
	}
}

// TestConnectOverslept: one that has paused at its end has lost its pod when its Sandbox says so, and not when the claim says that it has expired.
func TestConnectOverslept(t *testing.T) {
	l, s := newSlow(t)
	o := l.create(keyA, `{"timeout":300,"autoPause":true}`)
	actortest.Within(t, "its end in the Sandbox", s.mode)
	l.s.Expire("team-a", o.SandboxID)
	connect := l.asks(keyA, "POST", "/sandboxes/"+o.SandboxID+"/connect", `{"timeout":60}`)
	if mode := actortest.Within(t, "what its Sandbox is told", s.mode); mode != kube.ModeSuspended {
		t.Errorf("%s", mode)
	}
	s.end(o)
	l.expect("connect", actortest.Within(t, "the connection", connect), 201, o.EnvdAccessToken)
	if end := l.s.End("team-a", "warm-"+o.SandboxID); end != l.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339)+" Retain" {
		t.Errorf("it ends at %s", end)
	}
}

// TestConnectStale: what a Sandbox has said before it was told anything else does not count.
func TestConnectStale(t *testing.T) {
	l, s := newSlow(t)
	o := l.create(keyA, `{}`)
	path := "/sandboxes/" + o.SandboxID
	pause := l.asks(keyA, "POST", path+"/pause", "")
	actortest.Within(t, "the pause", s.mode)
	s.end(o)
	l.expect("the pause", actortest.Within(t, "the pause", pause), 204, "")
	l.expect("connect", l.api(keyA, "POST", path+"/connect", "{}"), 201, "")
	for len(s.mode) > 0 {
		<-s.mode
	}
	l.s.NotReady("team-a", o.SandboxID, reasonSuspended, "Sandbox is suspended") // of the pause before
	pause = l.asks(keyA, "POST", path+"/pause", "")
	actortest.Within(t, "the pause", s.mode)
	l.s.NotReady("team-a", o.SandboxID, reasonSuspended, "Sandbox is suspended")
	connect := l.asks(keyA, "POST", path+"/connect", "{}")
	l.expect("the pause", l.passing(time.Second, pause), 503, "connected to by somebody else meanwhile")
	s.end(o)
	l.expect("connect", l.passing(longestPause, connect), 201, o.EnvdAccessToken)
}

// TestPauseConnect: whoever comes last at whichever replica, a Sandbox does in the end what its claim says.
func TestPauseConnect(t *testing.T) {
	var other *Gateway
	l := newLab(t, func(l *lab, o *Options) {
		real := func() *kube.Client {
			c, err := kube.New(kube.Config{Server: l.s.URL})
			must(t, err)
			t.Cleanup(c.Close)
			return c
		}
		o.Clock, o.Kube = supervision.RealClock{}, real()
		second := *o
		second.Kube = real()
		var err error
		other, err = New(second)
		must(t, err)
		t.Cleanup(other.Close)
	})
	o := l.create(keyA, "{}")
	for range 8 {
		var all sync.WaitGroup
		for _, g := range []*Gateway{l.g, other} {
			for _, what := range []string{"pause", "connect"} {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					r := httptest.NewRequestWithContext(ctx, "POST", "/sandboxes/"+o.SandboxID+"/"+what, strings.NewReader("{}"))
					r.Header.Set("X-API-Key", keyA)
					w := httptest.NewRecorder()
					g.ServeHTTP(w, r)
					switch w.Code {
					case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusConflict, http.StatusServiceUnavailable:
					default:
						t.Errorf("%s: %d %s", what, w.Code, w.Body)
					}
				})
			}
		}
		all.Wait()
		if c, _ := l.s.Claim("team-a", o.SandboxID); pauseWanted(c) != l.suspended(o) {
			t.Fatalf("the claim says %t, the Sandbox %t", pauseWanted(c), l.suspended(o))
		}
	}
}

// TestOvertaken: what one replica is about to tell a Sandbox is void if another one has told it something meanwhile, also if that is what it does already.
func TestOvertaken(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	path := "/sandboxes/" + o.SandboxID
	l.expect("pause", l.api(keyA, "POST", path+"/pause", ""), 204, "")

	held, goOn := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held); <-goOn })
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/sandboxes/") && r.ContentLength > int64(len("{}")) {
			hold()
		}
		l.s.ServeHTTP(w, r)
	}))
	l.Cleanup(way.Close) // after the replica
	other := l.replica(way.URL)
	connect := make(chan answered, 1)
	go func() {
		r := httptest.NewRequestWithContext(t.Context(), "POST", path+"/connect", strings.NewReader("{}"))
		r.Header.Set("X-API-Key", keyA)
		w := httptest.NewRecorder()
		other.ServeHTTP(w, r)
		connect <- answered{w.Code, w.Header(), w.Body.String()}
	}()
	actortest.Within(t, "what the Sandbox is about to be told", held)
	actortest.Eventually(t, "the other replica's change", func() bool { return !strings.Contains(l.api(keyA, "GET", path, "").text, wire.StatePaused) })
	l.expect("pause", l.api(keyA, "POST", path+"/pause", ""), 204, "")
	close(goOn)
	l.expect("connect", l.passing(longestPause, connect), 409, "paused by somebody else meanwhile")
	if !l.suspended(o) {
		t.Error("the claim says that it is paused, and its Sandbox is not")
	}
}

// TestBusyClaim: if somebody else changes a claim all the time, whoever wants to change it is told so; a pause by another status, as 409 means there that it is paused.
func TestBusyClaim(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	path := "/sandboxes/" + o.SandboxID
	for _, q := range []struct {
		what, body string
		status     int
	}{{"timeout", `{"timeout":60}`, 409}, {"connect", "{}", 409}, {"pause", "", 503}} {
		l.s.Conflict(1000)
		l.expect(q.what, l.waits(keyA, "POST", path+"/"+q.what, q.body), q.status, "changed by somebody else")
	}
	l.s.Conflict(0)
	l.expect("timeout", l.api(keyA, "POST", path+"/timeout", `{"timeout":60}`), 204, "")
}

// TestManyChanges: changes of one sandbox that come at the same time do not stand in each other's way.
func TestManyChanges(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, "{}")
	var all []chan answered
	for range 50 {
		all = append(all, l.asks(keyA, "POST", "/sandboxes/"+o.SandboxID+"/timeout", `{"timeout":60}`))
	}
	for _, ch := range all {
		l.expect("timeout", actortest.Within(t, "an answer", ch), 204, "") // without a pause: the clock stands
	}
}

// TestAutoResume: one that was made so runs again when it is used by whoever may, and not when somebody asks whether it runs.
func TestAutoResume(t *testing.T) {
	l := newLab(t, nil)
	o := l.create(keyA, `{"autoPause":true,"autoResume":{"enabled":true}}`)
	path := "/sandboxes/" + o.SandboxID
	ask := func(path, token string) answered {
		return l.ask("POST", path, "{}", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", token)
	}
	for name, pause := range map[string]func(){
		"by request": func() { l.expect("pause", l.api(keyA, "POST", path+"/pause", ""), 204, "") },
		"at its end": func() { l.s.Expire("team-a", o.SandboxID) },
	} {
		pause()
		state := func() string {
			var d wire.Detail
			l.api(keyA, "GET", path, "").into(t, &d)
			if d.Lifecycle == nil || !d.Lifecycle.AutoResume {
				t.Errorf("%s: %+v", name, d.Lifecycle)
			}
			return d.State
		}
		actortest.Eventually(t, "the pause", func() bool { return state() == wire.StatePaused })
		l.expect(name+": health", l.ask("GET", "/health", "", "E2b-Sandbox-Id", o.SandboxID, "X-Access-Token", o.EnvdAccessToken), 502, "paused")
		l.expect(name+": nobody", ask("/process.Process/List", "x"), 401, "")
		l.expect(name+": a signature that may be wrong", l.ask("GET", "/files?signature=v1_x", "", "E2b-Sandbox-Id", o.SandboxID), 502, "paused")
		if a := l.api(keyA, "GET", path+"/metrics", ""); a.status != 200 || a.text != "[]" {
			t.Errorf("%s: metrics: %d %s", name, a.status, a.text)
		}
		if s := state(); s != wire.StatePaused {
			t.Errorf("%s: %s", name, s)
		}
		var all []chan answered
		for range 5 {
			ch := make(chan answered, 1)
			go func() { ch <- ask("/process.Process/List", o.EnvdAccessToken) }()
			all = append(all, ch)
		}
		for _, ch := range all {
			if a := l.passing(longestPause, ch); a.status != 200 {
				t.Errorf("%s: %d %s", name, a.status, a.text)
			}
		}
		if s := state(); s != wire.StateRunning || l.suspended(o) {
			t.Errorf("%s: %s", name, s)
		}
	}
	p := l.create(keyA, `{}`)
	l.expect("pause", l.api(keyA, "POST", "/sandboxes/"+p.SandboxID+"/pause", ""), 204, "")
	l.expect("one that was not made so", l.ask("GET", "/files", "", "E2b-Sandbox-Id", p.SandboxID, "X-Access-Token", p.EnvdAccessToken), 502, "paused")
}

// TestPodReplaced: while a pod does not answer, another one may come in its place.
func TestPodReplaced(t *testing.T) {
	l := newLab(t, nil)
	made := make(chan kube.Claim, 1)
	l.s.OnCreate = func(c kube.Claim) { l.s.Ready(c, "10.0.0.9"); made <- c }
	create := l.asks(keyA, "POST", "/v2/sandboxes", "{}")
	c := actortest.Within(t, "the claim", made)
	actortest.Eventually(t, "a pause", func() bool { d, ok := l.clock.Next(); return ok && d < time.Second })
	l.s.Ready(c, podIP)
	l.expect("create", l.passing(longestPause, create), 201, "")
}
