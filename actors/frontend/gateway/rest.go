package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

const (
	// maxBody bounds a body of the REST API, and bodyPause how long a client may take for each part of it.
	maxBody   = 1 << 20
	bodyPause = 30 * time.Second
)

// call is a request of a tenant's.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context
	namespace string
	id        string // of the path; empty: it has none
}

// routes are the requests of the REST API, behind its rules.
func (g *Gateway) routes() http.Handler {
	m := http.NewServeMux()
	for pattern, f := range map[string]func(call) error{
		"POST /v2/sandboxes":              g.create,
		"POST /sandboxes":                 g.create,
		"GET /v2/sandboxes":               g.list,
		"GET /sandboxes":                  g.list,
		"GET /sandboxes/{id}":             g.detail,
		"DELETE /sandboxes/{id}":          g.kill,
		"POST /sandboxes/{id}/timeout":    g.setTimeout,
		"POST /sandboxes/{id}/pause":      g.pause,
		"POST /sandboxes/{id}/resume":     g.connect,
		"POST /sandboxes/{id}/connect":    g.connect,
		"POST /v2/sandboxes/{id}/connect": g.connect,
		"POST /sandboxes/{id}/undo":       g.own,
		"POST /sandboxes/{id}/redo":       g.own,
		"POST /sandboxes/{id}/restore":    g.own,
		"POST /sandboxes/{id}/marks":      g.own,
		"GET /sandboxes/{id}/marks":       g.own,
		"GET /sandboxes/{id}/history":     g.own,
		"GET /sandboxes/{id}/history/{s}": g.own,
		"GET /sandboxes/{id}/diff":        g.own,
		"GET /sandboxes/{id}/metrics":     g.metrics,

		"POST /sandboxes/{id}/snapshots": missing("a sandbox of a cluster has no snapshots: make a mark (POST /sandboxes/{id}/marks), and undo to it"),
		"GET /snapshots":                 missing("a sandbox of a cluster has no snapshots: make a mark (POST /sandboxes/{id}/marks), and undo to it"),
		"POST /sandboxes/{id}/fork":      missing("a sandbox cannot be forked"),
		"PUT /sandboxes/{id}/network":    missing("the cluster's NetworkPolicy says what sandboxes reach"),
		"GET /sandboxes/metrics":         missing("ask for one sandbox (GET /sandboxes/{id}/metrics): its pod measures it"),
		"GET /sandboxes/{id}/logs":       missing("the cluster keeps the logs of its pods; GET /sandboxes/{id}/history has what was done"),
		"/volumes":                       missing("the template says which volumes there are"),
		"/volumes/":                      missing("the template says which volumes there are"),
		"/secrets":                       missing("there are no secrets"),
		"/secrets/":                      missing("there are no secrets"),
		"/teams":                         missing("a key is its tenant's"),
		"/templates":                     missing("templates are SandboxWarmPools of the cluster, and are not built here"),
		"/templates/":                    missing("templates are SandboxWarmPools of the cluster, and are not built here"),
		"/v2/templates/":                 missing("templates are SandboxWarmPools of the cluster, and are not built here"),
		"/v3/templates":                  missing("templates are SandboxWarmPools of the cluster, and are not built here"),
		"/": func(call) error {
			return wire.Fail(http.StatusNotFound, "there is no such request; commands and files are asked for with the header E2b-Sandbox-Id")
		},
	} {
		m.HandleFunc(pattern, g.authorized(f))
	}
	m.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("GET /ready", g.ready)
	access := g.o.Access
	access.Methods, access.Headers = []string{"GET", "POST", "DELETE"}, []string{"Content-Type", "X-API-Key"}
	access.Refuse = func(w http.ResponseWriter, _ *http.Request, status int, text string) {
		answerError(w, wire.Fail(status, "%s", text))
	}
	return access.Handler(m)
}

// missing answers what is left out.
func missing(why string) func(call) error {
	return func(call) error { return wire.Fail(http.StatusNotImplemented, "%s", why) }
}

// authorized finds out whose request it is.
func (g *Gateway) authorized(f func(call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := g.o.Keys.Find(r.Header.Get("X-Api-Key"))
		if !ok || !isLabel(key.Name) {
			answerError(w, wire.Fail(http.StatusUnauthorized, "the API key (X-API-Key) is missing, or none of this gateway's"))
			return
		}
		r.Body = web.Body(w, r, maxBody, bodyPause)
		if err := f(call{w, r, r.Context(), key.Name, r.PathValue("id")}); err != nil {
			answerError(w, err)
		}
	}
}

