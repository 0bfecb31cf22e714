package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// command asks for a lease of a command that shares.
func (r *rig) command(text string) *Lease {
	r.t.Helper()
	l, err := r.lend(Open{Share: true, Wait: Queue, Info: undolog.StepInfo{Type: undolog.TypeCommand, Command: text}})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

// over ends a command and returns what its caller is told at once.
func (r *rig) over(l *Lease, change func(*Finish)) Finished {
	r.t.Helper()
	f := actortest.Within(r.t, "finish", r.finishes(l, change))
	if f.Err != nil {
		r.t.Fatal(f.Err)
	}
	r.steps.Leave(l)
	return f.Value
}

func exit(code int) func(*Finish) { return func(m *Finish) { m.Result.ExitCode = &code } }

// Commands that overlap are one step, which ends with the last of them; none waits
// for another, neither at its beginning nor at its end.
func TestOverlap(t *testing.T) {
	r := newRig(t, 1)
	a := r.command("a")
	b := r.command("b")
	if a.Joined || !b.Joined || b.Step != a.Step {
		t.Fatalf("%+v, %+v", a, b)
	}
	if f := r.over(a, exit(0)); f.Others != 1 || f.Outcome != messages.OutcomeCompleted || len(f.Entries) != 0 {
		t.Errorf("the first to end: %+v", f)
	}
	c := r.command("c") // overlaps with b alone
	if c.Step != a.Step {
		t.Errorf("step %d, not %d", c.Step, a.Step)
	}
	if f := r.over(b, exit(3)); f.Others != 1 {
		t.Errorf("the second to end: %+v", f)
	}
	if f := r.over(c, exit(4)); f.Others != 0 || len(f.Entries) != 1 {
		t.Errorf("the last to end: %+v", f)
	}
	res := r.dirs[0].closedWith()
	if res.CommandCount != 3 || len(res.Commands) != 3 || *res.ExitCode != 3 || res.Status != messages.OutcomeCompleted {
		t.Fatalf("%+v", res)
	}
	for i, want := range []string{"a", "b", "c"} {
		if got := res.Commands[i]; got.Command != want || *got.ExitCode != []int{0, 3, 4}[i] || got.EndedAt.Before(got.StartedAt) {
			t.Errorf("command %d: %+v", i, got)
		}
	}
	if d := r.command("d"); d.Joined || d.Step == a.Step {
		t.Errorf("a command after them: %+v", d)
	}
}

// A command that stands alone has a step that says nothing about other commands.
func TestAloneHasNoList(t *testing.T) {
	r := newRig(t, 1)
	r.over(r.command("a"), exit(2))
	if res := r.dirs[0].closedWith(); res.CommandCount != 0 || res.Commands != nil || *res.ExitCode != 2 {
		t.Errorf("%+v", res)
	}
}

// Beyond the limit a command waits for the end of any other, and is told so.
func TestLimit(t *testing.T) {
	r := newRig(t, 1)
	var all []*Lease
	for i := range messages.Commands {
		all = append(all, r.command(fmt.Sprint(i)))
	}
	if _, err := r.lend(Open{Share: true}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("who does not wait: %v", err)
	}
	told := make(chan Running, 1)
	next := r.queue(Open{Share: true, Wait: Queue, Queued: func(w Running) { told <- w }})
	if w := actortest.Within(t, "the note", told); w != (Running{all[0].Step, "0", messages.Commands}) {
		t.Errorf("%+v", w)
	}
	gone, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := r.steps.Lease(gone, Open{Share: true, Wait: Queue})
		gaveUp <- err
	}()
	actortest.Eventually(t, "two in the queue", func() bool { return r.waiters() == 2 })
	cancel()
	if err := actortest.Within(t, "who gave up", gaveUp); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.over(all[7], nil)
	l := actortest.Within(t, "the next", next)
	if !l.Joined || l.Step != all[0].Step {
		t.Errorf("%+v", l)
	}
	for _, o := range slices.Concat(all[:7], all[8:], []*Lease{l}) {
		r.over(o, nil)
	}
}

