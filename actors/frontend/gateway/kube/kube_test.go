package kube_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kubetest"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const label, value = "l", "v"

// lab is a store that watches a server.
type lab struct {
	*testing.T
	s     *kubetest.Server
	clock *actortest.FakeClock
	c     *kube.Client
	store *kube.Store
}

func newLab(t *testing.T) *lab {
	s, clock := kubetest.New(t), actortest.NewFakeClock()
	c, err := kube.New(kube.Config{Server: s.URL, Clock: clock})
	must(t, err)
	t.Cleanup(c.Close)
	return &lab{t, s, clock, c, kube.NewStore(c, "a", label+"="+value, nil)}
}

func (l *lab) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.store.Run(ctx) }()
	l.Cleanup(func() { cancel(); <-ended })
}

// put has a claim be there.
func (l *lab) put(name string) kube.Claim {
	return l.s.Put(kube.Claim{Metadata: kube.Metadata{Namespace: "a", Name: name, Labels: map[string]string{label: value}}})
}

// knows waits until the store knows some claims. Pauses pass at once.
func (l *lab) knows(want ...string) {
	l.Helper()
	actortest.Eventually(l.T, "claims "+strings.Join(want, ","), func() bool {
		l.clock.Advance(10 * time.Second)
		var names []string
		for _, c := range l.store.List() {
			names = append(names, c.Metadata.Name)
		}
		slices.Sort(names)
		return slices.Equal(names, want)
	})
}

// TestStore: what there is, and each change of it, whoever makes it.
func TestStore(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"c1", "c2", "c3", "c4", "c5"} { // more than a page
		l.put(name)
	}
	l.s.Put(kube.Claim{Metadata: kube.Metadata{Namespace: "a", Name: "other"}})                                       // without the label
	l.s.Put(kube.Claim{Metadata: kube.Metadata{Namespace: "b", Name: "c9", Labels: map[string]string{label: value}}}) // elsewhere
	l.run()
	must(t, l.store.Synced(t.Context()))
	l.knows("c1", "c2", "c3", "c4", "c5")
	l.s.Delete("a", "c2")
	l.put("c6")
	l.knows("c1", "c3", "c4", "c5", "c6")
	l.s.Status("a", "c1", func(st *kube.ClaimStatus) { st.Sandbox.Name = "x" })
	actortest.Eventually(t, "the status", func() bool { c, ok := l.store.Get("c1"); return ok && c.Status.Sandbox.Name == "x" })
	if _, ok := l.store.Get("other"); ok {
		t.Error("a claim without the label")
	}
}

// TestStoreOutage: what happened while the server was away, or is too old to be watched from, is known afterwards.
func TestStoreOutage(t *testing.T) {
	l := newLab(t)
	l.put("c1")
	l.run()
	l.knows("c1")
	l.s.Down(true)
	l.put("c2")
	l.s.Delete("a", "c1")
	l.clock.Advance(time.Minute)
	if _, ok := l.store.Get("c1"); !ok {
		t.Error("what was known is not known any more while the server is away")
	}
	l.s.Down(false)
	l.knows("c2")
	l.s.WaitWatched("a")
	l.put("c3")
	l.s.Delete("a", "c2")
	l.s.Compact() // perhaps before the watch has told of them
	l.knows("c3")
	l.put("c4")
	l.knows("c3", "c4")
}

// TestWait: a claim is waited for until it is as wanted, and no longer than it is there.
func TestWait(t *testing.T) {
	l := newLab(t)
	l.run()
	must(t, l.store.Synced(t.Context()))
	ready := func(c kube.Claim) (bool, error) { is, _ := c.Ready(); return is, nil }
	type got struct {
		c   kube.Claim
		err error
	}
	wait := func(seen kube.Claim) chan got {
		ch := make(chan got, 1)
		go func() { c, err := l.store.Wait(context.Background(), seen, ready); ch <- got{c, err} }()
		return ch
	}
	c1, c2, c3 := l.put("c1"), l.put("c2"), l.put("c3")
	one, two, three := wait(c1), wait(c2), wait(c3)
	l.s.Ready(c1, "10.0.0.1")
	if g := actortest.Within(t, "the claim", one); g.err != nil || g.c.Status.Sandbox.PodIPs[0] != "10.0.0.1" {
		t.Errorf("%+v", g)
	}
	l.s.Delete("a", "c2")
	if g := actortest.Within(t, "its end", two); !errors.Is(g.err, kube.ErrGone) {
		t.Errorf("%+v", g)
	}
	l.s.Delete("a", "c3") // and another one of the name
	l.s.Ready(l.put("c3"), "10.0.0.3")
	if g := actortest.Within(t, "its end", three); !errors.Is(g.err, kube.ErrGone) {
		t.Errorf("%+v", g)
	}
	// What was heard of it before it was seen does not count.
	c1, _ = l.s.Claim("a", "c1")
	old := make(chan got, 1)
	c1.Metadata.ResourceVersion = "1000000"
	ctx, cancel := context.WithCancel(context.Background())
	go func() { c, err := l.store.Wait(ctx, c1, ready); old <- got{c, err} }()
	cancel()
	if g := actortest.Within(t, "nothing", old); !errors.Is(g.err, context.Canceled) {
		t.Errorf("%+v", g)
	}
}

