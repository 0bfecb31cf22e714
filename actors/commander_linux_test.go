package actors

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// begin starts a command of the session: a shell with a script.
func (l *lab) begin(script string, change func(*api.CommandRequest)) api.CommandStatus {
	l.t.Helper()
	r := api.CommandRequest{Argv: []string{"sh", "-c", script}, Share: true, Wait: true}
	if change != nil {
		change(&r)
	}
	st, err := l.s.StartCommand(l.t.Context(), r)
	if err != nil {
		l.t.Fatal(err)
	}
	return st
}

// followed is what a command wrote, to all streams.
type followed struct {
	text map[string]string
	end  *api.CommandEnd
	err  error
}

// follow follows a command to its end; seen is told of each event.
func (l *lab) follow(number int64, seen func(api.CommandEvent)) <-chan followed {
	done := make(chan followed, 1)
	go func() {
		f := followed{text: map[string]string{}}
		f.err = l.s.FollowCommand(l.t.Context(), api.FollowRequest{Number: number}, func(e api.CommandEvent) error {
			f.text[e.Stream] += string(e.Data)
			f.end = e.Ended
			if seen != nil {
				seen(e)
			}
			return nil
		})
		done <- f
	}()
	return done
}

// says returns what is called with each event, and what is closed when the text was written.
func says(text string) (seen func(api.CommandEvent), said <-chan struct{}) {
	all, ch := "", make(chan struct{})
	return func(e api.CommandEvent) {
		was := strings.Contains(all, text)
		if all += string(e.Data); !was && strings.Contains(all, text) {
			close(ch)
		}
	}, ch
}

// A command outlives who has started it: its number leads to what it writes, to its input, and to its end.
func TestCommandOutlivesItsConnection(t *testing.T) {
	l := kernel(t, func(c *api.Config) { c.KeepOutput = true })
	ctx, cancel := context.WithCancel(t.Context())
	st, err := l.s.StartCommand(ctx, api.CommandRequest{
		Argv: []string{"sh", "-c", "echo begun; read line; echo got $line > out; echo $line >&2; exit 7"}, Tag: "tests", Stdin: true, Share: true,
	})
	if err != nil || st.Number == 0 || st.Step == 0 || st.State != api.CommandRunning || !st.Stdin {
		t.Fatalf("%+v, %v", st, err)
	}
	cancel()
	list, err := l.s.Commands(t.Context())
	if err != nil || len(list) != 1 || list[0].Tag != "tests" || list[0].Ended != nil {
		t.Errorf("%+v, %v", list, err)
	}
	seen, said := says("begun")
	done := l.follow(st.Number, seen)
	actortest.Within(t, "its output", said)
	if err := l.s.InputCommand(t.Context(), api.CommandInput{Number: st.Number, Data: []byte("a line\n")}); err != nil {
		t.Fatal(err)
	}
	got := actortest.Within(t, "its end", done)
	if got.err != nil || got.text[api.StreamStdout] != "begun\n" || got.text[api.StreamStderr] != "a line\n" || got.end == nil || got.end.ExitCode != 7 || got.end.Outcome != messages.OutcomeCompleted || got.end.Affected != 1 {
		t.Errorf("%+v, %+v", got, got.end)
	}
	if h := l.steps(""); len(h) != 1 || h[0].StepID != st.Step {
		t.Errorf("history: %+v", h)
	}
	out, err := l.s.Output(t.Context(), api.StepRequest{Step: st.Step})
	if err != nil || len(out) != 1 || !strings.Contains(string(out[0].Data), "a line") {
		t.Errorf("what is kept: %+v, %v", out, err)
	}
	for what, f := range map[string]func() error{
		"input": func() error {
			return l.s.InputCommand(t.Context(), api.CommandInput{Number: st.Number, Data: []byte("x")})
		},
		"signal": func() error { return l.s.SignalCommand(t.Context(), api.CommandSignal{Number: st.Number, Signal: 15}) },
		"size": func() error {
			return l.s.ResizeCommand(t.Context(), api.CommandSize{Number: st.Number, Rows: 1, Cols: 1})
		},
		"no such": func() error { return l.s.CloseInput(t.Context(), api.CommandNumber{Number: 99}) },
	} {
		if err := f(); !errors.Is(err, api.ErrCommand) {
			t.Errorf("%s after its end: %v", what, err)
		}
	}
	if st, err := l.s.StopCommand(t.Context(), api.CommandNumber{Number: st.Number}); err != nil || st.Ended.ExitCode != 7 {
		t.Errorf("%+v, %v", st, err)
	}
}

