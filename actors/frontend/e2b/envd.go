package e2b

import (
	"context"
	"io"
	"net/http"
	"runtime"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// routesInner are the requests of a sandbox: what envd answers, and, where there is one sandbox, our own.
func (s *Server) routesInner() *http.ServeMux {
	m := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				answerError(w, err)
			}
		})
	}
	handle("GET /health", s.health)
	handle("GET /ready", s.ready)
	handle("GET /metrics", s.metrics)
	handle("GET /envs", s.envs)
	handle("POST /init", s.initialise)
	handle("GET /files", s.download)
	handle("POST /files", s.upload)
	handle("POST /files/compose", s.compose)
	handle("/", func(http.ResponseWriter, *http.Request) error {
		return wire.Fail(http.StatusNotFound, "there is no such request")
	})
	for name, call := range s.unaryCalls() {
		m.HandleFunc("POST /"+name, s.unary(call))
	}
	for name, call := range s.streamCalls() {
		m.HandleFunc("POST /"+name, s.streams(call))
	}
	m.HandleFunc("POST /process.Process/StreamInput", s.inputStream)
	if s.o.Live != nil {
		handle("GET /sandboxes/{id}/metrics", s.metricsOfThis)
		s.routesOwn(m, func(r *http.Request) (*place, error) {
			p := placeOf(r)
			return p, p.admit(r)
		})
	}
	return m
}

// unaryCall is a call with one message and one answer; id is the call's.
type unaryCall func(p *place, ctx context.Context, id string, message []byte) (any, error)

func (s *Server) unaryCalls() map[string]unaryCall {
	about := func(do func(*place, context.Context, processCall) error) unaryCall {
		return func(p *place, ctx context.Context, _ string, message []byte) (any, error) {
			return p.about(ctx, message, func(ctx context.Context, c processCall) error { return do(p, ctx, c) })
		}
	}
	return map[string]unaryCall{
		"process.Process/List": func(p *place, ctx context.Context, _ string, _ []byte) (any, error) {
			return p.listProcesses(ctx)
		},
		"process.Process/SendInput":  about((*place).sendInput),
		"process.Process/SendSignal": about((*place).sendSignal),
		"process.Process/Update":     about((*place).update),
		"process.Process/CloseStdin": about((*place).closeStdin),

		"filesystem.Filesystem/Stat":             (*place).stat,
		"filesystem.Filesystem/ListDir":          (*place).listDir,
		"filesystem.Filesystem/MakeDir":          (*place).makeDir,
		"filesystem.Filesystem/Move":             (*place).move,
		"filesystem.Filesystem/Remove":           (*place).remove,
		"filesystem.Filesystem/CreateWatcher":    (*place).createWatcher,
		"filesystem.Filesystem/GetWatcherEvents": (*place).events,
		"filesystem.Filesystem/RemoveWatcher":    (*place).removeWatcher,
	}
}

// streamCall is a call with one message whose answer is a stream: it opens that when it has something to say. Until then an error is still the whole answer.
type streamCall func(s *Server, r *http.Request, p *place, message []byte, open func() *stream) error

func (s *Server) streamCalls() map[string]streamCall {
	return map[string]streamCall{
		"process.Process/Start":          (*Server).start,
		"process.Process/Connect":        (*Server).connect,
		"filesystem.Filesystem/WatchDir": (*Server).watchDir,
	}
}

// entry looks at a call of Connect's protocol before its message is read.
func entry(r *http.Request, kind string) (*place, error) {
	p := placeOf(r)
	if err := p.admit(r); err != nil {
		return nil, err
	}
	if err := checkCaller(r); err != nil {
		return nil, err
	}
	if !mediaType(r, kind) {
		return nil, wire.Fail(http.StatusUnsupportedMediaType, "the Content-Type has to be %s: only JSON is spoken here", kind)
	}
	return p, plain(r)
}

// unary answers a call that does not stream.
func (s *Server) unary(call unaryCall) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := func() (any, error) {
			p, err := entry(r, jsonType)
			if err != nil {
				return nil, err
			}
			message, err := io.ReadAll(s.bounded(w, r, maxMessage))
			if err != nil {
				return nil, err
			}
			ctx, id, end, err := s.begin(r, p.live)
			if err != nil {
				return nil, err
			}
			defer end()
			return call(p, ctx, id, message)
		}()
		answerRPC(w, v, err)
	}
}

