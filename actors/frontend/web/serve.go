package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Times and sizes of a request's head, which holds for a body that no handler reads, too, and of a connection without a request.
const (
	headTime  = 10 * time.Second
	idleTime  = 2 * time.Minute
	maxHeader = 32 << 10
)

// Serving is how [Serve] serves.
type Serving struct {
	// Logger hears what clients do wrong, at its level debug; nil: nobody does.
	Logger *slog.Logger
	// Grace is how long requests may go on when the context has ended; then theirs ends, and their connections are closed.
	Grace time.Duration
	// Ending is called once, when the context has ended or the listener has failed, and before requests that are under way are told to end; it may be nil.
	Ending func(context.Context)
	// Connected and State are [http.Server]'s ConnContext and ConnState; they may be nil.
	Connected func(context.Context, net.Conn) context.Context
	State     func(net.Conn, http.ConnState)

	unread time.Duration // see handlers; 0: headTime
}

// Serve serves requests on l until ctx ends, and returns when their handlers have returned: those that take longer than Grace hear by their context that they must. It closes l. A response has no deadline but the listener's ([Listen]), so
// streams last; a body is to be read by [Body].
func Serve(ctx context.Context, l net.Listener, h http.Handler, o Serving) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.unread == 0 {
		o.unread = headTime
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	busy := &handlers{next: h, unread: o.unread}
	srv := &http.Server{
		Handler: busy, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: o.Connected, ConnState: o.State,
		Protocols: new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true)
	ending := func() {
		if o.Ending != nil {
			o.Ending(context.WithoutCancel(ctx))
		}
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		ending()
		grace, done := context.WithTimeout(base, o.Grace)
		defer done()
		_ = srv.Shutdown(grace) // it waits for requests; its error says that there were some
		cancel()
		_ = srv.Close()
	})
	err := srv.Serve(l)
	if stop() { // the listener failed
		ending()
		_ = srv.Close()
	} else {
		<-ended
	}
	cancel()
	busy.wait()
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// handlers are those that run. When they are waited for, no more begin.
type handlers struct {
	next    http.Handler
	unread  time.Duration // how long a body may take that no handler reads: the server does then, before it answers
	mu      sync.Mutex
	running sync.WaitGroup // Add with mu, and not once ended
	ended   bool
}

// ServeHTTP implements [http.Handler].
func (h *handlers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return // its connection is closed
	}
	h.running.Add(1)
	h.mu.Unlock()
	defer h.running.Done()
	if r.ContentLength != 0 {
		b := &unread{ReadCloser: r.Body, control: http.NewResponseController(w)}
		b.until(time.Now().Add(h.unread))
		defer func() { b.until(time.Now().Add(h.unread)) }() // the next request's time is another
		r.Body = b
	}
	h.next.ServeHTTP(w, r)
}

func (h *handlers) wait() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.running.Wait()
}

// unread is a body that no handler has begun to read. Who reads it gives it a time by [Body], or none.
type unread struct {
	io.ReadCloser
	control *http.ResponseController
	begun   bool
}

// Read implements [io.Reader].
func (b *unread) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.until(time.Time{})
	}
	return b.ReadCloser.Read(p)
}

func (b *unread) until(t time.Time) { _ = b.control.SetReadDeadline(t) } // what is no connection has none

// Body returns a request's body, of which a client may send limit bytes, and which it must not stop sending for longer than pause. Reading more than limit fails with [http.MaxBytesError].
func Body(w http.ResponseWriter, r *http.Request, limit int64, pause time.Duration) io.ReadCloser {
	from := r.Body
	if b, ok := from.(*unread); ok {
		from = b.ReadCloser
	}
	return &body{ReadCloser: http.MaxBytesReader(w, from, limit), control: http.NewResponseController(w), pause: pause}
}

// body gives each read its time.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	pause   time.Duration
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.pause)) // what is no connection has none
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{}) // or the server would take the client for gone later
	}
	return n, err
}
