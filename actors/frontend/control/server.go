package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/socket"
	"github.com/codeagent/sandbox/messages"
)

// writeTimeout bounds how long a client may leave an answer unread.
const writeTimeout = 30 * time.Second

// Call is one request.
type Call struct {
	Method string
	Params json.RawMessage
	// Files came with the request; they are closed when it is answered.
	Files []*os.File
	// PID is the process that asks, or 0.
	PID int
	// Emit sends a part, and files with it, before the result.
	Emit func(part any, files ...*os.File) error
}

// Handler answers one request. ctx ends when the client is gone, or has cancelled
// the request. Errors are put on the wire by ToWire.
type Handler func(ctx context.Context, c *Call) (result any, err error)

// Options make a [Server].
type Options struct {
	Handler Handler
	// ToWire turns an error into its code.
	ToWire func(error) *Error
	// Attach gives each connection an actor of its own, see [api.Frontends]; nil
	// means none.
	Attach func(context.Context, api.Frontend) (api.Attachment, error)
	// Busy is called when a connection makes its first request; what it returns is
	// called when the connection has ended. It may be nil.
	Busy   func() (idle func())
	Logger *slog.Logger
}

// Server serves a control socket.
type Server struct {
	o        Options
	path     string
	listener *socket.Listener
	ctx      context.Context // of handlers and connections
	cancel   context.CancelFunc
	ending   context.Context // no more requests are taken
	end      context.CancelFunc
	last     time.Duration // how long answers may take then
	wg       sync.WaitGroup
	slots    chan struct{}
	refusals chan struct{}
}

// Listen makes the socket, with mode 0600, in place of a dead one, and serves
// it until Close.
func Listen(path string, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if _, tooLong := socket.TooLong(path); tooLong {
		return nil, fmt.Errorf("control socket: the path %s is longer than a socket's may be; set XDG_RUNTIME_DIR to a shorter one", path)
	}
	l, err := socket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{o: o, path: path, listener: l, slots: make(chan struct{}, maxConnections), refusals: make(chan struct{}, maxRefusals), last: lastWords}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ending, s.end = context.WithCancel(s.ctx)
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// Close takes no more requests, removes the socket and returns when every
// handler has. Those that are about to answer do, for a moment; then their
// contexts end, and all connections.
func (s *Server) Close() error {
	s.end()
	err := s.listener.Close()
	if rerr := os.Remove(s.path); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	late := time.AfterFunc(s.last, s.cancel)
	s.wg.Wait()
	late.Stop()
	s.cancel()
	return err
}

// Connections returns how many clients are connected.
func (s *Server) Connections() int { return len(s.slots) }

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		conn, err := frontend.Accept(s.ending, s.listener.AcceptUnix, func(err error) {
			s.o.Logger.Warn("no connection can be taken at the moment", "component", "control", "err", err)
		})
		if err != nil {
			if s.ending.Err() == nil {
				s.o.Logger.Error("control socket", "component", "control", "err", err)
			}
			return
		}
		if uid, allowed, err := socket.Peer(conn); !allowed {
			s.o.Logger.Warn("control connection refused", "component", "control", "uid", uid, "err", err)
			_ = conn.Close()
			continue
		}
		serve, slots := s.serve, s.slots
		select {
		case slots <- struct{}{}:
		default:
			serve, slots = s.refuse, s.refusals
			slots <- struct{}{} // within refusalTime
		}
		s.wg.Go(func() {
			defer func() { <-slots }()
			serve(conn)
		})
	}
}

