package e2b

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"runtime"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// maxSandboxes is how many sandboxes a server has, paused ones as well.
const maxSandboxes = 10_000

// routesREST are the requests of the REST API.
func (s *Server) routesREST() *http.ServeMux {
	m := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				answerError(w, err)
			}
		})
	}
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /health":                     s.health,
		"GET /ready":                      s.ready,
		"POST /v2/sandboxes":              s.create,
		"POST /sandboxes":                 s.create,
		"GET /v2/sandboxes":               s.listSandboxes,
		"GET /sandboxes":                  s.listSandboxes,
		"GET /sandboxes/metrics":          s.metricsOfAll,
		"GET /sandboxes/{id}":             s.detail,
		"DELETE /sandboxes/{id}":          s.killSandbox,
		"POST /sandboxes/{id}/timeout":    s.setTimeout,
		"POST /sandboxes/{id}/refreshes":  s.refresh,
		"POST /sandboxes/{id}/pause":      s.pauseSandbox,
		"POST /sandboxes/{id}/resume":     s.connectSandbox,
		"POST /sandboxes/{id}/connect":    s.connectSandbox,
		"POST /v2/sandboxes/{id}/connect": s.connectSandbox,
		"GET /sandboxes/{id}/metrics":     s.metricsOfOne,
		"POST /sandboxes/{id}/snapshots":  s.createSnapshot,
		"GET /snapshots":                  s.listSnapshots,
		"DELETE /templates/{template}":    s.deleteSnapshot,
		"POST /sandboxes/{id}/fork":       missingHere("a sandbox cannot be forked: make a snapshot, and sandboxes of that"),
		"PUT /sandboxes/{id}/network":     missingHere("the network of a sandbox that runs cannot be changed: --network and --allow-host of the server say what sandboxes reach"),
		"GET /sandboxes/{id}/logs":        missingHere("there are no logs of sandboxes: GET /sandboxes/{id}/history has what was done"),
		"GET /v2/sandboxes/{id}/logs":     missingHere("there are no logs of sandboxes: GET /sandboxes/{id}/history has what was done"),
		"/volumes":                        missingHere("there are no volumes"),
		"/volumes/":                       missingHere("there are no volumes"),
		"/secrets":                        missingHere("there are no secrets: --inject of the server adds them to requests on their way out"),
		"/secrets/":                       missingHere("there are no secrets: --inject of the server adds them to requests on their way out"),
		"/teams":                          missingHere("there are no teams"),
		"/teams/":                         missingHere("there are no teams"),
		"/templates":                      missingHere("templates are folders, and are not built: make a directory below templates in the server's directory"),
		"/templates/":                     missingHere("templates are folders, and are not built: make a directory below templates in the server's directory"),
		"/v2/templates":                   missingHere("templates are folders, and are not built: make a directory below templates in the server's directory"),
		"/v2/templates/":                  missingHere("templates are folders, and are not built: make a directory below templates in the server's directory"),
		"/v3/templates":                   missingHere("templates are folders, and are not built: make a directory below templates in the server's directory"),
		"/": func(http.ResponseWriter, *http.Request) error {
			return wire.Fail(http.StatusNotFound, "there is no such request; commands and files are asked for with the header E2b-Sandbox-Id")
		},
	} {
		handle(pattern, f)
	}
	s.routesOwn(m, func(r *http.Request) (*place, error) {
		sb, err := s.named(r)
		if err != nil {
			return nil, err
		}
		return sb.running(r.Context())
	})
	return m
}

// missingHere answers what is left out.
func missingHere(why string) func(http.ResponseWriter, *http.Request) error {
	return func(http.ResponseWriter, *http.Request) error { return wire.Fail(http.StatusNotImplemented, "%s", why) }
}

// named finds the sandbox of a request's path.
func (s *Server) named(r *http.Request) (*sandbox, error) {
	id := r.PathValue("id")
	if sb := s.sandbox(id); sb != nil {
		if _, _, gone := sb.look(); !gone {
			return sb, nil
		}
	}
	return nil, notFound(frontend.Short([]byte(frontend.Valid(id))))
}

// create makes a sandbox, and starts it.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	var n wire.NewSandbox
	if err := wire.Read(r, &n); err != nil {
		return err
	}
	if err := n.Unsupported("--network, --allow-host and --deny-host of the server say what sandboxes reach; only allowPublicTraffic and allow_internet_access can be asked for"); err != nil {
		return err
	}
	life, err := wire.Timeout(n.Timeout)
	if err != nil {
		return err
	}
	if _, err := frontend.Environ(s.o.Environ, n.EnvVars); err != nil {
		return wire.Fail(http.StatusBadRequest, "envVars: %s", err)
	}
	from, err := s.template(cmp.Or(n.TemplateID, wire.BaseTemplate))
	if err != nil {
		return err
	}
	now := s.o.Clock.Now()
	sb := s.newSandbox(wire.NewID())
	sb.meta = metadata{
		ID: sb.id, Template: cmp.Or(n.TemplateID, wire.BaseTemplate), Token: newToken(), StartedAt: now, EndAt: now.Add(life), Life: life, OnTimeout: wire.OnTimeoutKill,
		AutoResume: n.AutoResume != nil && n.AutoResume.Enabled, Offline: n.Offline(), Metadata: n.Metadata, Envs: n.EnvVars,
	}
	if n.AutoPause {
		sb.meta.OnTimeout = wire.OnTimeoutPause
	}
	if n.Private() {
		sb.meta.Traffic = newToken()
	}
	if err := s.make(r.Context(), sb, from); err != nil {
		return err
	}
	wire.Answer(w, http.StatusCreated, s.object(sb))
	return nil
}

