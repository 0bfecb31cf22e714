package step

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// fakeDir records what it is told and answers at once.
type fakeDir struct {
	name  string
	probe *actortest.Probe

	mu       sync.Mutex
	next     undolog.StepID
	inFlight int
	holding  bool
	last     time.Time
	closeErr error
	result   undolog.StepResult               // of the newest Close
	silent   atomic.Bool                      // Assign is not answered
	late     chan func(*undolog.Entry, error) // if not nil: gets what Close is to answer
}

func (d *fakeDir) Path() string           { return d.name }
func (d *fakeDir) NextID() undolog.StepID { d.next++; return d.next }
func (d *fakeDir) Assign(id undolog.StepID, _ undolog.StepInfo, done func(error)) {
	d.probe.Tell([2]any{"assign", id})
	if !d.silent.Load() {
		done(nil)
	}
}
func (d *fakeDir) Close(id undolog.StepID, res undolog.StepResult, done func(*undolog.Entry, error)) {
	d.set(func() { d.result = res })
	d.probe.Tell([2]any{"close", id})
	if d.late != nil {
		d.late <- done
		return
	}
	d.mu.Lock()
	err := d.closeErr
	d.mu.Unlock()
	if err != nil {
		done(nil, err)
		return
	}
	done(&undolog.Entry{StepID: id}, nil)
}
func (d *fakeDir) Failing(id undolog.StepID) { d.probe.Tell([2]any{"failing", id}) }
func (d *fakeDir) Abort(id undolog.StepID, done func(error)) {
	d.probe.Tell([2]any{"abort", id})
	done(nil)
}
func (d *fakeDir) InFlight() int           { d.mu.Lock(); defer d.mu.Unlock(); return d.inFlight }
func (d *fakeDir) Holding() bool           { d.mu.Lock(); defer d.mu.Unlock(); return d.holding }
func (d *fakeDir) LastMutation() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.last }
func (d *fakeDir) set(f func())            { d.mu.Lock(); defer d.mu.Unlock(); f() }

func (d *fakeDir) closedWith() undolog.StepResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.result
}

// expect skips to the message.
func (d *fakeDir) expect(what string, id undolog.StepID) {
	for d.probe.Next() != [2]any{what, id} {
	}
}

type rig struct {
	t     *testing.T
	clock *actortest.FakeClock
	dirs  []*fakeDir
	tell  func(any)
	steps Steps
	lease *Lease // the newest
	given []*Lease
	node  *supervision.Node
	tree  *supervision.Tree
}

func newRig(t *testing.T, next ...undolog.StepID) *rig {
	r := &rig{t: t, clock: actortest.NewFakeClock(), tree: supervision.NewTree()}
	r.node = r.tree.Node("steps")
	var dirs []Directory
	for _, n := range next {
		d := &fakeDir{name: "/dir", next: n - 1, probe: actortest.NewProbe(t)}
		r.dirs, dirs = append(r.dirs, d), append(dirs, d)
	}
	system := supervision.NewSystem(nil)
	strategy := supervision.NewStrategy(r.clock, supervision.Backoff{}, nil, nil)
	holder := &Holder{}
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{New: func() actor.Actor {
		return New(Options{Directories: dirs, Idle: 100 * time.Millisecond, Max: 2 * time.Second, Clock: r.clock, Node: r.node, Holder: holder})
	}}, messages.ErrCrashed), "steps")
	if err != nil {
		t.Fatal(err)
	}
	r.tell = func(m any) { system.Root.Send(pid, m) }
	r.steps = Steps{messages.Ref{Tell: r.tell}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := supervision.StopActor(ctx, system, pid); err != nil {
			t.Error(err)
		}
		system.Shutdown()
	})
	return r
}

func (r *rig) open() (undolog.StepID, error) {
	r.t.Helper()
	l, err := r.lend(Open{})
	if err != nil {
		return 0, err
	}
	r.lease = l
	return l.Step, nil
}

// lend asks for a lease.
func (r *rig) lend(o Open) (*Lease, error) {
	r.t.Helper()
	type result struct {
		l   *Lease
		err error
	}
	got := make(chan result, 1)
	go func() { l, err := r.steps.Lease(r.t.Context(), o); got <- result{l, err} }()
	res := actortest.Within(r.t, "open", got)
	if res.err == nil {
		r.given = append(r.given, res.l)
	}
	return res.l, res.err
}

// of finds the lease that opened a step.
func (r *rig) of(id undolog.StepID) *Lease {
	for _, l := range r.given {
		if l.Step == id && !l.Joined {
			return l
		}
	}
	return &Lease{Step: id}
}

