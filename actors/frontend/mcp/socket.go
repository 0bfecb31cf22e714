package mcp

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/socket"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	maxClients   = 16
	helloTimeout = 10 * time.Second
	maxHello     = 1 << 10
	// codeUnauthorized is the JSON-RPC code for a wrong token.
	codeUnauthorized = -32001
)

// hello is the first line that a client of the socket sends; MCP begins with the
// second. It is not answered if the token is right.
type hello struct {
	Token string `json:"token"`
}

// NewToken returns a token that cannot be guessed.
func NewToken() string { return rand.Text() }

// TokenFile is where the token of the socket at path is kept, with mode 0600.
func TokenFile(path string) string { return path + ".token" }

// Socket is a unix socket that clients connect to.
type Socket struct {
	server   *Server
	path     string
	token    string
	listener *socket.Listener
	lock     *hostfs.FileLock // of the token file: one server for one path
}

// Listen makes a unix socket with mode 0600 for any number of clients (16 at a
// time), each of which must be of this user (or root) and present the token
// first; an empty token makes one. The token is kept in [TokenFile] until Serve
// ends. What another process left at the path is replaced if it is a socket
// that nobody serves; anything else is an error, as is a path that is too long.
func (s *Server) Listen(path, token string) (*Socket, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("mcp socket: %w", err)
	}
	if most, tooLong := socket.TooLong(path); tooLong {
		return nil, fmt.Errorf("mcp socket: the path %s has %d bytes, and a socket's may have %d: choose a shorter one with --mcp-socket", path, len(path), most)
	}
	if token == "" {
		token = NewToken()
	}
	l := &Socket{server: s, path: path, token: token}
	if err := l.claim(); err != nil {
		return nil, err
	}
	if l.listener, err = socket.Listen(path); err != nil {
		l.release()
		return nil, fmt.Errorf("mcp socket: %w", err)
	}
	return l, nil
}

// claim takes the path for this process and writes the token.
func (l *Socket) claim() (err error) {
	l.lock, err = lockToken(TokenFile(l.path))
	if err != nil {
		return fmt.Errorf("mcp socket: %s: %w", l.path, err)
	}
	st, err := os.Lstat(l.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = nil
	case err == nil && !socket.IsSocket(st):
		err = fmt.Errorf("mcp socket: %s is there and is no socket: choose another path", l.path)
	case err == nil:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if c, derr := socket.Dial(ctx, l.path); derr == nil {
			_ = c.Close()
			err = fmt.Errorf("mcp socket: %s is in use by another process", l.path)
		} else if !errors.Is(derr, syscall.ECONNREFUSED) {
			err = fmt.Errorf("mcp socket: %w", derr)
		}
	}
	if err == nil {
		err = l.lock.Write([]byte(l.token + "\n"))
	}
	if err != nil {
		_ = l.lock.Close()
	}
	return err
}

// release removes the token's file, and then lets others have it.
func (l *Socket) release() {
	_ = l.server.o.Remove(TokenFile(l.path))
	_ = l.lock.Close()
}

// Path returns the absolute path of the socket.
func (l *Socket) Path() string { return l.path }

// Serve serves clients until ctx ends, removes the socket and the token file
// and returns when all connections have ended.
func (l *Socket) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = l.listener.Close() })
	defer func() {
		cancel()
		stop()
		_ = l.listener.Close()
		_ = l.server.o.Remove(l.path)
		l.release()
		clients.Wait()
	}()
	slots := make(chan struct{}, maxClients)
	for {
		c, err := frontend.Accept(ctx, l.listener.AcceptUnix, func(err error) {
			l.server.log.Warn("no MCP client can be taken at the moment", "err", err)
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("mcp socket: %w", err)
		}
		select {
		case slots <- struct{}{}:
		default:
			l.reject(c, codeOverloaded, fmt.Sprintf("there are %d clients already", maxClients))
			continue
		}
		clients.Go(func() {
			defer func() { <-slots }()
			l.serve(ctx, c)
		})
	}
}