// Signals, the end of its input, a timeout and a stop end a command.
func TestCommandEnds(t *testing.T) {
	l := kernel(t)
	for what, c := range map[string]struct {
		script string
		change func(*api.CommandRequest)
		do     func(number int64) error
		want   api.CommandEnd
	}{
		"signal": {"echo up; exec sleep 1000", nil, func(n int64) error {
			return l.s.SignalCommand(t.Context(), api.CommandSignal{Number: n, Signal: 9})
		}, api.CommandEnd{ExitCode: 137, Signal: 9, Outcome: messages.OutcomeCompleted}},
		"the end of its input": {"echo up; cat; exit 3", func(r *api.CommandRequest) { r.Stdin = true }, func(n int64) error {
			return l.s.CloseInput(t.Context(), api.CommandNumber{Number: n})
		}, api.CommandEnd{ExitCode: 3, Outcome: messages.OutcomeCompleted}},
		"timeout": {"echo up; exec sleep 1000", func(r *api.CommandRequest) { r.Timeout = 10 * time.Millisecond }, func(int64) error { return nil },
			api.CommandEnd{ExitCode: 143, Signal: 15, Outcome: messages.OutcomeCancelled}},
		"stop": {"echo up; exec sleep 1000", nil, func(n int64) error {
			st, err := l.s.StopCommand(t.Context(), api.CommandNumber{Number: n})
			if err == nil && st.Ended == nil {
				err = errors.New("it has not ended")
			}
			return err
		}, api.CommandEnd{ExitCode: 143, Signal: 15, Outcome: messages.OutcomeCancelled}},
	} {
		st := l.begin(c.script, c.change)
		seen, said := says("up")
		done := l.follow(st.Number, seen)
		if what != "timeout" {
			actortest.Within(t, what, said)
		}
		if err := c.do(st.Number); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		end := actortest.Within(t, what, done).end
		if end == nil || end.ExitCode != c.want.ExitCode || end.Signal != c.want.Signal || end.Outcome != c.want.Outcome {
			t.Errorf("%s: %+v", what, end)
		}
	}
}

// What cannot be started says so, and is not listed.
func TestCommandThatCannotStart(t *testing.T) {
	l := kernel(t)
	var start *hypervisor.StartError
	if _, err := l.s.StartCommand(t.Context(), api.CommandRequest{Argv: []string{"/no/such/program"}}); !errors.As(err, &start) {
		// Without isolation a shell looks for it: the command runs, and ends with 127.
		t.Logf("%v", err)
	}
	for what, r := range map[string]api.CommandRequest{
		"nothing": {}, "a relative directory": {Argv: []string{"true"}, Dir: "work"}, "no size": {Argv: []string{"true"}, Terminal: &api.CommandTerminal{}},
		"a long tag": {Argv: []string{"true"}, Tag: strings.Repeat("x", 129)}, "no time": {Argv: []string{"true"}, Timeout: -1},
	} {
		if _, err := l.s.StartCommand(t.Context(), r); !errors.Is(err, api.ErrCommand) {
			t.Errorf("%s: %v", what, err)
		}
	}
	first := l.begin("echo up; read line", func(r *api.CommandRequest) { r.Stdin = true })
	if _, err := l.s.StartCommand(t.Context(), api.CommandRequest{Argv: []string{"true"}}); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("one that does not share: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := l.s.StartCommand(ctx, api.CommandRequest{Argv: []string{"true"}, Wait: true})
		waits <- err
	}()
	cancel()
	if err := actortest.Within(t, "the end of who waits", waits); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := l.s.StopCommand(t.Context(), api.CommandNumber{Number: first.Number}); err != nil {
		t.Error(err)
	}
	list, err := l.s.Commands(t.Context())
	if err != nil || slices.ContainsFunc(list, func(c api.CommandStatus) bool { return c.Tag != "" || c.Ended == nil }) {
		t.Errorf("%+v, %v", list, err)
	}
}