// streams answers a call whose answer is a stream.
func (s *Server) streams(call streamCall) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var out *stream
		open := func() *stream {
			out = newStream(w)
			return out
		}
		err := func() error {
			p, err := entry(r, streamType)
			if err != nil {
				return err
			}
			body := s.bounded(w, r, maxMessage+frameHead)
			message, err := readFrame(body)
			if err != nil {
				return oneMessage(err)
			}
			if _, err := readFrame(body); err != io.EOF {
				return wire.Fail(http.StatusBadRequest, "the call has one message, and more has come")
			}
			return call(s, r, p, message, open)
		}()
		if out == nil {
			open()
		}
		out.end(err)
	}
}

// inputStream answers the call whose request is a stream.
func (s *Server) inputStream(w http.ResponseWriter, r *http.Request) {
	err := func() error {
		p, err := entry(r, streamType)
		if err != nil {
			return err
		}
		ctx, _, end, err := s.begin(r, p.live)
		if err != nil {
			return err
		}
		defer end()
		return s.streamInput(ctx, p, s.bounded(w, r, maxUpload))
	}()
	out := newStream(w)
	if err == nil {
		_ = out.send(struct{}{}) // who has gone needs no answer
	}
	out.end(err)
}

// oneMessage is the error of a call without its message.
func oneMessage(err error) error {
	if err == io.EOF {
		return wire.Fail(http.StatusBadRequest, "the call has no message")
	}
	return err
}

// health says that the sandbox runs.
func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	if p, ok := r.Context().Value(placeKey{}).(*place); ok && ended(p.live) {
		return wire.Fail(wire.StatusGone, "the session has ended")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ready says that requests are taken: not when the server is about to end.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if s.draining.Load() {
		return ending()
	}
	return s.health(w, r)
}

// ending is the error about a server that has been told to end.
func ending() error { return wire.Fail(http.StatusServiceUnavailable, "the server is ending") }

// metrics are those of the machine, and how much of the processors the sandbox takes.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	p := placeOf(r)
	if err := p.admit(r); err != nil {
		return err
	}
	m := s.usage(p.home)
	wire.Answer(w, http.StatusOK, map[string]any{
		"ts": s.o.Clock.Now().Unix(), "cpu_count": runtime.NumCPU(), "cpu_used_pct": p.spent(r.Context(), s.o.Clock.Now()), "mem_total": m.memory, "mem_used": m.memoryUsed, "mem_cache": 0,
		"mem_total_mib": m.memory >> 20, "mem_used_mib": m.memoryUsed >> 20, "disk_used": m.diskUsed, "disk_total": m.disk,
	})
	return nil
}

// envs are the variables that clients have given all commands.
func (s *Server) envs(w http.ResponseWriter, r *http.Request) error {
	p := placeOf(r)
	if err := p.admit(r); err != nil {
		return err
	}
	wire.Answer(w, http.StatusOK, p.variables())
	return nil
}

// initialise gives the sandbox its token, once, and variables for all commands. A server that is about to end takes neither.
func (s *Server) initialise(w http.ResponseWriter, r *http.Request) error {
	if s.draining.Load() {
		return ending()
	}
	p := placeOf(r)
	message, err := io.ReadAll(s.bounded(w, r, maxMessage))
	if err != nil {
		return err
	}
	var m struct {
		Token       string            `json:"accessToken"`
		Envs        map[string]string `json:"envVars"`
		DefaultUser string            `json:"defaultUser"`
	}
	if err := wire.Decode(message, &m); err != nil {
		return err
	}
	if _, err := frontend.Environ(p.env, m.Envs); err != nil {
		return wire.Fail(http.StatusBadRequest, "envVars: %s", err)
	}
	if err := checkUser(m.DefaultUser); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.token == "" {
		if err := unguarded(r, p.open); err != nil {
			return err
		}
	}
	token := p.token
	switch given := r.Header.Get("X-Access-Token"); {
	case p.token == "" && s.o.Live != nil && len(m.Token) >= minKey && len(m.Token) <= maxToken:
		token = m.Token
	case p.token == "" && m.Token != "":
		return wire.Fail(http.StatusBadRequest, "accessToken: it has to have %d to %d characters", minKey, maxToken)
	case p.token == "" && !p.open:
		return wire.Fail(http.StatusUnauthorized, "the first POST /init has to give the sandbox its accessToken")
	case p.token != "" && !same(given, p.token) && !same(m.Token, p.token):
		return wire.Fail(http.StatusUnauthorized, "this sandbox has its token already, and the request does not know it")
	case p.token != "" && m.Token != "" && !same(m.Token, p.token):
		return wire.Fail(http.StatusConflict, "this sandbox has its token already")
	}
	if err := s.setVariables(p, token, m.Envs); err != nil {
		return err
	}
	p.token = token
	w.WriteHeader(http.StatusNoContent)
	return nil
}
