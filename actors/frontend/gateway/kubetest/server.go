package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

// Server is an API server.
type Server struct {
	URL string
	// OnCreate and OnMode are called when a claim was created, and when a Sandbox's specification was changed, with its operatingMode. They are set before the first request, and may call methods.
	OnCreate func(kube.Claim)
	OnMode   func(namespace, sandbox, mode string)

	t    testing.TB
	http *httptest.Server

	mu        sync.Mutex
	cond      *sync.Cond
	version   uint64
	oldest    uint64 // watches from before are too old
	claims    map[string]kube.Claim
	sandboxes map[string]map[string]any
	events    map[string][]kube.Event
	history   []change
	watching  map[string]int
	cut       uint64 // watches that began before this number end
	began     uint64
	down      bool
	late      bool // the watches
	starting  bool
	conflicts int
	lose      string // the method of the next request whose answer is lost
	refuse    map[string]int
	requests  []string
	tokens    []string
}

// change is one event of a watch.
type change struct {
	version   uint64
	kind      string
	namespace string
	object    kube.Claim
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{t: t, version: 100, claims: map[string]kube.Claim{}, sandboxes: map[string]map[string]any{}, events: map[string][]kube.Event{}, watching: map[string]int{}, refuse: map[string]int{}}
	s.cond = sync.NewCond(&s.mu)
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	t.Cleanup(func() {
		s.mu.Lock()
		s.cut = s.began + 1
		s.cond.Broadcast()
		s.mu.Unlock()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Ready makes a claim ready, with a pod at an address.
func (s *Server) Ready(c kube.Claim, ip string) {
	s.Status(c.Metadata.Namespace, c.Metadata.Name, func(st *kube.ClaimStatus) {
		st.Sandbox = kube.SandboxStatus{Name: "warm-" + c.Metadata.Name, PodIPs: []string{ip}}
		st.Conditions = []kube.Condition{{Type: "Ready", Status: "True", Reason: "DependenciesReady"}}
	})
}

// NotReady says of a claim why it is not ready. It has a Sandbox, and no pod.
func (s *Server) NotReady(namespace, name, reason, message string) {
	s.Status(namespace, name, func(st *kube.ClaimStatus) {
		st.Sandbox = kube.SandboxStatus{Name: "warm-" + name}
		st.Conditions = []kube.Condition{{Type: "Ready", Status: "False", Reason: reason, Message: message}}
	})
}

// Expire has a claim's Sandbox have had its end.
func (s *Server) Expire(namespace, name string) {
	s.SandboxSays(namespace, "warm-"+name, kube.Condition{Type: "Ready", Status: "False", Reason: kube.ReasonExpired})
	s.NotReady(namespace, name, kube.ReasonExpired, "Underlying Sandbox resource has expired independently of the Claim.")
}

// Status changes what is said of a claim.
func (s *Server) Status(namespace, name string, f func(*kube.ClaimStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims[namespace+"/"+name]
	if !ok {
		return
	}
	f(&c.Status)
	s.put("MODIFIED", c)
}

// put keeps a claim at a new version, and tells the watches. The caller holds mu.
func (s *Server) put(kind string, c kube.Claim) kube.Claim {
	s.version++
	c.Metadata.ResourceVersion = strconv.FormatUint(s.version, 10)
	c.APIVersion, c.Kind = "extensions.agents.x-k8s.io/v1beta1", "SandboxClaim"
	key := c.Metadata.Namespace + "/" + c.Metadata.Name
	if kind == "DELETED" {
		delete(s.claims, key)
	} else {
		s.claims[key] = c
	}
	s.history = append(s.history, change{s.version, kind, c.Metadata.Namespace, c})
	s.cond.Broadcast()
	return c
}

// Claim returns a claim as it is now.
func (s *Server) Claim(namespace, name string) (kube.Claim, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims[namespace+"/"+name]
	return c, ok
}

// Claims returns the names of a namespace's claims, sorted.
func (s *Server) Claims(namespace string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.claims)) {
		if name, ok := strings.CutPrefix(key, namespace+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// Put has a claim be there that somebody else has made.
func (s *Server) Put(c kube.Claim) kube.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(c)
}

// Delete deletes a claim, as somebody else would.
func (s *Server) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.claims[namespace+"/"+name]; ok {
		s.put("DELETED", c)
	}
}

// AddEvent has something have happened to an object.
func (s *Server) AddEvent(namespace, name string, e kube.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[namespace+"/"+name] = append(s.events[namespace+"/"+name], e)
}

// Down has the server go away, or come back: while it is away connections break, watches, too.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.cut = s.began + 1
	s.cond.Broadcast()
}

// Late has the watches tell nothing of what changes from now on, or all of it: a real server answers who has changed something before it tells the others.
func (s *Server) Late(late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
	s.cond.Broadcast()
}

// Starting has the server be one that has just started, or be ready: until then it refuses everything, because it does not know yet who may do what.
func (s *Server) Starting(starting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = starting
}

// Compact makes all versions until now too old to be watched from, and ends the watches.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest, s.history, s.cut = s.version, nil, s.began+1
	s.cond.Broadcast()
}

// Conflict has somebody be faster at the next n changes.
func (s *Server) Conflict(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conflicts = n
}

// Lose does what the next request with a method asks for, and loses the answer.
func (s *Server) Lose(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = method
}

// Refuse answers requests with a method with a status from now on; 0: as ever.
func (s *Server) Refuse(method string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[method] = status
}

// Requests returns what was asked for, as "GET /path", and with which tokens.
func (s *Server) Requests() (requests, tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), slices.Clone(s.tokens)
}