// make makes a sandbox's directory and starts it. After an error nothing of it is left.
func (s *Server) make(ctx context.Context, sb *sandbox, from string) (err error) {
	s.mu.Lock()
	full := len(s.sandboxes)+s.making >= maxSandboxes
	if !full {
		s.making++
	}
	s.mu.Unlock()
	if full {
		return wire.Fail(http.StatusTooManyRequests, "there are %d sandboxes: end some", maxSandboxes)
	}
	defer func() {
		s.mu.Lock()
		s.making--
		s.mu.Unlock()
		if err != nil {
			sb.mu.Lock()
			sb.gone = true
			sb.mu.Unlock()
			s.forget(sb)
			if rerr := s.removeSandbox(context.WithoutCancel(ctx), sb); rerr != nil {
				s.o.Logger.Warn("what is left of a sandbox that did not start", "component", "e2b", "sandbox", sb.id, "err", rerr)
			}
		}
	}()
	if err := os.Mkdir(sb.dir, 0o700); err != nil {
		return frontend.Ours(err)
	}
	if err := s.copyFolder(ctx, sb.home(), from); err != nil {
		return err
	}
	if err := sb.save(func(*metadata) {}); err != nil {
		return err
	}
	if _, err := sb.launch(ctx, sb.meta.Life); err != nil { // nobody else knows it yet
		return err
	}
	s.mu.Lock()
	s.sandboxes[sb.id] = sb
	s.mu.Unlock()
	sb.arm()
	if s.draining.Load() { // it has come too late to be closed with the others
		sb.rest(context.WithoutCancel(ctx)) // whose client may have been sent away
	}
	return nil
}

// domain is what clients are told of the names of ports.
func (s *Server) domain() *string {
	if s.o.Domain == "" {
		return nil
	}
	return &s.o.Domain
}

// object is what a client is told that has made a sandbox, or has connected to it.
func (s *Server) object(sb *sandbox) wire.Sandbox {
	m, _, _ := sb.look()
	o := wire.Sandbox{SandboxID: m.ID, TemplateID: m.Template, ClientID: wire.ClientID, EnvdVersion: wire.EnvdVersion, EnvdAccessToken: m.Token, Domain: s.domain()}
	if m.Traffic != "" {
		o.TrafficAccessToken = &m.Traffic
	}
	return o
}

// describe is what a client is told of a sandbox that it asks about.
func (sb *sandbox) describe(usage usage) wire.Detail {
	m, p, _ := sb.look()
	d := wire.Detail{
		SandboxID: m.ID, TemplateID: m.Template, ClientID: wire.ClientID, EnvdVersion: wire.EnvdVersion, StartedAt: m.StartedAt.UTC(), EndAt: m.EndAt.UTC(), State: wire.StatePaused,
		CPUCount: runtime.NumCPU(), MemoryMB: usage.memory >> 20, DiskSizeMB: usage.disk >> 20, Metadata: m.Metadata,
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	if p != nil && !ended(p.live) {
		d.State = wire.StateRunning
	}
	return d
}

// detail answers about one sandbox.
func (s *Server) detail(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err != nil {
		return err
	}
	m, _, _ := sb.look()
	d := sb.describe(s.usage(s.o.Root))
	d.EnvdAccessToken, d.Domain = m.Token, s.domain()
	d.Lifecycle = &wire.Lifecycle{OnTimeout: m.OnTimeout, AutoResume: m.AutoResume}
	online := !m.Offline
	d.Internet = &online
	wire.Answer(w, http.StatusOK, d)
	return nil
}

// killSandbox ends a sandbox.
func (s *Server) killSandbox(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err == nil {
		err = sb.kill(r.Context(), anyRound)
	}
	return noContent(w, err)
}

func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// setTimeout says how long a sandbox lives from now on.
func (s *Server) setTimeout(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err != nil {
		return err
	}
	var m struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := wire.Read(r, &m); err != nil {
		return err
	}
	if m.Timeout == nil {
		return wire.Fail(http.StatusBadRequest, "timeout is missing")
	}
	life, err := wire.Timeout(m.Timeout)
	if err != nil {
		return err
	}
	return noContent(w, sb.lives(life, false))
}

// refresh has a sandbox live longer.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err != nil {
		return err
	}
	var m struct {
		Duration *int64 `json:"duration"`
	}
	if err := wire.Read(r, &m); err != nil {
		return err
	}
	life, err := wire.Timeout(m.Duration)
	if err == nil {
		err = sb.lives(life, true)
	}
	return noContent(w, err)
}

// pauseSandbox closes the session of a sandbox.
func (s *Server) pauseSandbox(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err == nil {
		err = sb.pause(r.Context(), anyRound)
	}
	return noContent(w, err)
}

// connectSandbox starts a sandbox that is paused, and has one live longer.
func (s *Server) connectSandbox(w http.ResponseWriter, r *http.Request) error {
	sb, err := s.named(r)
	if err != nil {
		return err
	}
	var m struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := wire.Read(r, &m); err != nil {
		return err
	}
	life, err := wire.Timeout(m.Timeout)
	if err != nil {
		return err
	}
	_, before, _ := sb.look()
	p, err := sb.start(r.Context(), life)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if p == before {
		status = http.StatusOK
	}
	wire.Answer(w, status, s.object(sb))
	return nil
}
