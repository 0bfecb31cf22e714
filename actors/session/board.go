package session

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Snapshot is what is known of a session at one instant. It is immutable.
type Snapshot struct {
	State State
	// Step is the open step's id, or 0.
	Step undolog.StepID
	// Newest is the step that was opened last, and who asked for it.
	Newest struct {
		Step    undolog.StepID
		From    api.Origin
		Command string
	}
	// Running are the commands that run in it. They are not changed.
	Running    []api.RunningCommand
	Pending    int // undecided safeguards
	Safeguards api.Safeguards

	deciders map[string]int
}

// Origin returns who asked for a step, if it is the newest.
func (s *Snapshot) Origin(id undolog.StepID) api.Origin {
	if s.Newest.Step == id {
		return s.Newest.From
	}
	return api.Origin{}
}

// Deciders are the frontends that show decisions to a person, sorted by name.
func (s *Snapshot) Deciders() []string { return slices.Sorted(maps.Keys(s.deciders)) }

// Board publishes a session's [Snapshot]. It outlives restarts of the actors that
// write it. Methods are safe for concurrent use and do not block.
type Board struct {
	mu  sync.Mutex // one change at a time
	now atomic.Pointer[Snapshot]
}

// NewBoard makes the board of a session that is idle.
func NewBoard(g api.Safeguards) *Board {
	b := &Board{}
	b.now.Store(&Snapshot{State: Idle, Safeguards: g})
	return b
}

// Load returns the newest snapshot.
func (b *Board) Load() *Snapshot { return b.now.Load() }

func (b *Board) publish(change func(*Snapshot)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := *b.now.Load()
	change(&s)
	b.now.Store(&s)
}

// StepOpened says which step is open, and who asked for it; it is the steps actor's.
func (b *Board) StepOpened(id undolog.StepID, from api.Origin, command string) {
	b.publish(func(s *Snapshot) {
		s.Step = id
		s.Newest.Step, s.Newest.From, s.Newest.Command = id, from, command
	})
}

// StepEnded says that no step is open; it is the steps actor's.
func (b *Board) StepEnded() { b.publish(func(s *Snapshot) { s.Step, s.Running = 0, nil }) }

// SetRunning says which commands run; it is the steps actor's, and keeps the slice.
func (b *Board) SetRunning(list []api.RunningCommand) {
	b.publish(func(s *Snapshot) { s.Running = list })
}

// SetPending counts the undecided safeguards; it is the safeguard actor's.
func (b *Board) SetPending(n int) { b.publish(func(s *Snapshot) { s.Pending = n }) }