// TestChange: a change is made again for what others have made of the claim.
func TestChange(t *testing.T) {
	l := newLab(t)
	l.put("c1")
	times := 0
	change := func() (c kube.Claim, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err = l.c.ChangeClaim(context.Background(), "a", "c1", func(c kube.Claim) (map[string]any, error) {
				times++
				return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"n": c.Metadata.ResourceVersion}}}, nil
			})
		}()
		actortest.Eventually(t, "the change", func() bool {
			l.clock.Advance(10 * time.Second) // pauses pass
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
		return c, err
	}
	l.s.Conflict(3)
	before, _ := l.s.Claim("a", "c1")
	c, err := change()
	if err != nil || times != 4 || c.Metadata.Annotations["n"] == before.Metadata.ResourceVersion {
		t.Errorf("%d times, %+v, %v", times, c.Metadata, err)
	}
	l.s.Conflict(100)
	if _, err := change(); kube.Code(err) != http.StatusConflict || !strings.Contains(err.Error(), "10 times") {
		t.Errorf("for ever: %v", err)
	}
	// Who gives up before that, or has no time for that, hears of the conflict, too.
	l.s.Conflict(100)
	ctx, cancel := kube.Within(t.Context(), l.clock, time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- l.c.Retry(ctx, func(ctx context.Context) error {
			_, err := l.c.ChangeClaim(ctx, "a", "c1", func(kube.Claim) (map[string]any, error) { return map[string]any{}, nil })
			return err
		})
	}()
	actortest.Eventually(t, "the pause after the first conflict", func() bool { d, ok := l.clock.Next(); return ok && d < time.Second/2 })
	l.clock.Advance(time.Second)
	if err := actortest.Within(t, "the answer", ended); kube.Code(err) != http.StatusConflict || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no time: %v", err)
	}
	l.s.Conflict(0)
	if _, err := l.c.ChangeClaim(t.Context(), "a", "none", nil); kube.Code(err) != http.StatusNotFound {
		t.Errorf("no such claim: %v", err)
	}
}

// TestTurn: changes of one claim by one client do not stand in each other's way. Who waits for the others gives up when nobody waits for that.
func TestTurn(t *testing.T) {
	l := newLab(t)
	l.put("c1")
	l.put("c2")
	begun, goOn := make(chan struct{}), make(chan struct{})
	change := func(ctx context.Context, name string, before func()) chan error {
		ch := make(chan error, 1)
		go func() {
			_, err := l.c.ChangeClaim(ctx, "a", name, func(c kube.Claim) (map[string]any, error) {
				before()
				return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"n": c.Metadata.Annotations["n"] + "x"}}}, nil
			})
			ch <- err
		}()
		return ch
	}
	first := change(t.Context(), "c1", func() { close(begun); <-goOn })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	left := change(ctx, "c1", func() { t.Error("somebody else had the turn") })
	must(t, actortest.Within(t, "another claim", change(t.Context(), "c2", func() {})))
	cancel()
	if err := actortest.Within(t, "who has left", left); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	var others []chan error
	for range 50 {
		others = append(others, change(t.Context(), "c1", func() {}))
	}
	close(goOn)
	for _, ch := range append(others, first) {
		must(t, actortest.Within(t, "a change", ch)) // without a pause: the clock stands
	}
	if c, _ := l.s.Claim("a", "c1"); c.Metadata.Annotations["n"] != strings.Repeat("x", 51) {
		t.Errorf("%q", c.Metadata.Annotations["n"])
	}
}

