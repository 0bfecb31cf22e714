package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
)

const (
	// dialTime bounds how long a pod has to take a connection, initTime how long it has to take its token.
	dialTime = 10 * time.Second
	initTime = 10 * time.Second
	// maxReplay is how much of a request is kept so that it can be sent again to a pod that has started anew.
	maxReplay = 64 << 10
)

// transport is how pods are spoken to. What they send is bounded, and they lead nowhere else.
func (g *Gateway) transport() *http.Transport {
	return &http.Transport{
		DialContext: g.o.Dial, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 256 << 10, DisableCompression: true,
	}
}

// podAddress is where a claim's pod listens.
func (g *Gateway) podAddress(c kube.Claim) (string, bool) {
	ip, ok := c.PodIP()
	return net.JoinHostPort(ip.String(), strconv.Itoa(int(g.o.PodPort))), ok
}

// errSilent is wrapped where a pod does not answer, or is not ready to.
var errSilent = errors.New("it does not answer")

// initialise gives a pod its token, and variables for its commands.
func (g *Gateway) initialise(ctx context.Context, c kube.Claim, envs map[string]string) error {
	address, ok := g.podAddress(c)
	if !ok {
		return wire.Fail(wire.StatusGone, "the sandbox has no pod")
	}
	token := g.token(forEnvd, c.Metadata.Namespace, c.Metadata.Name)
	body, err := json.Marshal(map[string]any{"accessToken": token, "envVars": envs})
	if err != nil {
		return err
	}
	status, err := g.post(ctx, "http://"+address+"/init", token, body)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w at port %d: %w", errSilent, g.o.PodPort, err)
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable:
		return fmt.Errorf("%w at port %d but with %d", errSilent, g.o.PodPort, status)
	case status < 200 || status >= 300:
		g.o.Logger.Warn("a pod does not take its token", "namespace", c.Metadata.Namespace, "claim", c.Metadata.Name, "status", status)
		return wire.Fail(wire.StatusGone, "the sandbox's pod does not take its token (it answers %d): is it one of this program's, and has nobody had it before?", status)
	}
	return nil
}

// post sends one request to a pod, and reads nothing but the status.
func (g *Gateway) post(ctx context.Context, to, token string, body []byte) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Access-Token", token)
	a, err := g.pods.RoundTrip(r) // which follows no redirect
	if err != nil {
		return 0, err
	}
	_ = a.Body.Close()
	return a.StatusCode, nil
}

// pass passes a request on that names a sandbox.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, a wire.Address) error {
	c, ok := g.lookUp(r, a)
	if !ok {
		return wire.Fail(wire.StatusGone, "the sandbox was not found") // and nobody is told whether it is
	}
	namespace, id := c.Metadata.Namespace, c.Metadata.Name
	if a.Port == EnvdPort {
		signed := r.URL.Path == "/files" && r.URL.Query().Has("signature")
		if !signed && !equal(r.Header.Get("X-Access-Token"), g.token(forEnvd, namespace, id)) {
			if r.URL.Path != "/health" {
				return wire.Fail(http.StatusUnauthorized, "the access token (X-Access-Token) is missing, or not this sandbox's")
			}
			signed = true // everybody may ask whether it is there
		}
		return g.forward(w, r, c, a.Port, !signed)
	}
	if private(c) && !equal(r.Header.Get("E2b-Traffic-Access-Token"), g.token(forTraffic, namespace, id)) {
		return wire.Fail(http.StatusForbidden, "the token for this sandbox's ports (E2b-Traffic-Access-Token) is missing or wrong")
	}
	return g.forward(w, r, c, a.Port, true)
}

