package actors

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// Limits of steps from inside. What asks for them is as hostile as the guest.
const (
	insideSteps       = 100              // of a history without a limit; see [insider.most]
	insideConnections = 64               // at once; more wait in the socket's queue
	insidePatience    = 10 * time.Second // for a line of a program, and for writing one
)

// insider gives commands of programs inside steps of their own. While one runs, the
// command that it is inside of has no step ([outer]): its step ended before, and its next
// one begins afterwards.
type insider struct {
	s *Session

	mu     sync.Mutex // held while a step of an outer command ends or begins
	outers []*outer
	active int // commands from inside that run
	made   int // steps that were cut and have changed something

	whole wholeRun
}

// wholeRun is what the steps of commands belong to that overlap, if one of them was cut: the
// group of the history.
type wholeRun struct {
	group undolog.StepID // its first step; 0 until there was one
	at    undolog.StepID // its newest step that is known
	cut   bool
}

// outer is a command that runs, and was not started from inside.
type outer struct {
	open   step.Open
	lease  *step.Lease // nil while commands inside it have steps of their own
	cancel func()
	pid    int           // of its first process, as programs inside see it; 0: it has not started, or that is not known
	res    api.RunResult // of its newest step that ended
	gone   bool          // it has left its step for good, and runs on: see [leaving]
}

// enter notes a command that runs in the lease's step.
func (n *insider) enter(open step.Open, lease *step.Lease) *outer {
	open.Share, open.Later, open.Wait, open.Queued = true, false, step.Queue, nil
	o := &outer{open: open, lease: lease}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.outers) == 0 && n.active == 0 && lease.Step != n.whole.at {
		n.whole = wholeRun{group: lease.Step}
	}
	n.whole.at = lease.Step
	n.outers = append(n.outers, o)
	return o
}

// group is what the steps of this time belong to, or 0.
func (n *insider) group() undolog.StepID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.whole.steps()
}

func (r *wholeRun) steps() undolog.StepID {
	if !r.cut {
		return 0
	}
	return r.group
}

// reached notes the newest step of the run.
func (n *insider) reached(id undolog.StepID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.whole.at = id
}

// of returns the one of several commands to which those who ask belong: the last of them is its first process. While a command
// starts, the guest itself looks its program up, and then it may ask before we hear which process it is. It is nil where one
// command or none runs, or where it is not known.
func (n *insider) of(callers []messages.Process) *outer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.outers) < 2 || len(callers) == 0 {
		return nil
	}
	pid := callers[len(callers)-1].Inside
	if pid == 0 {
		return nil
	}
	for _, is := range []func(o *outer) bool{
		func(o *outer) bool { return o.pid == pid },
		func(o *outer) bool { return o.pid == 0 }, // it is just starting, or the guest's first process starts it
	} {
		switch i := slices.IndexFunc(n.outers, is); {
		case i < 0:
		case slices.ContainsFunc(n.outers[i+1:], is):
			return nil
		default:
			return n.outers[i]
		}
	}
	return nil
}

// attach says how the command is ended, and which process it is.
func (n *insider) attach(o *outer, pid int, cancel func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o.pid, o.cancel = pid, cancel
	if o.lease != nil {
		n.s.steps.Tell(&step.Attach{Lease: o.lease, Cancel: cancel})
	}
}

// leave notes its end, and returns the lease that it has then, or nil.
func (n *insider) leave(o *outer) *step.Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outers = slices.DeleteFunc(n.outers, func(x *outer) bool { return x == o })
	return o.lease
}

// part ends the step of the one command that runs outside of all others. If there are
// several, the command from inside takes part in their step. The result says why there
// is no step to be had.
func (n *insider) part() (shared string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if most := n.most(); n.made >= most {
		return fmt.Sprintf("commands inside have made %d steps, half of undo.max_steps, and may not push more of the history out", most)
	}
	n.active++
	if len(n.outers) != 1 || n.outers[0].lease == nil {
		return ""
	}
	o := n.outers[0]
	n.whole.cut = true
	n.s.steps.StaysOn(o.lease)
	o.res, _ = n.s.finish(o.lease, o.open.Info.Command, o.open.From, hypervisor.ExitStatus{}, ending{outcome: messages.OutcomeCompleted, unstarted: true, group: n.whole.group})
	n.s.steps.Leave(o.lease)
	n.count(o.res)
	o.lease = nil
	return ""
}