// Sandbox returns a Sandbox as it is now; ok is false if no claim has it.
func (s *Server) Sandbox(namespace, name string) (box kube.Sandbox, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.sandbox(namespace, name)
	if ok {
		convert(o, &box)
	}
	return box, ok
}

// End returns a Sandbox's shutdownTime and shutdownPolicy as they were last set, with a space between them; empty: it has none.
func (s *Server) End(namespace, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, _ := s.sandbox(namespace, name)
	spec, _ := o["spec"].(map[string]any)
	if spec["shutdownTime"] == nil {
		return ""
	}
	return fmt.Sprint(spec["shutdownTime"], " ", spec["shutdownPolicy"])
}

// SandboxSays has a condition of a Sandbox, about its specification of now, and no other.
func (s *Server) SandboxSays(namespace, name string, said kube.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.sandbox(namespace, name)
	if !ok {
		return
	}
	var box kube.Sandbox
	convert(o, &box)
	said.Generation = box.Metadata.Generation
	s.putSandbox(namespace, name, apply(o, map[string]any{"status": map[string]any{"conditions": []kube.Condition{said}}}))
}

// sandbox is a Sandbox that a claim has. The caller holds mu.
func (s *Server) sandbox(namespace, name string) (map[string]any, bool) {
	key := namespace + "/" + name
	for _, c := range s.claims {
		if c.Metadata.Namespace != namespace || c.Status.Sandbox.Name != name {
			continue
		}
		if s.sandboxes[key] == nil {
			s.putSandbox(namespace, name, map[string]any{"kind": "Sandbox", "metadata": map[string]any{"name": name, "generation": 1}, "spec": map[string]any{"operatingMode": kube.ModeRunning}})
		}
		return s.sandboxes[key], true
	}
	return nil, false
}

// putSandbox keeps a Sandbox at a new version. The caller holds mu.
func (s *Server) putSandbox(namespace, name string, o map[string]any) {
	s.version++
	s.sandboxes[namespace+"/"+name] = apply(o, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.FormatUint(s.version, 10)}})
}

// convert makes one form of an object of another one, by JSON.
func convert(from, to any) {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		panic(err)
	}
}

// WaitWatched returns when a namespace is watched.
func (s *Server) WaitWatched(namespace string) {
	stop := time.AfterFunc(5*time.Minute, func() { panic("kubetest: nobody watches " + namespace) })
	defer stop.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.watching[namespace] == 0 {
		s.cond.Wait()
	}
}

func (s *Server) status(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

func reply(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b)
}

// create adds a claim. The caller holds mu.
func (s *Server) create(c kube.Claim) kube.Claim {
	c.Metadata.UID = fmt.Sprintf("uid-%d", s.version)
	c.Metadata.Created = time.Date(2026, 1, 1, 0, 0, int(s.version), 0, time.UTC)
	return s.put("ADDED", c)
}