// serve admits one client and serves it.
func (l *Socket) serve(ctx context.Context, c *socket.Conn) {
	log := l.server.log
	if uid, allowed, err := socket.Peer(c); !allowed {
		log.Warn("MCP client refused: it belongs to another user", "uid", uid, "err", err)
		l.reject(c, codeUnauthorized, "this socket belongs to another user")
		return
	}
	r, err := l.admit(ctx, c)
	if err != nil {
		log.Warn("MCP client refused", "err", err)
		l.reject(c, codeUnauthorized, err.Error())
		return
	}
	log.Info("MCP client connected", "socket", l.path)
	err = l.server.serve(ctx, &transport{in: r, out: c, close: c.Close})
	log.Info("MCP client gone", "socket", l.path, "err", err)
}

// admit reads and checks the token.
func (l *Socket) admit(ctx context.Context, c *socket.Conn) (io.Reader, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	r := bufio.NewReaderSize(c, maxHello)
	text, err := r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("no token came: send the line {\"token\":\"...\"} first, or connect by: sandbox mcp connect %s", l.path)
	}
	var h hello
	if json.Unmarshal(text, &h) != nil || subtle.ConstantTimeCompare([]byte(h.Token), []byte(l.token)) != 1 {
		return nil, fmt.Errorf("the token is missing or wrong: the first line must be {\"token\":\"...\"} with the content of %s", TokenFile(l.path))
	}
	return r, c.SetReadDeadline(time.Time{})
}

func (l *Socket) reject(c *socket.Conn, code int64, text string) {
	t := &conn{t: &transport{out: c, close: c.Close}, closed: make(chan struct{})}
	_ = t.refuse(nil, code, text)
	_ = t.Close()
}

// Connect joins a client that speaks MCP on in and out to the socket at path, until
// either side ends. That the server ended, or did not let the client in, is an
// error. An empty token is read from [TokenFile].
func Connect(ctx context.Context, path, token string, in io.Reader, out io.Writer) error {
	if token == "" {
		b, err := os.ReadFile(TokenFile(path))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("mcp socket: no session is served on %s: start one with sandbox serve --mcp-socket", path)
		}
		if err != nil {
			return fmt.Errorf("mcp socket: its token: %w", err)
		}
		token = string(b[:max(0, len(b)-1)])
	}
	c, err := socket.Dial(ctx, path)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("mcp socket: nobody serves %s any more", path)
	}
	if err != nil {
		return fmt.Errorf("mcp socket: %w", err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	b, err := json.Marshal(hello{token})
	if err == nil {
		_, err = c.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("mcp socket: %w", err)
	}
	var gone atomic.Bool
	go func() {
		_, _ = io.Copy(c, in)
		gone.Store(true)
		_ = c.Close() // as a client that is gone: what it asked for is cancelled
	}()
	said := &head{w: out}
	_, err = io.Copy(said, c)
	switch {
	case said.err != nil:
		return said.err
	case gone.Load() || ctx.Err() != nil:
		return nil
	case said.refusal() != "":
		return fmt.Errorf("mcp socket: refused: %s", said.refusal())
	case err != nil:
		return fmt.Errorf("mcp socket: %w", err)
	}
	return errors.New("mcp socket: the server has ended")
}

// head keeps the beginning of what it passes on, and how writing failed.
type head struct {
	w    io.Writer
	text []byte
	err  error
}

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxHello-len(h.text))]...)
	n, err := h.w.Write(p)
	if err != nil {
		h.err = err
	}
	return n, err
}

// refusal returns why the client was not let in, or "".
func (h *head) refusal() string {
	var m struct {
		ID    *json.RawMessage
		Error struct {
			Code    int64
			Message string
		}
	}
	if json.Unmarshal(h.text, &m) != nil || m.ID != nil || m.Error.Code != codeUnauthorized && m.Error.Code != codeOverloaded {
		return ""
	}
	return m.Error.Message
}