// leave ends the newest lease.
func (r *rig) leave() { r.steps.Leave(r.lease) }

func (r *rig) finish(id undolog.StepID, change func(*Finish)) <-chan messages.Result[Finished] {
	return r.finishes(r.of(id), change)
}

func (r *rig) finishes(l *Lease, change func(*Finish)) <-chan messages.Result[Finished] {
	p := messages.NewReply[Finished]()
	m := &Finish{Lease: l, Result: undolog.StepResult{Status: messages.OutcomeCompleted}, Reply: p}
	if change != nil {
		change(m)
	}
	r.tell(m)
	return p.C()
}

func (r *rig) phase(p phase) {
	r.t.Helper()
	actortest.Eventually(r.t, "phase "+string(p), func() bool { return r.node.State() == string(p) })
}

// drive lets time go by until the step is finished.
func (r *rig) drive(ch <-chan messages.Result[Finished]) error {
	for {
		select {
		case f := <-ch:
			return f.Err
		case <-time.After(time.Millisecond):
			if r.clock.Timers() > 0 {
				r.clock.Advance(poll)
			}
		}
	}
}

// One id serves every folder: the largest that any log would give.
func TestOneIDForAllFolders(t *testing.T) {
	r := newRig(t, 3, 7)
	id, err := r.open()
	if id != 7 || err != nil {
		t.Fatalf("id %d, %v", id, err)
	}
	for _, d := range r.dirs {
		d.expect("assign", 7)
	}
	// CC-06: a second command while one runs is refused, the first unaffected.
	if _, err := r.open(); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("second: %v", err)
	}
	f := actortest.Within(t, "finish", r.finish(7, nil))
	if f.Err != nil || len(f.Value.Entries) != 2 || f.Value.Outcome != messages.OutcomeCompleted {
		t.Errorf("%+v", f)
	}
}

// CC-05: an end without a beginning is an error and nothing else.
func TestCC05FinishWithoutOpen(t *testing.T) {
	r := newRig(t, 1)
	if f := actortest.Within(t, "finish", r.finish(9, nil)); f.Err == nil {
		t.Error("no error")
	}
	if _, err := r.open(); err != nil {
		t.Error(err)
	}
}

// CC-09: without late writes the step closes when the folder has been quiet for
// the idle time, which for a command that wrote nothing is at once.
func TestCC09Quiet(t *testing.T) {
	r := newRig(t, 1)
	id, _ := r.open()
	if f := actortest.Within(t, "finish", r.finish(id, nil)); f.Err != nil {
		t.Error(f.Err)
	}
	r.leave()
	id, _ = r.open()
	r.dirs[0].set(func() { r.dirs[0].last = r.clock.Now() })
	ch := r.finish(id, nil)
	r.clock.WaitArmed(100 * time.Millisecond)
	r.phase(quiescing)
	r.clock.Advance(100 * time.Millisecond)
	if f := actortest.Within(t, "finish", ch); f.Err != nil {
		t.Error(f.Err)
	}
	r.leave()
	// Nobody is left to write: no waiting.
	id, _ = r.open()
	r.dirs[0].set(func() { r.dirs[0].last = r.clock.Now() })
	if f := actortest.Within(t, "finish", r.finish(id, func(m *Finish) { m.Quiet = true })); f.Err != nil {
		t.Error(f.Err)
	}
}

// CC-10: closing waits for requests in flight and for what is held.
func TestCC10LateWrite(t *testing.T) {
	r := newRig(t, 1)
	id, _ := r.open()
	d := r.dirs[0]
	d.set(func() { d.inFlight = 1 })
	ch := r.finish(id, nil)
	for range 10 {
		r.clock.WaitArmed(poll)
		r.clock.Advance(poll)
	}
	r.phase(quiescing)
	wrote := r.clock.Now()
	d.set(func() { d.inFlight, d.last = 0, wrote })
	if err := r.drive(ch); err != nil || r.clock.Now().Sub(wrote) < 100*time.Millisecond {
		t.Errorf("closed %v after the late write: %v", r.clock.Now().Sub(wrote), err)
	}
}

// CC-11: requests that never end do not keep the step open for more than the
// maximum; a decision that is pending does, because it has its own deadline.
func TestCC11Maximum(t *testing.T) {
	r := newRig(t, 1)
	id, _ := r.open()
	d := r.dirs[0]
	d.set(func() { d.inFlight, d.holding = 1, true })
	ch := r.finish(id, nil)
	for range 3 {
		r.clock.WaitArmed(2 * time.Second)
		r.clock.Advance(2 * time.Second)
	}
	r.phase(quiescing)
	d.set(func() { d.holding = false })
	if err := r.drive(ch); err != nil {
		t.Error(err)
	}
}

