package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/hypervisor"
)

// CodeRelay is the error for a client that has sent files with a command of a session that copies what commands read and write: nothing was run, and the client
// asks again, with [runParams.Relayed].
const CodeRelay = "relay"

const (
	// streamTerminal names a command's terminal among its streams.
	streamTerminal = "terminal"
	// maxOutput is how much of a stream an answer brings, in bytes.
	maxOutput = 64 << 10
	// drainTime is how long output is awaited that a process left behind may still write when the command has ended.
	drainTime = 100 * time.Millisecond
	// fetchTime is how long a client that has cancelled a command has to fetch what that writes.
	fetchTime = 5 * time.Second
)

// outputParams are those of "run_output", which answers with what comes next of a stream of a relayed command, and waits for it. Who does not ask
// has the command wait, as a pipe does; who cancels that request gives the stream up.
type outputParams struct {
	which
	Stream string `json:"stream"` // stdout, stderr or terminal
	// Close says that nobody reads the stream any more.
	Close bool `json:"close,omitempty"`
}

type outputResult struct {
	Data []byte `json:"data,omitempty"`
	// End says that nothing comes any more.
	End bool `json:"end,omitempty"`
}

// inputParams are those of "run_input", which answers when the command has taken the data, or the pipe to it.
type inputParams struct {
	which
	Data []byte `json:"data,omitempty"`
	// End is the end of stdin.
	End bool `json:"end,omitempty"`
}

type inputResult struct {
	// Over says that the command reads nothing any more.
	Over bool `json:"over,omitempty"`
}

// relayed are the streams of a command whose client has no files to give it.
type relayed struct {
	stdin   *os.File // to the command, or its terminal
	theirs  []*os.File
	sources map[string]*source
	left    sync.WaitGroup // sources whose end the client has not heard
	over    chan struct{}  // closed when there are none, and the command has ended
}

// source is a stream that a command writes to.
type source struct {
	mu    sync.Mutex
	file  *os.File
	late  bool // the command has ended, and what is written now is not awaited
	ended bool
	left  *sync.WaitGroup
}

// newRelayed gives a command pipes, unless it has a terminal.
func newRelayed(req *api.RunRequest) (r *relayed, err error) {
	r = &relayed{sources: map[string]*source{}, over: make(chan struct{})}
	if req.TTY != nil {
		return r, nil
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	in, w, err := frontend.Pipe()
	if err != nil {
		return r, err
	}
	r.stdin, r.theirs, req.Stdin = w, append(r.theirs, in), in
	for name, to := range map[string]**os.File{"stdout": &req.Stdout, "stderr": &req.Stderr} {
		out, w, err := frontend.Pipe()
		if err != nil {
			return r, err
		}
		r.theirs, *to = append(r.theirs, w), w
		r.add(name, out)
	}
	return r, nil
}

func (r *relayed) add(name string, f *os.File) {
	r.left.Add(1)
	r.sources[name] = &source{file: f, left: &r.left}
}

// runs takes up the terminal of a command that runs, if it has one. When ctx has ended, the client is gone or has cancelled the command: fetch later nobody
// reads what it writes, which would wait otherwise.
func (r *relayed) runs(ctx context.Context, p hypervisor.Process, fetch time.Duration) {
	if t := p.Terminal(); t != nil {
		r.stdin = t
		r.add(streamTerminal, t)
	}
	context.AfterFunc(ctx, func() {
		late := time.NewTimer(fetch)
		defer late.Stop()
		select {
		case <-r.over:
		case <-late.C:
			for _, s := range r.sources {
				s.shut()
			}
		}
	})
}

// finish returns when the client has fetched what the command, which has ended, has written. What others hold open is awaited for drain.
func (r *relayed) finish(drain time.Duration) {
	for _, f := range r.theirs {
		_ = f.Close()
	}
	for _, s := range r.sources {
		_ = s.file.SetReadDeadline(time.Now().Add(drain))
	}
	r.left.Wait()
	close(r.over)
	r.close()
}

// close gives everything up.
func (r *relayed) close() {
	for _, f := range r.theirs {
		_ = f.Close()
	}
	if r.stdin != nil {
		_ = r.stdin.Close()
	}
	for _, s := range r.sources {
		s.shut() // whoever reads it hears its end
	}
}

// end notes that the client has heard the end. s.mu is held.
func (s *source) end() {
	if !s.ended {
		s.ended = true
		s.left.Done()
	}
}

// next returns what comes next.
func (s *source) next(ctx context.Context) (r outputResult, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return outputResult{End: true}, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Now()) })
	defer stop()
	b, n := make([]byte, maxOutput), 0
	if !s.late {
		n, err = s.file.Read(b)
		s.late = errors.Is(err, os.ErrDeadlineExceeded)
	}
	if n == 0 && ctx.Err() != nil {
		_ = s.file.Close()
		s.end()
		return r, ctx.Err()
	}
	if s.late { // what is there counts still
		_ = s.file.SetReadDeadline(time.Time{})
		n, _ = frontend.ReadNow(s.file, b)
	}
	if n > 0 {
		return outputResult{Data: b[:n]}, nil
	}
	s.end() // whatever the error is: of a terminal it is EIO
	return outputResult{End: true}, nil
}

// shut closes a stream that nobody reads any more.
func (s *source) shut() {
	_ = s.file.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

func (s *SessionServer) output(ctx context.Context, p outputParams, _ *Call) (r outputResult, err error) {
	j, err := s.client(p.which)
	if err != nil {
		return r, err
	}
	var from *source
	if j.relayed != nil {
		from = j.relayed.sources[p.Stream]
	}
	if from == nil {
		return r, &Error{Code: CodeBadRequest, Message: fmt.Sprintf("the command has no stream %q that is relayed", p.Stream)}
	}
	if p.Close {
		from.shut()
		return outputResult{End: true}, nil
	}
	return from.next(ctx)
}

func (s *SessionServer) input(_ context.Context, p inputParams, _ *Call) (r inputResult, err error) {
	j, err := s.client(p.which)
	if err != nil {
		return r, err
	}
	if j.relayed == nil {
		return r, &Error{Code: CodeBadRequest, Message: "the command's input is not relayed"}
	}
	if len(p.Data) > 0 {
		_, err = j.relayed.stdin.Write(p.Data)
	}
	if p.End && j.relayed.sources[streamTerminal] == nil { // a terminal's end is a key
		err = errors.Join(err, j.relayed.stdin.Close())
	}
	return inputResult{Over: err != nil}, nil
}