// A command that does not share waits for the end of the step, and so does an undo;
// commands that come later do not wait for them.
func TestUnsharedWaits(t *testing.T) {
	r := newRig(t, 1)
	a := r.command("a")
	if _, err := r.lend(Open{}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("who does not wait: %v", err)
	}
	if _, err := r.lend(Open{Kind: Apply}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("an undo: %v", err)
	}
	alone, undo := r.queue(Open{Wait: Queue}), r.queue(Open{Kind: Apply, Wait: Queue})
	b := r.command("b")
	if b.Step != a.Step {
		t.Errorf("%+v", b)
	}
	r.over(a, nil)
	r.over(b, nil)
	own := actortest.Within(t, "the one alone", alone)
	if own.Joined || own.Step == a.Step {
		t.Errorf("%+v", own)
	}
	r.over(own, nil)
	r.steps.Leave(actortest.Within(t, "the undo", undo))
}

// A step that fails ends all its commands; it is rolled back when the last has ended,
// and all that still ran are told. Nobody joins it.
func TestOverlapFails(t *testing.T) {
	r := newRig(t, 1)
	a, b, c := r.command("a"), r.command("b"), r.command("c")
	r.over(a, nil) // is told before anybody knows
	var ended [2]chan struct{}
	for i, l := range []*Lease{b, c} {
		ended[i] = make(chan struct{})
		r.tell(&Attach{Lease: l, Cancel: func() { close(ended[i]) }})
	}
	done := messages.NewReply[int64]()
	r.tell(&messages.StepFail{Step: int64(a.Step), Outcome: messages.OutcomeDenied, Reason: "no", Done: done})
	for i := range ended {
		actortest.Within(t, "its end", ended[i])
	}
	late := r.queue(Open{Share: true, Wait: Queue})
	first := r.finishes(b, nil)
	select {
	case f := <-first:
		t.Errorf("answered before the rollback: %+v", f)
	case l := <-late:
		t.Errorf("joined a step that fails: %+v", l)
	default:
	}
	last := r.finishes(c, nil)
	for _, ch := range []<-chan messages.Result[Finished]{first, last} {
		if f := actortest.Within(t, "finish", ch); f.Value.Outcome != messages.OutcomeDenied || f.Value.Others != 0 {
			t.Errorf("%+v", f)
		}
	}
	r.dirs[0].expect("abort", a.Step)
	if res := actortest.Within(t, "done", done.C()); res.Value != int64(a.Step) {
		t.Errorf("%+v", res)
	}
	r.steps.Leave(b)
	r.steps.Leave(c)
	if l := actortest.Within(t, "the next", late); l.Joined || l.Step == a.Step {
		t.Errorf("%+v", l)
	}
}

// A lost command takes the whole step with it.
func TestOverlapLost(t *testing.T) {
	r := newRig(t, 1)
	a, b := r.command("a"), r.command("b")
	ended := make(chan struct{})
	r.tell(&Attach{Lease: b, Cancel: func() { close(ended) }})
	lost := r.finishes(a, func(m *Finish) { m.Failed = "lost" })
	actortest.Within(t, "the other's end", ended)
	other := r.finishes(b, nil)
	for _, ch := range []<-chan messages.Result[Finished]{lost, other} {
		if f := actortest.Within(t, "finish", ch); f.Value.Outcome != messages.OutcomeFailed || f.Value.Reason != "lost" {
			t.Errorf("%+v", f)
		}
	}
}

// A reset ends every command of the step, and lets no other in before it.
func TestPreemptOverlap(t *testing.T) {
	r := newRig(t, 1)
	var causes []context.Context
	var all []*Lease
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		l, err := r.lend(Open{Share: true, Cancel: cancel})
		if err != nil {
			t.Fatal(err)
		}
		causes, all = append(causes, ctx), append(all, l)
	}
	reset := r.queue(Open{Kind: Apply, Wait: First, Preempt: messages.ErrReset})
	for _, ctx := range causes {
		actortest.Within(t, "the cancellation", ctx.Done())
	}
	late := r.queue(Open{Share: true, Wait: Queue})
	for _, l := range all {
		r.over(l, nil)
	}
	r.steps.Leave(actortest.Within(t, "the reset", reset))
	if l := actortest.Within(t, "the command after it", late); l.Joined {
		t.Errorf("%+v", l)
	}
}

