package command

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// inputs is how many pieces of input wait for a command at most.
const inputs = 64

// Options make an [Actor].
type Options struct {
	Table  *Table
	Clock  supervision.Clock
	Logger *slog.Logger
	Node   *supervision.Node
}

// Actor keeps the commands of a session.
type Actor struct {
	o    Options
	tell func(any)
	t    *Table
}

// New makes a fresh instance.
func New(o Options) *Actor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Actor{o: o, t: o.Table}
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		self, root := ctx.Self(), ctx.ActorSystem().Root
		a.tell = func(m any) { root.Send(self, m) }
		a.o.Node.SetState("active")
	case *actor.Restarting:
		a.release(messages.ErrCrashed)
	case *actor.Stopping:
		a.release(messages.ErrStopped)
	case *actor.Stopped:
	case *begin:
		a.onBegin(m)
	case *started:
		a.onStarted(m)
	case *left:
		a.onLeft(m)
	case *over:
		a.onOver(m)
	case *list:
		a.onList(m)
	case *find:
		a.onFind(m)
	case *newest:
		a.onNewest(m)
	case *waitEnd:
		a.onWaitEnd(m)
	case *wrote:
		a.onWrote(m)
	case *follow:
		a.onFollow(m)
	case *next:
		a.onNext(m)
	case *unfollow:
		a.onUnfollow(m)
	case *give:
		a.onGive(m)
	case *gave:
		a.onGave(m)
	case *impatient:
		a.onImpatient(m)
	default:
		a.o.Logger.Error("unknown message", "component", "session", "type", fmt.Sprintf("%T", m))
	}
	switch ctx.Message().(type) {
	case *wrote, *next: // there are many, and they change nothing of it
	default:
		a.show()
	}
}

// show says how many there are.
func (a *Actor) show() {
	counts := map[string]int{api.CommandRunning: 0, api.CommandService: 0, api.CommandEnded: 0, "followers": 0}
	for _, e := range a.t.list {
		if e.started {
			counts[e.status.State]++
		}
		counts["followers"] += len(e.followers)
	}
	for k, n := range counts {
		fact := ""
		if n > 0 {
			fact = strconv.Itoa(n)
		}
		a.o.Node.SetFact(k, fact)
	}
}

// release answers everybody who waits. The commands run on, and the next instance finds them.
func (a *Actor) release(why error) {
	for _, e := range a.t.list {
		for _, f := range e.followers {
			if f.next != nil {
				f.next.Fail(why)
				f.next = nil
			}
		}
		for _, m := range e.waiting {
			m.Fail(why)
		}
		for _, r := range e.ends {
			r.Fail(why)
		}
		for _, m := range e.in.queue {
			m.Fail(why)
		}
		e.waiting, e.ends = nil, nil
		e.in.queue = e.in.queue[:min(1, len(e.in.queue))] // the first is being written
	}
}

func (a *Actor) onBegin(m *begin) {
	if n := a.t.active(); n >= api.CommandsAtMost {
		m.Fail(fmt.Errorf("%w: %d commands of the session run, services among them, and no more may; stop one", messages.ErrBusy, n))
		return
	}
	r := m.request
	a.t.last++
	a.t.list = append(a.t.list, &entry{
		status: api.CommandStatus{
			Number: a.t.last, Argv: slices.Clone(r.Argv), Dir: r.Dir, Tag: r.Tag, State: api.CommandRunning, Stdin: r.Stdin, Terminal: r.Terminal != nil,
		},
		cancel: m.cancel, awaited: r.Awaited, seen: map[string]int64{},
	})
	m.reply.Send(a.t.last, nil)
}

func (a *Actor) onStarted(m *started) {
	e, err := a.t.find(m.number)
	if err != nil {
		m.Fail(err)
		return
	}
	if !e.started {
		e.started, e.proc, e.in.file = true, m.at.Process, m.at.Input
		e.status.State, e.status.Step, e.status.StartedAt, e.status.PID, e.status.Service = m.at.Status.State, m.at.Status.Step, m.at.Status.StartedAt, m.at.Status.PID, m.at.Status.Service
	}
	m.reply.Send(e.now(), nil)
}