// join gives the outer commands steps again when no command from inside runs any more.
func (n *insider) join(res api.RunResult) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count(res)
	if n.active--; n.active > 0 {
		return
	}
	for _, o := range n.outers {
		if o.lease != nil {
			continue
		}
		o.open.Info.Group = n.whole.steps()
		lease, err := n.s.steps.Lease(context.Background(), o.open)
		if err != nil {
			n.s.cfg.Logger.Warn("a command goes on without a step", "component", "session", "command", o.open.Info.Command, "err", err)
			continue
		}
		o.lease, n.whole.at = lease, lease.Step
		if o.cancel != nil {
			n.s.steps.Tell(&step.Attach{Lease: lease, Cancel: o.cancel})
		}
	}
}

func (n *insider) count(res api.RunResult) {
	if len(res.Entries) > 0 {
		n.made++
	}
}

// most is how many steps may be cut: half of those that a history keeps.
func (n *insider) most() int {
	most := insideSteps
	for _, d := range n.s.dirs {
		if d.Log == nil {
			continue
		}
		if k := d.Log.Limits().StepCount; k > 0 {
			most = min(most, k)
		}
	}
	return most / 2
}

// serve accepts programs inside until the listener is closed.
func (n *insider) serve(l net.Listener) {
	room := make(chan struct{}, insideConnections)
	for {
		room <- struct{}{}
		c, err := frontend.Accept(context.Background(), l.Accept, func(err error) {
			n.s.cfg.Logger.Warn("no step from inside can be taken at the moment", "component", "session", "err", err)
		})
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n.s.cfg.Logger.Warn("steps from inside", "component", "session", "err", err)
			return
		}
		go func() {
			defer func() { <-room }()
			defer c.Close()
			n.talk(c)
		}()
	}
}

// talk serves one program: its command, and its end.
func (n *insider) talk(c net.Conn) {
	in := bufio.NewReaderSize(c, api.InsideMaxLine)
	_ = c.SetReadDeadline(time.Now().Add(insidePatience))
	first, err := readInside(in)
	if err != nil || first.Ended || first.Command == "" {
		say(c, api.InsideAnswer{Error: "the first line must be a command"})
		return
	}
	_ = c.SetReadDeadline(time.Time{}) // the command may take as long as it wants
	if shared := n.part(); shared != "" {
		say(c, api.InsideAnswer{Shared: shared})
		return
	}
	a, res := n.run(c, in, first)
	n.join(res)
	say(c, a)
}

// run has the program's command as a step, from now to its end.
func (n *insider) run(c net.Conn, in *bufio.Reader, first api.InsideRequest) (a api.InsideAnswer, res api.RunResult) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	open := step.Open{
		Kind: step.Command, Share: true, Wait: step.Queue, From: api.Origin{Frontend: "inside", Tool: "run"},
		Cancel: func(cause error) { cancel(cause); _ = c.Close() },
		Info:   undolog.StepInfo{Type: undolog.TypeCommand, Command: first.Command, Dir: first.Dir, Group: n.group()},
	}
	lease, err := n.s.steps.Lease(ctx, open)
	if err != nil {
		return api.InsideAnswer{Error: err.Error()}, res
	}
	defer n.s.steps.Leave(lease)
	n.reached(lease.Step)
	n.s.steps.Tell(&step.Attach{Lease: lease, Cancel: func() { _ = c.Close() }})
	how, st := ending{outcome: messages.OutcomeCancelled, why: "the program that ran it is gone"}, hypervisor.ExitStatus{}
	if say(c, api.InsideAnswer{Step: int64(lease.Step)}) {
		if last, err := readInside(in); err == nil && last.Ended {
			how, st.Code = ending{outcome: messages.OutcomeCompleted}, last.ExitCode&0xff
		}
	}
	how.group = n.group()
	res, err = n.s.finish(lease, first.Command, open.From, st, how)
	a = api.InsideAnswer{Step: int64(lease.Step), Outcome: res.Outcome, Reason: res.Reason, Left: res.Left, Others: res.Others}
	if err != nil {
		a.Error = err.Error()
	}
	for _, e := range res.Entries {
		a.Changed += e.Entry.AffectedCount
	}
	return a, res
}

// readInside reads a line. No program makes us keep more of it than the buffer holds.
func readInside(in *bufio.Reader) (r api.InsideRequest, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	if !utf8.Valid(line) {
		return r, errors.New("not UTF-8")
	}
	return r, json.Unmarshal(line, &r)
}

func say(c net.Conn, a api.InsideAnswer) bool {
	text, err := json.Marshal(a)
	if err != nil {
		return false
	}
	_ = c.SetWriteDeadline(time.Now().Add(insidePatience))
	_, err = c.Write(append(text, '\n'))
	return err == nil
}
