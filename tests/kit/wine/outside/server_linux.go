package outside

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Server runs one program of Linux for whoever has its token.
type Server struct {
	Program    string
	Path       func(string) (string, error) // what a path of Windows (C:\x) is here
	Credential *syscall.Credential          // who runs the program; nil for the caller

	token    string
	listener net.Listener
	mu       sync.Mutex
	closed   bool
	conns    map[net.Conn]bool
	running  sync.WaitGroup
}

// Start listens on a free port of the loopback and serves until Close.
func (s *Server) Start() (Address, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Address{}, err
	}
	s.listener, s.token, s.conns = l, rand.Text(), map[net.Conn]bool{}
	s.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			if !s.begin(conn) {
				return
			}
			s.running.Go(func() {
				s.serve(conn)
				s.forget(conn)
			})
		}
	})
	return Address{l.Addr().String(), s.token}, nil
}

func (s *Server) begin(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = true
	return true
}

func (s *Server) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = conn.Close()
	delete(s.conns, conn)
}

// Close kills the programs that run and waits for their end.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	err := s.listener.Close()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

func (s *Server) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	kind, content, err := readFrame(r)
	var req request
	if err != nil || kind != frameRequest || json.Unmarshal(content, &req) != nil || req.Token != s.token {
		return
	}
	mu := new(sync.Mutex)
	stdout, stderr := frameWriter{mu, conn, frameStdout}, frameWriter{mu, conn, frameStderr}
	ctx, gone := context.WithCancel(context.Background())
	stdin, input := io.Pipe()
	drained := make(chan struct{})
	go func() {
		copyInput(conn, r, input)
		gone()
		close(drained)
	}()
	status, err := s.run(ctx, req, stdin, stdout, stderr)
	_ = stdin.Close() // nobody waits any more until it is read
	if err != nil {
		_, _ = io.WriteString(stderr, err.Error()+"\n")
	}
	_, err = frameWriter{mu, conn, frameExit}.Write(binary.BigEndian.AppendUint32(nil, uint32(status)))
	if err != nil {
		_ = conn.Close()
	}
	<-drained // the client closes; input that nobody has read would take with it what the client has not read
}

// notStarted is the exit status of a program that did not run, as in a shell.
const notStarted = 127

// run runs the program until it ends, or the context does.
func (s *Server) run(ctx context.Context, req request, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, s.Program)
	for _, arg := range req.Args {
		arg, err := s.translate(arg)
		if err != nil {
			return notStarted, err
		}
		cmd.Args = append(cmd.Args, arg)
	}
	dir, err := s.Path(req.Dir)
	if err != nil {
		return notStarted, err
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.Credential, Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err != nil {
		return notStarted, err
	}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The kernel kills the program with the thread that started it: this one waits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return notStarted, err
	}
	go func() {
		_, _ = io.Copy(input, stdin)
		_ = input.Close()
	}()
	err = <-ended
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
			return 128 + int(w.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// copyInput passes standard input on until the connection ends, or is silent.
func copyInput(conn net.Conn, r *bufio.Reader, stdin io.WriteCloser) {
	for {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		kind, content, err := readFrame(r)
		if err != nil || kind != frameStdin && kind != frameAlive {
			return
		}
		if kind == frameAlive {
			continue
		}
		// A program that does not want its input goes on.
		if len(content) == 0 {
			_ = stdin.Close()
		} else {
			_, _ = stdin.Write(content)
		}
	}
}

// windowsPath is a path of Windows in an argument as QEMU has them: alone, or after file=, unix: and the like, up to a comma.
var windowsPath = regexp.MustCompile(`(^|[=,:])([A-Za-z]:[\\/][^,]*)`)

func (s *Server) translate(arg string) (string, error) {
	var failed error
	out := windowsPath.ReplaceAllStringFunc(arg, func(found string) string {
		m := windowsPath.FindStringSubmatch(found)
		path, err := s.Path(m[2])
		failed = errors.Join(failed, err)
		return m[1] + path
	})
	return out, failed
}