func (a *Actor) onLeft(m *left) {
	e, err := a.t.find(m.number)
	if err != nil {
		m.Fail(err)
		return
	}
	if !e.ended {
		e.status.State, e.status.Service = api.CommandService, m.service
	}
	m.reply.Send(e.now(), nil)
}

func (a *Actor) onOver(m *over) {
	e, err := a.t.find(m.number)
	switch {
	case err != nil:
		m.Fail(err)
		return
	case m.end == nil || !e.started:
		a.t.list = slices.DeleteFunc(a.t.list, func(x *entry) bool { return x == e })
		a.closeInput(e)
		m.reply.Send(e.now(), nil)
		return
	case !e.ended:
		e.ended, e.proc = true, nil
		e.status.State, e.status.Ended = api.CommandEnded, m.end
		a.closeInput(e)
	}
	m.reply.Send(e.now(), nil)
	for _, r := range e.ends {
		r.Send(e.now(), nil)
	}
	e.ends = nil
	for _, f := range e.followers {
		a.serve(f)
	}
	a.t.forget()
}

func (a *Actor) onList(m *list) {
	out := []api.CommandStatus{}
	for _, e := range a.t.list {
		if e.started {
			out = append(out, e.now())
		}
	}
	m.reply.Send(out, nil)
}

func (a *Actor) onFind(m *find) {
	e, err := a.t.running(m.number)
	if err != nil {
		m.Fail(err)
		return
	}
	m.reply.Send(Handle{e.now(), e.proc, e.cancel}, nil)
}

func (a *Actor) onNewest(m *newest) {
	e, err := a.t.find(m.number)
	if err != nil {
		m.Fail(err)
		return
	}
	data, omitted := e.out.newest(m.limit)
	m.reply.Send(Newest{e.now(), data, omitted}, nil)
}

func (a *Actor) onWaitEnd(m *waitEnd) {
	e, err := a.t.find(m.number)
	switch {
	case err != nil:
		m.Fail(err)
	case e.ended:
		m.reply.Send(e.now(), nil)
	default:
		e.ends = append(e.ends, m.reply)
	}
}

// onWrote keeps what was written, when there is room.
func (a *Actor) onWrote(m *wrote) {
	e, err := a.t.find(m.number)
	switch {
	case err != nil:
		m.Fail(err)
	case m.at < e.seen[m.stream]: // an instance that has crashed since has taken it
		m.reply.Send(struct{}{}, nil)
	case e.full(len(m.data)):
		e.waiting = append(e.waiting, m) // one for each stream, at most
		a.wait(e)
	default:
		a.take(e, m)
	}
}

// wait begins the time that the command waits for its reader.
func (a *Actor) wait(e *entry) {
	if e.timed {
		return
	}
	e.timed = true
	tick := &impatient{e.status.Number, e.pace, a.tell}
	a.o.Clock.AfterFunc(api.CommandPatience, func() { tick.again(tick) })
}

func (a *Actor) take(e *entry, m *wrote) {
	e.out.add(m.stream, m.data)
	e.seen[m.stream] = m.at + int64(len(m.data))
	m.reply.Send(struct{}{}, nil)
	for _, f := range e.followers {
		a.serve(f)
	}
}

// admit takes what waits, as far as there is room.
func (a *Actor) admit(e *entry) {
	for len(e.waiting) > 0 && !e.full(len(e.waiting[0].data)) {
		m := e.waiting[0]
		e.waiting = e.waiting[1:]
		a.take(e, m)
	}
}

func (a *Actor) onImpatient(m *impatient) {
	e, err := a.t.find(m.number)
	if err != nil {
		return
	}
	e.timed = false
	if len(e.waiting) == 0 {
		return
	}
	if m.pace != e.pace { // something was taken meanwhile
		a.wait(e)
		return
	}
	e.awaited = false
	for _, f := range e.followers {
		f.paced = false
	}
	a.admit(e)
}