// A command at a terminal has its size, is written to, and sees it change.
func TestCommandAtATerminal(t *testing.T) {
	l := kernel(t)
	st := l.begin(`trap 'stty size; exit' WINCH; stty -echo; stty size; read line; echo "<$line>"; echo ready; while :; do sleep 0.01; done`, func(r *api.CommandRequest) {
		r.Terminal, r.Service = &api.CommandTerminal{Rows: 5, Cols: 40, Term: "xterm"}, true
	})
	if !st.Terminal || st.State != api.CommandService || st.Step != 0 || st.Service == "" {
		t.Errorf("%+v", st)
	}
	seen, said := says("ready")
	first, sized := says("5 40")
	done := l.follow(st.Number, func(e api.CommandEvent) { seen(e); first(e) })
	actortest.Within(t, "its size", sized)
	if err := l.s.InputCommand(t.Context(), api.CommandInput{Number: st.Number, Data: []byte("typed\n")}); err != nil {
		t.Fatal(err)
	}
	actortest.Within(t, "what was typed", said)
	if err := l.s.CloseInput(t.Context(), api.CommandNumber{Number: st.Number}); !errors.Is(err, api.ErrCommand) {
		t.Errorf("a terminal has no end: %v", err)
	}
	if err := l.s.ResizeCommand(t.Context(), api.CommandSize{Number: st.Number, Rows: 33, Cols: 99}); err != nil {
		t.Fatal(err)
	}
	got := actortest.Within(t, "its end", done)
	if text := got.text[api.StreamTerminal]; !strings.Contains(text, "<typed>") || !strings.Contains(text, "33 99") || got.end.ExitCode != 0 {
		t.Errorf("%q, %+v", text, got.end)
	}
}

// serviceClock runs, but what is due after staysFor is due when the test says so.
type serviceClock struct {
	supervision.RealClock
	due chan func() // has room for one
}

const staysFor = 17 * time.Hour

func (c *serviceClock) AfterFunc(d time.Duration, f func()) func() bool {
	if d != staysFor {
		return c.RealClock.AfterFunc(d, f)
	}
	c.due <- f
	return func() bool { return true }
}

