package stdio

import (
	"bytes"
	"errors"
	"io"

	"github.com/codeagent/sandbox/actors/frontend"
)

// Other is a process that has the client's session in our place. It reads the client's lines from us and writes to the client itself, and it ends in order when we leave it, or when it has had its session and reads another
// session.start, which it does not answer. What it says is not believed: the lines are the client's own. Done and Leave are safe for concurrent use; all else belongs to one goroutine.
type Other interface {
	// Write passes on what the client has sent.
	io.Writer
	// Takes waits until the process says that it answers the session.start that it was sent last. It returns false when it has ended instead.
	Takes() bool
	// Done is closed when the process has ended.
	Done() <-chan struct{}
	// Leave sends nothing more, waits until the process has ended and returns why, unless it has ended in order.
	Leave() error
}

// startOp is the one request that another process may serve.
const startOp = "session.start"

// elsewhere lets another process have the session of a session.start, if there is none and that shall be so. moved is false if the session is ours. It returns when the client is ours again, or with why the conversation is over.
func (s *Server) elsewhere(line []byte, e envelope, p *StartRequest) (moved bool, err error) {
	<-s.turn
	if s.current() != nil || s.inUse(e.RequestID) || s.checkStart(p) != nil {
		return false, nil
	}
	o := s.o.Elsewhere(*p)
	if o == nil {
		return false, nil
	}
	s.log.Info("another process has the session", "request_id", e.RequestID)
	s.mu.Lock()
	s.other = o
	leaving := s.leaving
	s.mu.Unlock()
	if leaving {
		return true, errors.Join(errLeaving, o.Leave())
	}
	go func() {
		<-o.Done()
		if err := o.Leave(); err != nil {
			s.crashed(err)
		}
	}()
	s.wg.Wait()
	if err := s.out.Drained(s.ctx); err != nil { // from here on the other process writes
		return true, err
	}
	return true, s.relay(line, o)
}

func (s *Server) inUse(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inflight[id] != nil
}

// relay passes lines on, of which the first is a session.start. That, and each that follows, is the process's if it says so; else the process has ended, and the line is ours, as those that come after it.
func (s *Server) relay(line []byte, o Other) error {
	var buf []byte
	for {
		buf = append(append(buf[:0], line...), '\n')
		if _, err := o.Write(buf); err != nil || isStart(line) && !o.Takes() {
			s.again = bytes.Clone(line)
			return o.Leave()
		}
		var err error
		for line, err = s.lines.Next(); err != nil || frontend.Blank(line); line, err = s.lines.Next() {
			if errors.Is(err, frontend.ErrLineTooLong) {
				err = s.lines.Pass(o)
			}
			if err != nil {
				return err
			}
		}
	}
}

func isStart(line []byte) bool {
	e, bad := parseEnvelope(line)
	return bad == nil && e.Type == startOp
}

// takes asks whether a session.start is still for this process; err is [io.EOF] if it is for the one that we are the other process of.
func (s *Server) takes() error {
	<-s.turn
	if s.o.Takes(s.current() != nil) {
		return nil
	}
	return io.EOF
}

// leaveOther ends the process that has the session in our place, if there is one.
func (s *Server) leaveOther() {
	s.mu.Lock()
	o := s.other
	s.mu.Unlock()
	if o == nil {
		return
	}
	if err := o.Leave(); err != nil {
		s.log.Error("the process of the session", "err", err)
	}
}