func (a *Actor) onFollow(m *follow) {
	e, err := a.t.find(m.request.Number)
	switch {
	case err != nil:
		m.Fail(err)
		return
	case len(e.followers) >= api.CommandFollowers:
		m.Fail(fmt.Errorf("%w %d: %d follow it, and no more may", api.ErrCommand, m.request.Number, api.CommandFollowers))
		return
	}
	f := &Follower{e: e, at: min(m.request.From, e.out.total), paced: m.request.Paced}
	if f.at < 0 {
		f.at = e.out.total
	}
	if !m.reply.Send(f, nil) { // nobody waits for it any more
		return
	}
	e.followers = append(e.followers, f)
	e.pace++
	e.awaited = false
	a.admit(e) // with two, it waits for none
}

func (a *Actor) onUnfollow(m *unfollow) {
	e := m.f.e
	e.followers = slices.DeleteFunc(e.followers, func(f *Follower) bool { return f == m.f })
	if m.f.next != nil {
		m.f.next.Fail(context.Canceled)
		m.f.next = nil
	}
	a.admit(e)
}

func (a *Actor) onNext(m *next) {
	if e := m.f.e; !slices.Contains(e.followers, m.f) { // an instance has crashed in between
		e.followers = append(e.followers, m.f)
	}
	m.f.next = m.reply
	a.serve(m.f)
}

// serve answers a follower if there is something for him.
func (a *Actor) serve(f *Follower) {
	if f.next == nil {
		return
	}
	events := f.events()
	if len(events) == 0 {
		return
	}
	last := events[len(events)-1]
	f.next.Send(events, nil)
	f.at, f.next = last.At+int64(len(last.Data)), nil
	f.e.pace++
	a.admit(f.e)
}

func (a *Actor) onGive(m *give) {
	e, err := a.t.running(m.number)
	switch {
	case err != nil:
	case e.in.file == nil:
		err = fmt.Errorf("%w %d has no input, or it was closed; start it with stdin", api.ErrCommand, m.number)
	case m.close && e.status.Terminal:
		err = fmt.Errorf("%w %d has a terminal, which has no end of its own; send the byte 4", api.ErrCommand, m.number)
	case len(e.in.queue) >= inputs:
		err = fmt.Errorf("%w %d does not read its input, and %d pieces wait already", api.ErrCommand, m.number, inputs)
	}
	if err != nil {
		m.Fail(err)
		return
	}
	e.in.queue = append(e.in.queue, m)
	if len(e.in.queue) == 1 {
		a.write(e)
	}
}

// write writes the first of the queue.
func (a *Actor) write(e *entry) {
	m, f, tell := e.in.queue[0], e.in.file, a.tell
	go func() {
		var err error
		if m.close {
			err = f.Close()
		} else {
			_, err = f.Write(m.data)
		}
		tell(&gave{m, err, tell})
	}()
}

func (a *Actor) onGave(m *gave) {
	e, err := a.t.find(m.first.number)
	if err != nil || len(e.in.queue) == 0 || e.in.queue[0] != m.first {
		return
	}
	e.in.queue = e.in.queue[1:]
	err = m.err
	if err != nil {
		err = fmt.Errorf("%w %d does not take input any more: %w", api.ErrCommand, m.first.number, err)
	}
	m.first.reply.Send(struct{}{}, err)
	if m.first.close || err != nil {
		a.closeInput(e)
	}
	if len(e.in.queue) > 0 {
		a.write(e)
	}
}

// closeInput ends the input, and refuses what waits for it.
func (a *Actor) closeInput(e *entry) {
	f := e.in.file
	if f == nil {
		return
	}
	e.in.file = nil
	for _, m := range e.in.queue {
		m.Fail(fmt.Errorf("%w %d has ended, or its input is closed", api.ErrCommand, m.number))
	}
	e.in.queue = nil
	if e.status.Terminal { // which is read, too: it is closed with that
		return
	}
	go func() { _ = f.Close() }() // it wakes who writes
}