// A command that runs for longer leaves its step: the step can be undone while the command runs on; what it writes then can be undone, too; it is among the services, and its end is told.
func TestCommandBecomesAService(t *testing.T) {
	clock := &serviceClock{due: make(chan func(), 1)}
	l := kernel(t, func(c *api.Config) { c.Clock, c.Timing.ServiceAfter = clock, staysFor })
	before := l.snap(0)
	st := l.begin("echo first > f0; echo up; while read line; do echo $line > later; echo wrote; done; exit 4", func(r *api.CommandRequest) {
		r.Stdin = true
	})
	seen, wrote := says("wrote")
	up, said := says("up")
	done := l.follow(st.Number, func(e api.CommandEvent) { seen(e); up(e) })
	actortest.Within(t, "it runs", said)
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 1}); !errors.Is(err, messages.ErrBusy) && !errors.Is(err, undolog.ErrBusy) {
		t.Errorf("while it is in its step: %v", err)
	}
	actortest.Within(t, "its time", clock.due)()
	service := l.event(api.EventServiceStarted).Service
	if service == nil || service.Name != "command-1" || service.State != api.ServiceRunning {
		t.Fatalf("%+v", service)
	}
	list, err := l.s.Commands(t.Context())
	if err != nil || list[0].State != api.CommandService || list[0].Service != service.Name || list[0].Step != st.Step {
		t.Errorf("%+v, %v", list, err)
	}
	if s, err := l.s.Status(t.Context()); err != nil || s.OpenStep != nil || len(s.Running) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if h := l.steps(""); len(h) == 0 || h[len(h)-1].StepID != st.Step && h[0].StepID != st.Step {
		t.Errorf("its step is not closed: %+v", h)
	}
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 1, Force: true}); err != nil {
		t.Fatalf("while it runs: %v", err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	if err := l.s.InputCommand(t.Context(), api.CommandInput{Number: st.Number, Data: []byte("x\n")}); err != nil {
		t.Fatal(err)
	}
	actortest.Within(t, "what it writes later", wrote)
	out, err := l.s.ServiceOutput(t.Context(), api.ServiceOutputRequest{Name: service.Name})
	if err != nil || !strings.Contains(string(out.Data), "wrote") || out.Service.State != api.ServiceRunning {
		t.Errorf("%+v, %v", out, err)
	}
	l.output("true") // a step ends the ambient one
	actortest.Eventually(t, "it is in the history", func() bool {
		return slices.ContainsFunc(l.steps(""), func(e undolog.Entry) bool { return e.Type == undolog.TypeAmbient })
	})
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 1, Force: true}); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	if v, err := l.s.StopService(t.Context(), api.ServiceName{Name: service.Name}); err != nil || v.State != api.ServiceEnded {
		t.Errorf("%+v, %v", v, err)
	}
	if got := actortest.Within(t, "its end", done); got.end == nil || got.end.Outcome != messages.OutcomeCancelled {
		t.Errorf("%+v", got.end)
	}
	if e := l.event(api.EventServiceEnded); e.Service.Name != service.Name {
		t.Errorf("%+v", e.Service)
	}
}

// A reset ends the commands: what was in a step is kept as that of a cancelled command, a service is lost with its guest. Each is told.
func TestResetEndsCommands(t *testing.T) {
	l := kernel(t)
	in := l.begin("echo x > f0; echo up; exec sleep 1000", nil)
	service := l.begin("echo up; exec sleep 1000", func(r *api.CommandRequest) { r.Service = true })
	var ends []<-chan followed
	for _, st := range []api.CommandStatus{in, service} {
		seen, said := says("up")
		ends = append(ends, l.follow(st.Number, seen))
		actortest.Within(t, "it runs", said)
	}
	if err := l.s.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := actortest.Within(t, "its end", ends[0]).end; end.Outcome != messages.OutcomeCancelled || end.Reason != messages.ErrReset.Error() || end.Affected != 1 {
		t.Errorf("%+v", end)
	}
	if got := actortest.Within(t, "its end", ends[1]); got.end == nil {
		t.Errorf("%+v", got)
	}
	if l.begin("exit 0", nil).Number != 3 {
		t.Error("a number comes twice")
	}
}