// The session's own command ends; the session does when those have ended that joined
// its step. Then commands are told that it ends.
func TestLastOfSeveral(t *testing.T) {
	r := newRig(t, 1)
	own, err := r.lend(Open{Share: true, Last: true})
	if err != nil {
		t.Fatal(err)
	}
	guest := r.command("guest")
	r.over(own, nil)
	ended := messages.NewReply[Finished]()
	r.tell(&waitEnd{own.Step, ended})
	another := r.command("another") // nobody waits for a command that runs
	r.over(guest, nil)
	select {
	case f := <-ended.C():
		t.Errorf("ended while a command runs: %+v", f)
	default:
	}
	r.over(another, nil)
	if f := actortest.Within(t, "the end", ended.C()); f.Err != nil || len(f.Value.Entries) != 1 {
		t.Errorf("%+v", f)
	}
	if _, err := r.lend(Open{Share: true, Wait: Queue}); !errors.Is(err, messages.ErrEnding) {
		t.Errorf("a command afterwards: %v", err)
	}
	if _, err := r.steps.Ended(t.Context(), own.Step); err != nil {
		t.Errorf("the end of a step that had ended: %v", err)
	}
}

// A crash ends all commands, and the next step begins when all have left.
func TestOverlapCrash(t *testing.T) {
	r := newRig(t, 1)
	a, b := r.command("a"), r.command("b")
	ended := make(chan struct{}, 2)
	for _, l := range []*Lease{a, b} {
		r.tell(&Attach{Lease: l, Cancel: func() { ended <- struct{}{} }})
	}
	r.tell((*Finish)(nil))
	for range 2 {
		actortest.Within(t, "a command's end", ended)
	}
	r.dirs[0].expect("abort", a.Step)
	next := r.queue(Open{Share: true, Wait: Queue})
	for _, l := range []*Lease{b, a} {
		if f := actortest.Within(t, "finish", r.finishes(l, nil)); f.Err == nil {
			t.Error("finished in a step that was rolled back")
		}
		select {
		case <-next:
			t.Error("the next began before all had left")
		default:
		}
		r.steps.Leave(l)
	}
	if l := actortest.Within(t, "the next", next); l.Joined || l.Step == a.Step {
		t.Errorf("%+v", l)
	}
}

// However many commands a step has, and however long they are, what is kept of them
// is bounded.
func TestRecordIsBounded(t *testing.T) {
	var rec record
	info := undolog.StepInfo{Command: string(make([]byte, 1<<20))}
	for range 10_000 {
		rec.end(rec.begin(info, actortest.NewFakeClock().Now()), undolog.StepResult{Status: messages.OutcomeCompleted}, actortest.NewFakeClock().Now())
	}
	res := rec.result()
	size := 0
	for _, c := range res.Commands {
		size += len(c.Command) + len(c.Dir)
	}
	if res.CommandCount != 10_000 || len(res.Commands) > undolog.MaxStepCommands || size > recordAll || len(res.Commands) == 0 {
		t.Errorf("%d commands, %d listed, %d bytes", res.CommandCount, len(res.Commands), size)
	}
}

// What runs is published.
func TestRunningIsShown(t *testing.T) {
	var shown []string
	a := New(Options{Clock: actortest.NewFakeClock(), Running: func(list []api.RunningCommand) {
		shown = nil
		for _, c := range list {
			shown = append(shown, c.Command)
		}
	}})
	for _, text := range []string{"a", "b"} {
		a.runs(&Lease{open: &Open{Info: undolog.StepInfo{Command: text}}})
	}
	if !slices.Equal(shown, []string{"a", "b"}) {
		t.Errorf("%q", shown)
	}
}
