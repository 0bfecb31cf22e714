package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/web"
)

// Limits of clients over HTTP.
const (
	// DefaultClients are how many may be connected at a time, DefaultIdle how long one may ask nothing.
	DefaultClients = 64
	DefaultIdle    = time.Hour
	// bodyPause is how long a client may take for each part of a message.
	bodyPause = 30 * time.Second
	// answerTime is how long the answers of the calls that an end cancels may take.
	answerTime = 10 * time.Second
	// leaveTime is how long clients may take to go then.
	leaveTime = 5 * time.Second
)

const (
	sessionHeader = "Mcp-Session-Id"
	// callHeader leads from what the SDK hands on to the request that it came by. What a client sends under this name is dropped.
	callHeader = "Sandbox-Mcp-Call"
)

// HTTPOptions make an [HTTP].
type HTTPOptions struct {
	// Keys are what clients show as bearer tokens; nil: none is asked for. A client is known by its key, too: another key does not reach it.
	Keys *web.Keys
	// Clients is how many may be connected at a time, and Idle how long one may be without a request; 0 means the constants. One more takes the place of the one that has asked nothing for the longest time.
	Clients int
	Idle    time.Duration
}

// HTTP serves clients over Streamable HTTP, by the SDK's handler. It is safe for concurrent use. Which names and pages may ask is for [web.Access] to say: see [CrossOrigin].
type HTTP struct {
	server *Server
	o      HTTPOptions
	sdk    http.Handler

	mu      sync.Mutex
	clients map[string]*visitor // by the id of the SDK's session
	opening int                 // clients that are about to connect
	posts   map[string]*post    // by what callHeader says
	numbers int64
	closed  bool

	wg      sync.WaitGroup // visitors; Add with mu, and not once closed
	passing sync.WaitGroup // posts; Add with mu, and not once closed
}

// HTTP makes a handler. A server has one at most. Close it before the server; it may be closed twice.
func (s *Server) HTTP(o HTTPOptions) *HTTP {
	if o.Clients == 0 {
		o.Clients = DefaultClients
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	h := &HTTP{server: s, o: o, clients: map[string]*visitor{}, posts: map[string]*post{}}
	h.sdk = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Logger: quiet(s.log), MaxRequestBodyBytes: MaxMessageBytes, DisableLocalhostProtection: true, // web.Access is stricter
	})
	s.http.Store(h)
	return h
}

// CrossOrigin adds to the rules what pages that are allowed need for this protocol.
func CrossOrigin(a web.Access) web.Access {
	a.Methods = []string{http.MethodPost, http.MethodGet, http.MethodDelete}
	a.Headers = []string{"Authorization", "Content-Type", "Accept", sessionHeader, "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"}
	a.Exposed = []string{sessionHeader, "WWW-Authenticate"}
	return a
}

// Serving is how clients are served by [web.Serve], at whose end they are closed. log may be nil.
func (h *HTTP) Serving(log *slog.Logger) web.Serving {
	return web.Serving{Logger: log, Ending: func(context.Context) { h.Close() }, Grace: leaveTime}
}

// Close cancels the calls of all clients, has their answers sent, ends the clients, and returns when they have ended.
func (h *HTTP) Close() {
	h.mu.Lock()
	h.closed = true
	for _, v := range h.clients {
		v.cancel()
	}
	h.mu.Unlock()
	h.answered() // the SDK sends none of a session that it closes
	h.mu.Lock()
	for _, v := range h.clients {
		go v.end()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// answered waits for the messages that are on their way, as long as that may take.
func (h *HTTP) answered() {
	all, late := make(chan struct{}), make(chan struct{})
	go func() { h.passing.Wait(); close(all) }()
	stop := h.server.clock.AfterFunc(answerTime, func() { close(late) })
	defer stop()
	select {
	case <-all:
	case <-late:
	}
}

// ServeHTTP implements [http.Handler].
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var key web.Key
	if h.o.Keys != nil {
		var ok bool
		if key, ok = h.o.Keys.Find(web.Bearer(r)); !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			web.PlainRefusal(w, r, http.StatusUnauthorized, "the bearer token is missing or wrong")
			return
		}
	}
	var v *visitor
	if id := r.Header.Get(sessionHeader); id != "" {
		if v = h.client(id, key); v == nil {
			http.Error(w, "there is no such session: initialize another one", http.StatusNotFound)
			return
		}
		defer v.asks()()
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, v, key)
	case http.MethodDelete:
		if v != nil {
			v.cancel() // or the end would wait for the calls
		}
		h.sdk.ServeHTTP(w, r)
	default:
		h.sdk.ServeHTTP(w, r)
	}
}

// client finds a client, who must have shown the same key when it came.
func (h *HTTP) client(id string, key web.Key) *visitor {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.clients[id]; v != nil && v.key == key {
		return v
	}
	return nil
}

// post is a message that is on its way through the SDK.
type post struct {
	key   web.Key
	v     *visitor        // nil: it has none yet
	id    json.RawMessage // of a call
	size  int
	begun bool // it has reached its handler
}