// ready says that requests are taken: not when the gateway is about to end, and not before the cluster has told what there is of any namespace. One to which the gateway has no right does not stop the others.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if g.ending.Load() {
		answerError(w, wire.Fail(http.StatusServiceUnavailable, "the gateway is ending"))
		return
	}
	names := g.namespaces()
	told := make(chan error, len(names))
	for _, name := range names {
		go func() { told <- g.store(name).Synced(ctx) }()
	}
	for range names {
		if <-told == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	answerError(w, wire.Fail(http.StatusServiceUnavailable, "the cluster has not told yet which sandboxes there are"))
}

func (g *Gateway) domain() *string {
	if g.o.Domain == "" {
		return nil
	}
	return &g.o.Domain
}

// object is what a client is told that has made a sandbox, or has connected to it.
func (g *Gateway) object(c kube.Claim) wire.Sandbox {
	namespace, id := c.Metadata.Namespace, c.Metadata.Name
	o := wire.Sandbox{SandboxID: id, TemplateID: c.Spec.WarmPoolRef.Name, ClientID: wire.ClientID, EnvdVersion: wire.EnvdVersion, EnvdAccessToken: g.token(forEnvd, namespace, id), Domain: g.domain()}
	if private(c) {
		t := g.token(forTraffic, namespace, id)
		o.TrafficAccessToken = &t
	}
	return o
}

// describe is what a client is told of a sandbox that it asks about. What the pod may take is the template's to say.
func (g *Gateway) describe(c kube.Claim) wire.Detail {
	d := wire.Detail{
		SandboxID: c.Metadata.Name, TemplateID: c.Spec.WarmPoolRef.Name, ClientID: wire.ClientID, EnvdVersion: wire.EnvdVersion, StartedAt: c.Metadata.Created.UTC(), EndAt: endOf(c).UTC(),
		State: wire.StateRunning, Metadata: metadataOf(c),
	}
	if paused(c) {
		d.State = wire.StatePaused
	}
	if d.EndAt.IsZero() {
		d.EndAt = g.o.Clock.Now().Add(wire.MaxTimeout).UTC() // a paused one has no end, and clients want one
	}
	return d
}

// detail answers about one sandbox.
func (g *Gateway) detail(q call) error {
	c, err := g.find(q.ctx, q.namespace, q.id)
	if err != nil {
		return err
	}
	d := g.describe(c)
	d.EnvdAccessToken, d.Domain, d.Lifecycle = g.token(forEnvd, q.namespace, q.id), g.domain(), &wire.Lifecycle{OnTimeout: wire.OnTimeoutKill, AutoResume: c.Metadata.Annotations[autoResumeNote] == "true"}
	if autoPauses(c) {
		d.Lifecycle.OnTimeout = wire.OnTimeoutPause
	}
	wire.Answer(q.w, http.StatusOK, d)
	return nil
}

// kill ends a sandbox.
func (g *Gateway) kill(q call) error {
	c, err := g.find(q.ctx, q.namespace, q.id)
	if err != nil {
		return err
	}
	ctx, cancel := kube.Within(q.ctx, g.o.Clock, changeTime)
	defer cancel()
	err = g.o.Kube.Retry(ctx, func(ctx context.Context) error {
		return g.o.Kube.DeleteClaim(ctx, q.namespace, q.id, c.Metadata.UID)
	})
	switch kube.Code(err) {
	case http.StatusNotFound, http.StatusConflict: // somebody else was faster, and it may be another one now
		return notFound(q.id)
	}
	if err != nil {
		return g.cluster(err)
	}
	c.Metadata.Deleted = g.o.Clock.Now()
	g.store(q.namespace).Saw(c)
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// metrics are what the sandbox's pod measures. Where there is none nothing is measured, and nobody starts one for that.
func (g *Gateway) metrics(q call) error {
	c, err := g.find(q.ctx, q.namespace, q.id)
	if err != nil {
		return err
	}
	if paused(c) || suspended(c) {
		wire.Answer(q.w, http.StatusOK, []any{})
		return nil
	}
	return g.forward(q.w, q.r, c, EnvdPort, true)
}

// own passes a request of our own on to the sandbox.
func (g *Gateway) own(q call) error {
	c, err := g.find(q.ctx, q.namespace, q.id)
	if err != nil {
		return err
	}
	return g.forward(q.w, q.r, c, EnvdPort, true)
}
