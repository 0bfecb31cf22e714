package control

import "fmt"

type phase uint8

const (
	pending phase = iota + 1 // exec sent, no answer yet
	running
)

// State checks the order of messages on the host's side. It holds one small
// entry for each command that the host has started and the guest has not ended.
// It is not safe for concurrent use.
type State struct {
	hello  bool
	inside map[string]bool // the listeners that the guest has sent
	cmds   map[int64]*cmdState
	asked  map[int64]bool // invalidate, sync, dial and wake without an answer
}

type cmdState struct {
	phase phase
	inAir int // bytes of output not acknowledged yet
	owed  int // bytes of stdin the guest has not acknowledged yet
}

// NewState returns the state before hello.
func NewState() *State {
	return &State{inside: make(map[string]bool), cmds: make(map[int64]*cmdState), asked: make(map[int64]bool)}
}

// Commands returns how many commands are pending or running.
func (s *State) Commands() int { return len(s.cmds) }

// Running reports whether the command has started and not ended.
func (s *State) Running(id int64) bool {
	c := s.cmds[id]
	return c != nil && c.phase == running
}

// Sent notes a message to the guest. The error wraps ErrSequence: the message
// must not be sent.
func (s *State) Sent(m *Message) error {
	c := s.cmds[m.ID]
	switch m.Type {
	case TypeExec:
		if c != nil {
			return fmt.Errorf("%w: command %d is running already", ErrSequence, m.ID)
		}
		s.cmds[m.ID] = &cmdState{phase: pending}
		return nil
	case TypeShutdown, TypeRollbackNotify, TypeClock:
		return nil
	case TypeInvalidate, TypeSync, TypeDial, TypeWake:
		s.asked[m.Request] = true
		return nil
	}
	if c == nil {
		return fmt.Errorf("%w: command %d is not running", ErrSequence, m.ID)
	}
	switch m.Type {
	case TypeStdin:
		if c.owed+len(m.Data) > Window {
			return fmt.Errorf("%w: stdin of command %d beyond its window", ErrSequence, m.ID)
		}
		c.owed += len(m.Data)
	case TypeAck:
		c.inAir -= m.Bytes
	}
	return nil
}

// Received notes a message from the guest. The error wraps ErrSequence: drop
// the message; nothing has changed.
func (s *State) Received(m *Message) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: %s for command %d: %s", ErrSequence, m.Type, m.ID, why)
	}
	switch m.Type {
	case TypeHello:
		if s.hello {
			return fmt.Errorf("%w: a second hello", ErrSequence)
		}
		s.hello = true
		return nil
	case TypeInside:
		if s.inside[m.Agent] {
			return fmt.Errorf("%w: a second listener", ErrSequence)
		}
		s.inside[m.Agent] = true
		return nil
	case TypeError:
		return nil
	case TypeDone:
		if !s.asked[m.Request] {
			return fmt.Errorf("%w: an answer to request %d, which is not open", ErrSequence, m.Request)
		}
		delete(s.asked, m.Request)
		return nil
	}
	c := s.cmds[m.ID]
	if c == nil {
		return bad("no such command")
	}
	switch m.Type {
	case TypeStepStarted:
		if c.phase != pending {
			return bad("it has started before")
		}
		c.phase = running
		return nil
	case TypeStartFailed:
		if c.phase != pending {
			return bad("it has started before")
		}
		delete(s.cmds, m.ID)
		return nil
	}
	if c.phase != running {
		return bad("it has not started")
	}
	switch m.Type {
	case TypeOutput:
		if c.inAir+len(m.Data) > Window {
			return bad("output beyond its window")
		}
		c.inAir += len(m.Data)
	case TypeAck:
		if m.Bytes > c.owed {
			return bad("more acknowledged than sent")
		}
		c.owed -= m.Bytes
	case TypeStopped:
	case TypeStepCompleted:
		delete(s.cmds, m.ID)
	default:
		return fmt.Errorf("%w: a guest does not send %s", ErrSequence, m.Type)
	}
	return nil
}