// post passes one message on.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, v *visitor, key web.Key) {
	text, err := io.ReadAll(web.Body(w, r, MaxMessageBytes, bodyPause))
	if err != nil {
		status := http.StatusBadRequest
		if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
			status = http.StatusRequestEntityTooLarge
		}
		h.refuse(w, status, nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message cannot be read, or is longer than %d bytes", MaxMessageBytes))
		return
	}
	text = bytes.TrimSpace(text)
	env, problem := inspect(text)
	if problem != nil {
		h.refuse(w, http.StatusBadRequest, env.ID, problem.code, problem.text)
		return
	}
	p := &post{key: key, v: v, size: len(text)}
	if env.Method != nil && env.ID != nil {
		p.id = env.ID
	}
	if env.Method != nil && env.ID == nil && !passes(*env.Method, len(text)) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	number, why := h.admit(p)
	if why != "" {
		w.Header().Set("Retry-After", "1")
		h.refuse(w, http.StatusTooManyRequests, env.ID, codeOverloaded, why)
		return
	}
	defer h.passed(number)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set(callHeader, number)
	h.sdk.ServeHTTP(w, r)
}

// passes reports whether a notification matters here.
func passes(method string, size int) bool {
	return size <= maxNotificationBytes && (method == "notifications/initialized" || method == "notifications/cancelled")
}

// admit gives a message its number, unless there are too many: then it says so.
func (h *HTTP) admit(p *post) (number, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return "", "the server ends"
	case p.v == nil && len(h.clients)+h.opening >= h.o.Clients && !h.makeRoom():
		return "", fmt.Sprintf("there are %d clients already", h.o.Clients)
	case p.v != nil && p.id != nil && !p.v.admit(p.size):
		return "", fmt.Sprintf("too many requests at once: wait for answers (at most %d requests or %d bytes may be unanswered)", MaxCalls, maxCallBytes)
	}
	if p.v == nil {
		h.opening++
	}
	h.passing.Add(1)
	h.numbers++
	number = strconv.FormatInt(h.numbers, 10)
	h.posts[number] = p
	return number, ""
}

// makeRoom ends the client that has asked nothing for the longest time, and has nothing under way: many never say that they go. The caller holds mu.
func (h *HTTP) makeRoom() bool {
	var oldest *visitor
	var since time.Time
	for _, v := range h.clients {
		if at, idle := v.idle(); idle && (oldest == nil || at.Before(since)) {
			oldest, since = v, at
		}
	}
	if oldest == nil {
		return false
	}
	delete(h.clients, oldest.client.ID())
	go oldest.end()
	return true
}

// passed ends a message's way: it has been answered, or its client does not wait. A call that goes on keeps its place until it has ended.
func (h *HTTP) passed(number string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.posts[number]
	delete(h.posts, number)
	h.passing.Done()
	if p.v == nil {
		h.opening--
	} else if p.id != nil && !p.begun {
		p.v.release(p.size)
	}
}

// refuse answers a message that the SDK does not get to see.
func (h *HTTP) refuse(w http.ResponseWriter, status int, id json.RawMessage, code int64, text string) {
	h.server.log.Info("request refused", "code", code) // no text of a client's: it may be anything
	if id == nil {
		id = json.RawMessage("null")
	}
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": frontend.Told(text)}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// begin takes what the SDK hands on back to the message that it came by. ok is false for a client of another transport.
func (h *HTTP) begin(req sdk.Request) (p *post, number string, err error, ok bool) {
	extra := req.GetExtra()
	if extra == nil || extra.Header.Get(callHeader) == "" {
		return nil, "", nil, false
	}
	number = extra.Header.Get(callHeader)
	h.mu.Lock()
	defer h.mu.Unlock()
	if p = h.posts[number]; p == nil {
		return nil, "", context.Canceled, true // its client is gone, and it has not begun
	}
	p.begun = true
	return p, number, nil, true
}

// overHTTP is the part of HTTP's rules that needs to see what the SDK makes of a message: which session it belongs to, and when its call ends.
func (s *Server) overHTTP(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		h := s.http.Load()
		if h == nil {
			return next(ctx, method, req)
		}
		p, number, err, ok := h.begin(req)
		if err != nil || !ok {
			if err != nil {
				return nil, err
			}
			return next(ctx, method, req)
		}
		client, isServer := req.GetSession().(*sdk.ServerSession)
		if p.v == nil {
			if method == "initialize" && isServer {
				if err := h.welcome(ctx, client, p.key); err != nil {
					return nil, err
				}
			}
			return next(ctx, method, req)
		}
		if p.id == nil {
			return next(ctx, method, req)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.v.ctx, cancel)()
		p.v.member.join(ctx).Begin(number, func(error) { cancel() })
		defer func() {
			p.v.member.end(number)
			p.v.release(p.size)
		}()
		return next(ctx, method, req)
	}
}
