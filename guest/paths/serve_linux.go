package paths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options are how [Serve] works.
type Options struct {
	// Umask is taken from the modes of what is made, where the kernel takes another one; below 0: it takes this one.
	Umask int
	// Inside turns a path into where it is, and Outside turns that back; nil: it is the same.
	Inside, Outside func(string) string
}

// Main is the program: it serves one request on stdin and stdout.
func Main() int {
	signal.Ignore(unix.SIGXFSZ) // what becomes too large is an error
	debug.SetGCPercent(100)     // who starts a helper of the shim's lets it collect nothing
	if err := Serve(os.Stdin, os.Stdout, Options{Umask: -1}); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-guest paths:", err)
		return 1
	}
	return 0
}

// errGone: the host does not want it any more.
var errGone = errors.New("the host has gone")

// server serves one request.
type server struct {
	o     Options
	in    *Reader
	out   *sender
	req   Request
	names names
	ctx   context.Context // ends with what comes from the host
	gone  context.CancelFunc
}

// Serve answers the one request that comes, and returns when that was done, or what comes has ended. The error is about the wire; what the request comes to is in the answer.
func Serve(in io.Reader, out io.Writer, o Options) error {
	s := &server{o: o, in: NewReader(in), out: &sender{w: out}}
	s.ctx, s.gone = context.WithCancel(context.Background())
	defer s.gone()
	kind, payload, err := s.in.Next()
	if err == nil && kind != FrameRequest {
		err = fmt.Errorf("%w: no request", ErrWire)
	}
	if err == nil {
		s.req, err = Parse[Request](payload)
	}
	if err != nil {
		return err
	}
	stop := s.alive()
	r, err := s.serve()
	stop()
	if err != nil {
		r = failure(err)
	}
	return WriteJSON(s.out, FrameDone, r)
}

func (s *server) serve() (*Reply, error) {
	switch s.req.Op {
	case OpStat:
		return s.stat()
	case OpList:
		return s.list()
	case OpRead:
		return s.read()
	case OpMkdir:
		return s.mkdir()
	case OpMove:
		return s.move()
	case OpRemove:
		return s.remove()
	case OpWrite:
		return s.write()
	case OpWatch:
		return s.watch()
	}
	return nil, fmt.Errorf("%w: no such operation", unix.ENOSYS)
}

// alive says so until what it returns is called. A watch has nothing to do for long.
func (s *server) alive() (stop func()) {
	if s.req.Op == OpWatch {
		return func() {}
	}
	ticker, over := time.NewTicker(AliveEvery), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				_ = Write(s.out, FrameAlive, nil) // who has gone is told nothing
			case <-over:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(over)
	}
}

// inside is where a path is.
func (s *server) inside(p string) string {
	if s.o.Inside == nil {
		return p
	}
	return s.o.Inside(p)
}

func (s *server) outside(p string) Text {
	if s.o.Outside == nil {
		return Text(p)
	}
	return Text(s.o.Outside(p))
}

// ready says what was found, and returns when the host wants it to be done.
func (s *server) ready(r *Reply) error {
	if err := WriteJSON(s.out, FrameReady, r); err != nil {
		return err
	}
	kind, _, err := s.in.Next()
	if err != nil || kind != FrameGo {
		return errGone
	}
	return nil
}

// attend ends the context when what comes from the host has ended.
func (s *server) attend() {
	go func() {
		defer s.gone()
		for {
			if _, _, err := s.in.Next(); err != nil {
				return
			}
		}
	}()
}

// irregular is an error about what is no regular file.
type irregular struct{ error }

func (e irregular) Unwrap() error { return e.error }

// failure is an error as the host gets it.
func failure(err error) *Reply {
	r := &Reply{Error: Text(short(err.Error())), Errno: "EIO"}
	var errno unix.Errno
	var other irregular
	switch {
	case errors.As(err, &errno):
		r.Errno = unix.ErrnoName(errno)
	case errors.Is(err, fs.ErrNotExist):
		r.Errno = "ENOENT"
	case strings.Contains(err.Error(), "too many links"): // as filepath.EvalSymlinks says it
		r.Errno = "ELOOP"
	}
	if errors.As(err, &other) {
		r.Irregular = true
	}
	return r
}

func short(text string) string { return text[:min(len(text), 2<<10)] }