// lookUp finds the claim that a request is for. The API server is asked for those alone who know the sandbox's token, if this replica has not heard of the sandbox yet, or not of its pod: another one may have started it just now.
func (g *Gateway) lookUp(r *http.Request, a wire.Address) (known kube.Claim, ok bool) {
	for _, name := range g.namespaces() {
		if known, ok = g.store(name).Get(a.ID); !ok {
			continue
		}
		known.Metadata.Namespace = name
		if _, has := known.PodIP(); has && !paused(known) {
			return known, true
		}
		break
	}
	namespace, may := g.namespaceOf(a.ID, r.Header.Get("X-Access-Token"))
	if !may {
		return known, ok
	}
	ctx, cancel := context.WithTimeout(r.Context(), syncTime)
	defer cancel()
	c, err := g.o.Kube.Claim(ctx, namespace, a.ID)
	if err != nil || c.Metadata.Labels[managedLabel] != managedValue {
		return known, ok
	}
	c.Metadata.Namespace = namespace
	g.store(namespace).Saw(c)
	return c, true
}

// outHeaders are what no pod gets to see of a request; it gets its own token where trusted says so.
var outHeaders = [...]string{"X-Api-Key", "X-Access-Token", "E2b-Traffic-Access-Token", "E2b-Sandbox-Id", "E2b-Sandbox-Port"}

// forward passes a request on to a claim's pod: commands, files, ports, streams and WebSockets. With trusted the pod gets the sandbox's token. A pod that has started anew does not know it any more: it is told, and the request is sent again if
// it was short enough to be kept.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, c kube.Claim, port uint16, trusted bool) error {
	if asks := port == EnvdPort && r.URL.Path == "/health"; trusted && !asks && resumes(c) {
		var err error
		if c, err = g.resume(r.Context(), c); err != nil {
			return err
		}
	}
	if paused(c) {
		return wire.Fail(wire.StatusGone, "the sandbox is paused: connect to it first")
	}
	host, ok := g.podAddress(c)
	if !ok || suspended(c) { // a pod that ends may answer still
		return wire.Fail(wire.StatusGone, "the sandbox has no pod now")
	}
	token := g.token(forEnvd, c.Metadata.Namespace, c.Metadata.Name)
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: host})
			p.Out.Host = p.In.Host
			for _, name := range outHeaders {
				p.Out.Header.Del(name)
			}
			if trusted {
				p.Out.Header.Set("X-Access-Token", token)
			}
			p.Out.Header.Set("E2b-Sandbox-Id", c.Metadata.Name)
			p.Out.Header.Set("E2b-Sandbox-Port", strconv.Itoa(int(port)))
			p.SetXForwarded()
		},
		Transport: g.pods, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(g.o.Logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			g.o.Logger.Debug("a pod", "claim", c.Metadata.Name, "port", port, "err", err)
			answerError(w, wire.Fail(wire.StatusGone, "the sandbox does not answer"))
		},
	}
	if trusted && port == EnvdPort { // what a program of the sandbox's says at another port is its own business
		proxy.Transport = &again{g: g, claim: c}
	}
	proxy.ServeHTTP(w, r)
	return nil
}

// again sends a request once more to a pod that does not know its token.
type again struct {
	g     *Gateway
	claim kube.Claim
}

// RoundTrip implements [http.RoundTripper].
func (t *again) RoundTrip(r *http.Request) (*http.Response, error) {
	var kept []byte
	short := r.Body == nil || r.ContentLength >= 0 && r.ContentLength <= maxReplay
	if short && r.Body != nil {
		var err error
		if kept, err = io.ReadAll(io.LimitReader(r.Body, maxReplay)); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(kept))
	}
	a, err := t.g.pods.RoundTrip(r)
	if err != nil || a.StatusCode != http.StatusUnauthorized || r.Header.Get("Upgrade") != "" {
		return a, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), initTime)
	defer cancel()
	if t.g.initialise(ctx, t.claim, nil) != nil || !short {
		return a, nil // it has its reasons, or the client has to ask again
	}
	_ = a.Body.Close()
	r = r.Clone(r.Context())
	if kept != nil {
		r.Body = io.NopCloser(bytes.NewReader(kept))
	}
	return t.g.pods.RoundTrip(r)
}
