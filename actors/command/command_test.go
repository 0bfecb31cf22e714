package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// rig is an actor, and commands that are played by the test.
type rig struct {
	t     *testing.T
	clock *actortest.FakeClock
	node  *supervision.Node
	Commands
	crash atomic.Pointer[func(msg any) bool] // whether to crash at a message
	at    map[string]int64                   // what was written to each stream
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, clock: actortest.NewFakeClock(), at: map[string]int64{}}
	tree := supervision.NewTree()
	r.node = tree.Node("commands")
	tree.Observe(func(_ string, msg any) {
		if f := r.crash.Load(); f != nil && (*f)(msg) {
			panic("crash")
		}
	})
	system := supervision.NewSystem(nil)
	strategy := supervision.NewStrategy(supervision.RealClock{}, supervision.Backoff{}, nil, nil)
	table := &Table{}
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{Node: r.node, New: func() actor.Actor {
		return New(Options{Table: table, Clock: r.clock, Node: r.node})
	}}, messages.ErrCrashed), "commands")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	r.Commands = Commands{messages.Ref{Tell: func(m any) { system.Root.Send(pid, m) }, Stopped: stopped}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := supervision.StopActor(ctx, system, pid); err != nil {
			t.Error(err)
		}
		close(stopped)
		system.Shutdown()
	})
	return r
}