// The end of the session ends them; what was in a step is in the history.
func TestSessionEndEndsCommands(t *testing.T) {
	l := kernel(t)
	st := l.begin("echo x > f0; echo up; exec sleep 1000", nil)
	l.begin("exec sleep 1000", func(r *api.CommandRequest) { r.Service = true })
	seen, said := says("up")
	done := l.follow(st.Number, seen)
	actortest.Within(t, "it runs", said)
	if err := l.s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := actortest.Within(t, "the end of who follows", done); got.end == nil && !errors.Is(got.err, messages.ErrStopped) {
		t.Errorf("%+v", got)
	}
	if _, err := l.s.StartCommand(t.Context(), api.CommandRequest{Argv: []string{"true"}}); !errors.Is(err, messages.ErrEnding) && !errors.Is(err, messages.ErrStopped) {
		t.Errorf("after it: %v", err)
	}
	s, err := Offline(t.Context(), api.Config{Directories: []api.Directory{{Path: l.dirs[0], UndoDir: filepath.Join(filepath.Dir(l.dirs[0]), "undo")}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.History(t.Context(), api.HistoryRequest{})
	if err != nil || len(h) != 1 || h[0].Status != messages.OutcomeCancelled {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A denied safeguard ends a command in its step, and leaves a service as it is.
func TestDeniedCommand(t *testing.T) {
	l := newLab(t, 1, func(c *api.Config) {
		c.Safeguards = api.Safeguards{DeleteThreshold: 1, Timeout: time.Minute}
	})
	l.runtime.mu.Lock()
	l.runtime.run = func(p *fakeProcess) int {
		if l.fs[0].Unlink("f0") == nil {
			return 0
		}
		<-p.Cancelled
		return 143
	}
	l.runtime.mu.Unlock()
	defer l.s.Subscribe(func(e api.Event) {
		if e.Type == api.EventSafeguardTriggered {
			go func() { _ = l.s.Decide(t.Context(), api.DecideRequest{ID: e.Pending.ID, Allow: false, By: "test"}) }()
		}
	})()
	st := l.begin("rm f0", nil)
	got := actortest.Within(t, "its end", l.follow(st.Number, nil))
	if got.end == nil || got.end.Outcome != messages.OutcomeDenied || got.end.Reason == "" {
		t.Errorf("%+v, %v", got.end, got.err)
	}
}

// Over the control socket: who has started a command is gone, and somebody else goes on where he was.
func TestCommandOverTheControlSocket(t *testing.T) {
	l := kernel(t)
	dial := func() interface {
		api.Service
		api.Commander
	} {
		t.Helper()
		s, err := Dial(t.Context(), l.s.socket())
		if err != nil {
			t.Fatal(err)
		}
		return s.(interface {
			api.Service
			api.Commander
		})
	}
	first := dial()
	st, err := first.StartCommand(t.Context(), api.CommandRequest{Argv: []string{"sh", "-c", "echo one; read line; echo $line; exit 5"}, Stdin: true, Share: true})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	from := int64(0)
	err = first.FollowCommand(t.Context(), api.FollowRequest{Number: st.Number}, func(e api.CommandEvent) error {
		from = e.At + int64(len(e.Data))
		return enough
	})
	if !errors.Is(err, enough) || from != 4 {
		t.Errorf("%v, at %d", err, from)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	second := dial()
	defer second.Close(t.Context())
	list, err := second.Commands(t.Context())
	if err != nil || len(list) != 1 || list[0].Number != st.Number || list[0].State != api.CommandRunning {
		t.Errorf("%+v, %v", list, err)
	}
	if err := second.InputCommand(t.Context(), api.CommandInput{Number: st.Number, Data: []byte("two\n")}); err != nil {
		t.Fatal(err)
	}
	text, end := "", (*api.CommandEnd)(nil)
	err = second.FollowCommand(t.Context(), api.FollowRequest{Number: st.Number, From: from}, func(e api.CommandEvent) error {
		text += string(e.Data)
		end = e.Ended
		return nil
	})
	if err != nil || text != "two\n" || end == nil || end.ExitCode != 5 {
		t.Errorf("%q, %+v, %v", text, end, err)
	}
	if err := second.SignalCommand(t.Context(), api.CommandSignal{Number: 99, Signal: 9}); !errors.Is(err, api.ErrNoCommand) {
		t.Errorf("%v", err)
	}
	if err := second.FollowCommand(t.Context(), api.FollowRequest{Number: 99}, nil); !errors.Is(err, api.ErrNoCommand) {
		t.Errorf("%v", err)
	}
	if st, err := second.StopCommand(t.Context(), api.CommandNumber{Number: st.Number}); err != nil || st.Ended == nil {
		t.Errorf("%+v, %v", st, err)
	}
}