// refuse answers the first request of a connection too many.
func (s *Server) refuse(conn *socket.Conn) {
	stop := context.AfterFunc(s.ending, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	_ = conn.SetReadDeadline(time.Now().Add(refusalTime))
	c := &connection{s: s, conn: conn}
	in := newFileReader(conn)
	defer in.close()
	req, files, ok := c.next(frontend.NewLines(in, MaxRequest), in)
	closeFiles(files)
	if !ok || req.Method == "" {
		return
	}
	_ = c.send(&Response{ID: req.ID, Error: &Error{Code: CodeOverloaded,
		Message: fmt.Sprintf("%d programs are connected to this session, and no more may be; try again when one of them has ended", maxConnections)}})
}

// connection is one client.
type connection struct {
	s       *Server
	conn    *socket.Conn
	pid     int // of its process, or 0
	figures figures
	mu      sync.Mutex // one line at a time
}

func (s *Server) serve(conn *socket.Conn) {
	ctx, cancel := context.WithCancel(s.ctx)
	c := &connection{s: s, conn: conn}
	if _, pid, err := socket.Credentials(conn); err == nil {
		c.pid = pid
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	deafen := context.AfterFunc(s.ending, func() { _ = conn.CloseRead() })
	var running sync.WaitGroup
	defer func() {
		deafen()
		if s.ending.Err() != nil {
			running.Wait() // their answers are still sent
		}
		cancel()
		stop()
		_ = conn.Close()
		running.Wait()
	}()
	actor, err := c.attach(ctx)
	if err != nil {
		level := slog.LevelWarn
		if s.ending.Err() != nil || errors.Is(err, messages.ErrStopped) { // who comes while a session ends is told so by its end
			level = slog.LevelDebug
		}
		s.o.Logger.Log(ctx, level, "control connection refused", "component", "control", "err", err)
		return
	}
	defer actor.Detach()
	in := newFileReader(conn)
	defer in.close()
	lines := frontend.NewLines(in, MaxRequest)
	busy := make(chan struct{}, maxConcurrent)
	for first := true; ; {
		req, files, ok := c.next(lines, in)
		if !ok {
			return
		}
		if req.Method == "" { // it was refused
			continue
		}
		if first && s.o.Busy != nil {
			defer s.o.Busy()()
		}
		first = false
		select {
		case busy <- struct{}{}:
		default:
			closeFiles(files)
			_ = c.send(&Response{ID: req.ID, Error: &Error{Code: CodeOverloaded, Message: "too many requests at once"}})
			continue
		}
		running.Add(1)
		c.figures.inFlight.Add(1)
		actor.Tell(&incoming{c: c, req: req, files: files, ctx: ctx, release: sync.OnceFunc(func() {
			<-busy
			c.figures.inFlight.Add(-1)
			running.Done()
		})})
	}
}

// next reads a request. One that is refused has no method; ok is false at the
// connection's end.
func (c *connection) next(lines *frontend.Lines, in *fileReader) (req Request, files []*os.File, ok bool) {
	line, err := lines.Next()
	switch {
	case errors.Is(err, frontend.ErrLineTooLong):
		_ = c.send(&Response{Error: &Error{Code: CodeTooLarge, Message: fmt.Sprintf("a request is at most %d bytes", MaxRequest)}})
	case errors.Is(err, errTooManyFiles):
		_ = c.send(&Response{Error: &Error{Code: CodeTooLarge, Message: err.Error()}})
	}
	if err != nil {
		return req, nil, false
	}
	c.figures.in.Add(int64(len(line)) + 1)
	req, err = decodeRequest(line)
	if err == nil {
		files, err = in.take(req.FDs)
	}
	if err != nil {
		_ = c.send(&Response{ID: req.ID, Error: &Error{Code: CodeBadRequest, Message: err.Error()}})
		req.Method = ""
	}
	return req, files, true
}

func (c *connection) handle(ctx context.Context, req Request, files []*os.File) {
	emit := func(part any, files ...*os.File) error {
		b, err := json.Marshal(part)
		if err != nil {
			return err
		}
		return c.send(&Response{ID: req.ID, Part: b, FDs: len(files)}, files...)
	}
	result, err := c.s.o.Handler(ctx, &Call{Method: req.Method, Params: req.Params, Files: files, PID: c.pid, Emit: emit})
	closeFiles(files) // before the answer: a reader of the caller's pipe must see its end
	c.answer(req.ID, result, err)
}

// answer sends the result of a request, or why there is none.
func (c *connection) answer(id uint64, result any, err error) {
	resp := &Response{ID: id}
	if err == nil {
		resp.Result, err = json.Marshal(result)
	}
	if err != nil {
		resp.Result, resp.Error = nil, c.s.o.ToWire(err)
	}
	if err := c.send(resp); err != nil && !errors.Is(err, net.ErrClosed) {
		c.s.o.Logger.Debug("answer not sent", "component", "control", "err", err)
	}
}

func (c *connection) send(r *Response, files ...*os.File) error {
	if r.Error != nil {
		r.Error = &Error{Code: r.Error.Code, Message: frontend.Told(r.Error.Message), Data: r.Error.Data}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	n, err := writeFiles(c.conn, append(b, '\n'), files)
	c.figures.out.Add(int64(n))
	if err != nil {
		_ = c.conn.Close() // half a line may be out
	}
	return err
}
