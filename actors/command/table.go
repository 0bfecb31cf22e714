package command

import (
	"fmt"
	"os"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// Table is what is known of the commands. It outlives restarts of the actor; its content is the actor's. The zero value has none.
type Table struct {
	last int64
	list []*entry // in the order of their numbers
}

// entry is one command.
type entry struct {
	status    api.CommandStatus
	cancel    func(error)
	proc      hypervisor.Process // nil until it runs
	started   bool
	ended     bool
	out       output
	seen      map[string]int64 // bytes of each stream that were taken
	in        input
	followers []*Follower
	waiting   []*wrote // what is not taken before somebody has read more
	awaited   bool     // nobody has followed it yet, and it waits for the first
	pace      int      // counts the times that a follower has taken something
	timed     bool     // a timer looks at that
	ends      []*messages.Reply[api.CommandStatus]
}

// input is a command's stdin or terminal.
type input struct {
	file  *os.File // nil: there is none, or it is closed
	queue []*give  // the first is being written
}

// Follower is a place in a command's output. What it says is the actor's.
type Follower struct {
	e     *entry
	at    int64
	paced bool
	next  *messages.Reply[[]api.CommandEvent]
}

// find returns the command of that number.
func (t *Table) find(number int64) (*entry, error) {
	i, there := slices.BinarySearchFunc(t.list, number, func(e *entry, n int64) int { return int(e.status.Number - n) })
	if !there {
		return nil, fmt.Errorf("%w %d; it has never been there, or ended before the newest %d", api.ErrNoCommand, number, api.CommandsKept)
	}
	return t.list[i], nil
}

// running finds a command that has not ended.
func (t *Table) running(number int64) (*entry, error) {
	e, err := t.find(number)
	switch {
	case err != nil:
		return nil, err
	case e.ended:
		return nil, fmt.Errorf("%w %d has ended", api.ErrCommand, number)
	case !e.started:
		return nil, fmt.Errorf("%w %d is being started", api.ErrCommand, number)
	}
	return e, nil
}

// active is how many have not ended.
func (t *Table) active() (n int) {
	for _, e := range t.list {
		if !e.ended {
			n++
		}
	}
	return n
}

// forget takes out those that have ended and are more than are kept, the oldest first.
func (t *Table) forget() {
	over := len(t.list) - t.active() - api.CommandsKept
	t.list = slices.DeleteFunc(t.list, func(e *entry) bool {
		if !e.ended || over <= 0 {
			return false
		}
		over--
		return true
	})
}

// now is the command's status, which is the receiver's.
func (e *entry) now() api.CommandStatus {
	st := e.status
	st.Argv = slices.Clone(st.Argv)
	st.OutputBytes = e.out.total
	st.Stdin = st.Stdin && e.in.file != nil
	return st
}

// pacer is where the reader is that the command waits for; false: it waits for none.
func (e *entry) pacer() (at int64, is bool) {
	switch {
	case len(e.followers) == 0 && e.awaited:
		return 0, true
	case len(e.followers) == 1 && e.followers[0].paced:
		return e.followers[0].at, true
	}
	return 0, false
}

// full tells whether n more bytes would push out what the one that the command waits for has not read.
func (e *entry) full(n int) bool {
	at, is := e.pacer()
	return is && e.out.after(n) > max(at, e.out.oldest())
}

// events is what comes next for a follower.
func (f *Follower) events() []api.CommandEvent {
	events := f.e.out.from(f.at)
	if len(events) == 0 && f.e.ended {
		return []api.CommandEvent{{At: f.e.out.total, Missed: max(0, f.e.out.total-f.at), Ended: f.e.status.Ended}}
	}
	return events
}