// TestRetry: what passes is tried again, as late as the server wants; what does not is not.
func TestRetry(t *testing.T) {
	clock := actortest.NewFakeClock()
	var asked atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		switch asked.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"reason":"Forbidden","message":"exceeded quota"}`))
		}
	}))
	defer h.Close()
	c, err := kube.New(kube.Config{Server: h.URL, Clock: clock})
	must(t, err)
	defer c.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- c.Retry(context.Background(), func(ctx context.Context) error { _, err := c.Claim(ctx, "a", "c"); return err })
	}()
	clock.WaitArmed(time.Second)
	clock.Advance(time.Second)
	clock.WaitArmed(2 * time.Minute)
	clock.Advance(59 * time.Second)
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times before the server wanted it", n)
	}
	clock.Advance(2 * time.Minute)
	if err := actortest.Within(t, "the end", ended); kube.Code(err) != http.StatusForbidden || !strings.Contains(err.Error(), "exceeded quota") || asked.Load() != 4 { // once more, as the server says that it is ready
		t.Errorf("%v, %d times", err, asked.Load())
	}
}

// TestSilence: a connection whose other end has gone without a word is given up, and the next try has another one.
func TestSilence(t *testing.T) {
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("it is asked by %s", r.Proto)
		}
		_, _ = w.Write([]byte(`{"metadata":{"name":"c"}}`))
	}))
	h.EnableHTTP2 = true
	h.StartTLS()
	defer h.Close()
	way := newWay(t, h.Listener.Addr().String())
	ca := filepath.Join(t.TempDir(), "ca")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}), 0o600))
	c, err := kube.New(kube.Config{Server: "https://" + way.address, CAFile: ca, Silence: 100 * time.Millisecond})
	must(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // two requests that wait for an answer in vain
	defer cancel()
	ask := func(ctx context.Context) error { _, err := c.Claim(ctx, "a", "c"); return err }
	must(t, c.Retry(ctx, ask))
	way.silence()
	must(t, c.Retry(ctx, ask))
}

// way is a way to a server.
type way struct {
	address string

	mu     sync.Mutex
	silent []*atomic.Bool // of each connection
}

func newWay(t *testing.T, to string) *way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &way{address: l.Addr().String()}
	var (
		all   sync.WaitGroup
		conns []net.Conn // of the goroutine that accepts
	)
	all.Go(func() {
		defer func() {
			for _, c := range conns {
				_ = c.Close()
			}
		}()
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, in)
			out, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			conns = append(conns, out)
			silent := &atomic.Bool{}
			w.mu.Lock()
			w.silent = append(w.silent, silent)
			w.mu.Unlock()
			all.Go(func() { carry(out, in, silent) })
			all.Go(func() { carry(in, out, silent) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return w
}

// carry carries what comes in at from, until it ends; when the connection is silent it is lost.
func carry(to, from net.Conn, silent *atomic.Bool) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if silent.Load() {
			n = 0
		} else if err != nil {
			_ = to.Close()
		}
		if err != nil {
			return
		}
		_, _ = to.Write(b[:n])
	}
}

// silence has all connections that there are go silent: neither end hears that the other one is gone.
func (w *way) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.silent {
		s.Store(true)
	}
}

// TestToken: the token is that of now, and goes nowhere else.
func TestToken(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("one\n"), 0o600))
	c, err := kube.New(kube.Config{Server: l.s.URL, TokenFile: file, Clock: l.clock})
	must(t, err)
	defer c.Close()
	for _, token := range []string{"one", "two"} {
		must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
		_, _ = c.Claim(t.Context(), "a", "none")
	}
	if _, tokens := l.s.Requests(); !slices.Equal(tokens, []string{"one", "two"}) {
		t.Errorf("%q", tokens)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went elsewhere") }))
	defer elsewhere.Close()
	leads := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer leads.Close()
	c, err = kube.New(kube.Config{Server: leads.URL, TokenFile: file})
	must(t, err)
	defer c.Close()
	if _, err := c.Claim(t.Context(), "a", "c"); kube.Code(err) != http.StatusTemporaryRedirect {
		t.Errorf("%v", err)
	}
}

func TestConfig(t *testing.T) {
	env := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	c, err := kube.Config{}.InCluster(func(k string) string { return env[k] })
	if err != nil || c.Server != "https://[fd00::1]:443" || !strings.HasSuffix(c.TokenFile, "/token") || !strings.HasSuffix(c.CAFile, "/ca.crt") {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := (kube.Config{Server: "http://127.0.0.1:1"}).InCluster(func(string) string { return "" }); err != nil || c.TokenFile != "" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := (kube.Config{}).InCluster(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "--kube-server") {
		t.Errorf("%v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	must(t, os.WriteFile(bad, []byte("text"), 0o600))
	for _, c := range []kube.Config{{Server: "10.0.0.1:443"}, {Server: "ftp://x"}, {Server: "https://u:p@x"}, {Server: "http://10.0.0.1", TokenFile: bad}, {Server: "https://x", CAFile: bad}, {Server: "https://x", CAFile: bad + "x"}} {
		if _, err := kube.New(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
}

// TestPodIP: only addresses at which a pod can be are dialled.
func TestPodIP(t *testing.T) {
	for text, ok := range map[string]bool{
		"10.0.0.1": true, "fd00::1": true, "::ffff:10.0.0.1": true, "127.0.0.1": false, "::1": false, "0.0.0.0": false, "::": false, "169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false,
		"224.0.0.1": false, "": false, "evil.test": false, "10.0.0.1:80": false, "::ffff:127.0.0.1": false,
	} {
		c := kube.Claim{Status: kube.ClaimStatus{Sandbox: kube.SandboxStatus{PodIPs: []string{text}}}}
		if _, got := c.PodIP(); got != ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