// start is a command that runs.
func (r *rig) start(req api.CommandRequest, in *os.File) int64 {
	r.t.Helper()
	n, err := r.Begin(r.t.Context(), req, func(error) {})
	if err == nil {
		_, err = r.Started(n, Start{Status: api.CommandStatus{State: api.CommandRunning, Step: 3, StartedAt: r.clock.Now(), PID: 12}, Input: in})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) write(n int64, stream, data string) error {
	key := fmt.Sprint(n, stream)
	at := r.at[key]
	r.at[key] += int64(len(data))
	return r.Wrote(r.t.Context(), n, at, stream, []byte(data))
}

func (r *rig) mustWrite(n int64, stream, data string) {
	r.t.Helper()
	if err := r.write(n, stream, data); err != nil {
		r.t.Fatal(err)
	}
}

// fill writes so many pieces of the largest size, each of one letter.
func (r *rig) fill(n int64, from, to int) {
	r.t.Helper()
	for i := from; i < to; i++ {
		r.mustWrite(n, api.StreamStdout, strings.Repeat(string(rune('a'+i)), api.CommandData))
	}
}

const pieces = api.CommandOutput / api.CommandData // that are kept

// all follows to the end.
func (r *rig) all(req api.FollowRequest) (out map[string]string, missed int64, end *api.CommandEnd) {
	r.t.Helper()
	out = map[string]string{}
	next := int64(-1)
	err := r.Follow(r.t.Context(), req, func(e api.CommandEvent) error {
		if next >= 0 && e.At != next+e.Missed {
			r.t.Errorf("an event at %d, missed %d, after %d", e.At, e.Missed, next)
		}
		if len(e.Data) > api.CommandData {
			r.t.Errorf("%d bytes in one event", len(e.Data))
		}
		next = e.At + int64(len(e.Data))
		out[e.Stream] += string(e.Data)
		missed += e.Missed
		end = e.Ended
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out, missed, end
}

// What was written is given from any place that is kept, the streams apart, and the end after it; it is there after the end, too.
func TestFollow(t *testing.T) {
	r := newRig(t)
	n := r.start(api.CommandRequest{Argv: []string{"make"}, Tag: "mine"}, nil)
	r.mustWrite(n, api.StreamStdout, "one ")
	r.mustWrite(n, api.StreamStderr, "oh ")
	r.mustWrite(n, api.StreamStdout, "two")
	if _, err := r.Ended(n, &api.CommandEnd{ExitCode: 7, Outcome: "completed"}); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int64][2]string{0: {"one two", "oh "}, 2: {"e two", "oh "}, 4: {"two", "oh "}, 8: {"wo", ""}, 10: {"", ""}, -1: {"", ""}, 99: {"", ""}} {
		out, missed, end := r.all(api.FollowRequest{Number: n, From: from})
		if out[api.StreamStdout] != want[0] || out[api.StreamStderr] != want[1] || missed != 0 || end == nil || end.ExitCode != 7 {
			t.Errorf("from %d: %q, %d missed, %+v", from, out, missed, end)
		}
	}
	list, err := r.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != api.CommandEnded || list[0].Tag != "mine" || list[0].OutputBytes != 10 || list[0].PID != 12 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := r.Follow(t.Context(), api.FollowRequest{Number: 99}, nil); !errors.Is(err, api.ErrNoCommand) || !errors.Is(err, api.ErrCommand) {
		t.Errorf("another number: %v", err)
	}
}

// Who follows hears at once of what is written, and of the end of his own context.
func TestFollowLive(t *testing.T) {
	r := newRig(t)
	n := r.start(api.CommandRequest{Argv: []string{"make"}}, nil)
	events, ended := make(chan api.CommandEvent), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- r.Follow(ctx, api.FollowRequest{Number: n}, func(e api.CommandEvent) error { events <- e; return nil })
	}()
	for i, text := range []string{"one", "two"} {
		r.mustWrite(n, api.StreamStdout, text)
		if e := actortest.Within(t, "an event", events); string(e.Data) != text || e.At != int64(3*i) {
			t.Errorf("%+v", e)
		}
	}
	cancel()
	if err := actortest.Within(t, "the end of it", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if f := r.node; f.State() != "active" {
		t.Errorf("%s", f.State())
	}
}

// What is not kept any more is counted, and the command waits for nobody who has not asked for it.
func TestSlowFollower(t *testing.T) {
	r := newRig(t)
	n := r.start(api.CommandRequest{Argv: []string{"yes"}}, nil)
	r.fill(n, 0, pieces+3)
	if _, err := r.Ended(n, &api.CommandEnd{}); err != nil {
		t.Fatal(err)
	}
	out, missed, _ := r.all(api.FollowRequest{Number: n})
	if text := out[api.StreamStdout]; missed != 3*api.CommandData || len(text) != api.CommandOutput || text[0] != 'd' {
		t.Errorf("%d missed, %d bytes", missed, len(text))
	}
	out, missed, _ = r.all(api.FollowRequest{Number: n, From: 4*api.CommandData + 5})
	if text := out[api.StreamStdout]; missed != 0 || len(text) != (pieces-1)*api.CommandData-5 {
		t.Errorf("from the middle: %d missed, %d bytes", missed, len(text))
	}
	got, err := r.Newest(t.Context(), n, 10)
	if err != nil || len(got.Data) != 10 || got.Omitted != int64((pieces+3)*api.CommandData-10) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A command waits for the one reader that has asked for it: he misses nothing, however slow he is. If he takes nothing for long, it goes on.
func TestPaced(t *testing.T) {
	r := newRig(t)
	n := r.start(api.CommandRequest{Argv: []string{"yes"}, Awaited: true}, nil)
	r.fill(n, 0, pieces) // as much as is kept
	wrote := make(chan error, 1)
	go func() { wrote <- r.write(n, api.StreamStdout, strings.Repeat("z", 1000)) }()
	r.clock.WaitArmed(api.CommandPatience) // it waits for the first reader
	select {
	case err := <-wrote:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	events, follow := make(chan api.CommandEvent), make(chan error, 1)
	go func() {
		follow <- r.Follow(t.Context(), api.FollowRequest{Number: n, Paced: true}, func(e api.CommandEvent) error { events <- e; return nil })
	}()
	total := int64(0)
	take := func() api.CommandEvent {
		e := actortest.Within(t, "an event", events)
		if e.Missed != 0 || e.Ended == nil && e.At != total {
			t.Errorf("at %d: missed %d, at %d", total, e.Missed, e.At)
		}
		total += int64(len(e.Data))
		return e
	}
	take()
	if err := actortest.Within(t, "room", wrote); err != nil {
		t.Error(err)
	}
	// He stands still: two more are taken, as two were given to him, and then it waits, for a minute.
	go func() {
		r.fill(n, 0, pieces)
		wrote <- nil
	}()
	actortest.Eventually(t, "its patience ends", func() bool {
		r.clock.Advance(api.CommandPatience)
		select {
		case err := <-wrote:
			return err == nil
		default:
			return false
		}
	})
	if _, err := r.Ended(n, &api.CommandEnd{}); err != nil {
		t.Fatal(err)
	}
	missed := int64(0)
	for e := (api.CommandEvent{}); e.Ended == nil; missed += e.Missed {
		e = actortest.Within(t, "the rest", events)
	}
	if missed == 0 {
		t.Error("he has missed nothing")
	}
	if err := actortest.Within(t, "the end", follow); err != nil {
		t.Error(err)
	}
}

// With a second reader it waits for none.
func TestPacedIsAlone(t *testing.T) {
	r := newRig(t)
	n := r.start(api.CommandRequest{Argv: []string{"yes"}, Awaited: true}, nil)
	r.fill(n, 0, pieces)
	wrote := make(chan error, 1)
	go func() { wrote <- r.write(n, api.StreamStderr, "more") }()
	r.clock.WaitArmed(api.CommandPatience)
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		go func() {
			_ = r.Follow(ctx, api.FollowRequest{Number: n, Paced: true}, func(api.CommandEvent) error { <-ctx.Done(); return ctx.Err() })
		}()
	}
	if err := actortest.Within(t, "room", wrote); err != nil {
		t.Error(err)
	}
	cancel()
}

// Input arrives in its order, and its end after it; who sends more than is read waits, and many are refused.
func TestInput(t *testing.T) {
	r := newRig(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	n := r.start(api.CommandRequest{Argv: []string{"cat"}, Stdin: true}, out)
	if err := r.Give(t.Context(), n, []byte("one "), false); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	big := strings.Repeat("x", 1<<20)
	go func() { done <- r.Give(t.Context(), n, []byte(big), false) }()
	head := make([]byte, 5)
	if _, err := io.ReadFull(in, head); err != nil || string(head) != "one x" {
		t.Fatalf("%q, %v", head, err)
	}
	go func() { done <- r.Give(t.Context(), n, nil, true) }()
	rest, err := io.ReadAll(in)
	if err != nil || len(rest) != len(big)-1 {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	for range 2 {
		if err := actortest.Within(t, "an answer", done); err != nil {
			t.Error(err)
		}
	}
	if err := r.Give(t.Context(), n, []byte("x"), false); !errors.Is(err, api.ErrCommand) || errors.Is(err, api.ErrNoCommand) {
		t.Errorf("after its end: %v", err)
	}
	list, err := r.List(t.Context())
	if err != nil || list[0].Stdin {
		t.Errorf("%+v, %v", list, err)
	}
}

// A command that reads nothing keeps nobody waiting for ever: what is too much is refused, and its end wakes those who wait.
func TestInputIsNotRead(t *testing.T) {
	r := newRig(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	n := r.start(api.CommandRequest{Argv: []string{"sleep"}, Stdin: true}, out)
	answers := make(chan error, inputs+1)
	for range inputs + 1 {
		go func() { answers <- r.Give(t.Context(), n, make([]byte, 1<<20), false) }()
	}
	if err := actortest.Within(t, "a refusal", answers); !errors.Is(err, api.ErrCommand) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := r.Ended(n, &api.CommandEnd{}); err != nil {
		t.Fatal(err)
	}
	for range inputs {
		if err := actortest.Within(t, "an answer", answers); !errors.Is(err, api.ErrCommand) {
			t.Errorf("%v", err)
		}
	}
}

// So many that have ended are kept, and so many run; one that never ran leaves nothing.
func TestCommandsAreBounded(t *testing.T) {
	r := newRig(t)
	var first int64
	for i := range api.CommandsKept + 5 {
		n := r.start(api.CommandRequest{Argv: []string{"true"}}, nil)
		if i == 0 {
			first = n
		}
		if _, err := r.Ended(n, &api.CommandEnd{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.List(t.Context())
	if err != nil || len(list) != api.CommandsKept || list[0].Number != first+5 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
	for range api.CommandsAtMost {
		r.start(api.CommandRequest{Argv: []string{"sleep"}}, nil)
	}
	if _, err := r.Begin(t.Context(), api.CommandRequest{Argv: []string{"sleep"}}, nil); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	if _, err := r.Ended(list[len(list)-1].Number+1, &api.CommandEnd{}); err != nil {
		t.Fatal(err)
	}
	n, err := r.Begin(t.Context(), api.CommandRequest{Argv: []string{"nothing"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find(t.Context(), n); !errors.Is(err, api.ErrCommand) {
		t.Errorf("one that is being started: %v", err)
	}
	if _, err := r.Ended(n, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WaitEnd(t.Context(), n); !errors.Is(err, api.ErrNoCommand) {
		t.Errorf("one that never ran: %v", err)
	}
}

// The actor crashes at each kind of message: nothing is lost of what the command writes, nothing comes twice, and its end is told.
func TestCrashLosesNoOutput(t *testing.T) {
	for _, kind := range []any{&wrote{}, &next{}, &follow{}, &over{}, &started{}, &left{}, &list{}, &unfollow{}} {
		t.Run(fmt.Sprintf("%T", kind), func(t *testing.T) {
			r := newRig(t)
			var seen atomic.Int32
			crash := func(msg any) bool {
				if fmt.Sprintf("%T", msg) != fmt.Sprintf("%T", kind) {
					return false
				}
				return seen.Add(1) <= 2
			}
			r.crash.Store(&crash)
			n := r.start(api.CommandRequest{Argv: []string{"make"}}, nil)
			type result struct {
				out string
				end *api.CommandEnd
			}
			done := make(chan result)
			go func() {
				out, _, end := r.all(api.FollowRequest{Number: n})
				done <- result{out[api.StreamStdout], end}
			}()
			for _, text := range []string{"one ", "two ", "three"} {
				r.mustWrite(n, api.StreamStdout, text)
			}
			if _, err := r.Left(n, "command-1"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.List(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := r.Ended(n, &api.CommandEnd{ExitCode: 3}); err != nil {
				t.Fatal(err)
			}
			if got := actortest.Within(t, "the end", done); got.out != "one two three" || got.end == nil || got.end.ExitCode != 3 {
				t.Errorf("%+v", got)
			}
			if _, err := r.List(t.Context()); err != nil { // the actor has had all there was
				t.Error(err)
			}
			if seen.Load() == 0 {
				t.Error("it has not crashed")
			}
		})
	}
}