// A step that fails: everywhere its mutations fail, the command is ended, then
// everything is rolled back.
func TestStepFails(t *testing.T) {
	r := newRig(t, 1, 1)
	id, _ := r.open()
	cancelled := make(chan struct{})
	r.tell(&Attach{Lease: r.of(id), Cancel: func() { close(cancelled) }})
	done := messages.NewReply[int64]()
	r.tell(&messages.StepFail{Step: int64(id), Outcome: messages.OutcomeDenied, Reason: "no", Done: done})
	for _, d := range r.dirs {
		d.expect("failing", id)
	}
	actortest.Within(t, "cancel", cancelled)
	f := actortest.Within(t, "finish", r.finish(id, nil))
	if f.Value.Outcome != messages.OutcomeDenied || f.Value.Reason != "no" || len(f.Value.Entries) != 0 {
		t.Errorf("%+v", f)
	}
	for _, d := range r.dirs {
		d.expect("abort", id)
	}
	if res := actortest.Within(t, "done", done.C()); res.Value != int64(id) {
		t.Errorf("rolled back step %d", res.Value)
	}
	r.leave()
	if _, err := r.open(); err != nil {
		t.Error(err)
	}
}

// A failure before the command runs ends it as soon as it does.
func TestFailsBeforeAttach(t *testing.T) {
	r := newRig(t, 1)
	id, _ := r.open()
	r.tell(&messages.StepFail{Outcome: messages.OutcomeFailed, Reason: "early"})
	cancelled := make(chan struct{})
	r.tell(&Attach{Lease: r.of(id), Cancel: func() { close(cancelled) }})
	actortest.Within(t, "cancel", cancelled)
	if f := actortest.Within(t, "finish", r.finish(id, nil)); f.Value.Outcome != messages.OutcomeFailed {
		t.Errorf("%+v", f)
	}
}

// A step that cannot be closed in one folder is rolled back.
func TestCloseFails(t *testing.T) {
	r := newRig(t, 1)
	id, _ := r.open()
	r.dirs[0].closeErr = errors.New("disk full")
	if f := actortest.Within(t, "finish", r.finish(id, nil)); f.Value.Outcome != messages.OutcomeFailed {
		t.Errorf("%+v", f)
	}
	r.dirs[0].expect("abort", id)
}

// U9: a step that could neither be closed nor rolled back is not said to be.
func TestU9CloseAndRollbackFail(t *testing.T) {
	for _, c := range []struct {
		err  error
		left bool
	}{{errors.New("disk full"), false}, {fmt.Errorf("disk full; %w", messages.ErrNotRolledBack), true}} {
		r := newRig(t, 1)
		id, _ := r.open()
		r.dirs[0].closeErr = c.err
		if f := actortest.Within(t, "finish", r.finish(id, nil)); f.Value.Left != c.left || f.Value.Outcome != messages.OutcomeFailed {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
}

// Nothing is open: there is nothing to fail.
func TestFailWhenIdle(t *testing.T) {
	r := newRig(t, 1)
	done := messages.NewReply[int64]()
	r.tell(&messages.StepFail{Outcome: messages.OutcomeFailed, Done: done})
	if res := actortest.Within(t, "done", done.C()); res.Value != 0 || res.Err != nil {
		t.Errorf("%+v", res)
	}
}

// Who asks for a rollback when every folder is closing already gets the truth:
// the step is kept, and has to be undone.
func TestFailWhileClosing(t *testing.T) {
	r := newRig(t, 1, 1)
	id, _ := r.open()
	late := make(chan func(*undolog.Entry, error), 2)
	for _, d := range r.dirs {
		d.late = late
	}
	ch := r.finish(id, nil)
	first, second := actortest.Within(t, "close", late), actortest.Within(t, "close", late)
	done := messages.NewReply[int64]()
	r.tell(&messages.StepFail{Outcome: messages.OutcomeFailed, Reason: "undo", Done: done})
	for _, d := range r.dirs {
		d.expect("failing", id)
	}
	first(&undolog.Entry{StepID: id}, nil)
	second(&undolog.Entry{StepID: id}, nil)
	f := actortest.Within(t, "finish", ch)
	if f.Err != nil || f.Value.Outcome != messages.OutcomeCompleted || f.Value.Reason != "" || len(f.Value.Entries) != 2 {
		t.Errorf("%+v", f)
	}
	if res := actortest.Within(t, "done", done.C()); res.Err != nil || res.Value != 0 {
		t.Errorf("rolled back step %d, %v", res.Value, res.Err)
	}
}
