package interceptor

import (
	"errors"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// While the log opens a step, the actor answers others; mutations wait, and belong to
// the step.
func TestAnswersWhileStepOpens(t *testing.T) {
	for name, id := range map[string]undolog.StepID{"command": 1, "ambient": -1} {
		t.Run(name, func(t *testing.T) {
			r, s := newSlow(t, files(3))
			s.begin = make(chan chan struct{})
			if id > 0 {
				r.assign(id)
			}
			first := r.start(func() error { return r.fs.Unlink("f0") })
			leave := actortest.Within(t, "begin", s.begin)
			r.held(1)
			if _, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Ready{p} }); err != nil {
				t.Error(err)
			}
			s.begin = nil
			if id > 0 {
				close(leave)
				r.must(actortest.Within(t, "unlink", first))
				if e, err := r.closeStep(id); err != nil || e == nil {
					t.Errorf("%+v, %v", e, err)
				}
			} else { // a command's step begins after what has begun already
				assigned := messages.NewReply[struct{}]()
				r.tell(&Assign{ID: 7, Reply: assigned})
				close(leave)
				if res := actortest.Within(t, "assign", assigned.C()); res.Err != nil {
					t.Error(res.Err)
				}
				r.must(actortest.Within(t, "unlink", first))
			}
		})
	}
}

// A step that fails while it is being opened takes no mutation, and is rolled back.
func TestFailsWhileStepOpens(t *testing.T) {
	r, s := newSlow(t, files(1))
	before := r.snap()
	s.begin = make(chan chan struct{})
	r.assign(1)
	unlink := r.start(func() error { return r.fs.Unlink("f0") })
	leave := actortest.Within(t, "begin", s.begin)
	r.tell(&Failing{ID: 1})
	if err := actortest.Within(t, "unlink", unlink); !errors.Is(err, fsbridge.ErrDenied) {
		t.Error(err)
	}
	close(leave)
	if err := r.abort(1); err != nil {
		t.Error(err)
	}
	r.same(before)
	s.begin = nil
	r.assign(2)
	r.must(r.fs.Unlink("f0"))
}

// The actor crashes while a step is being opened: the recovery rolls it back, and the
// next one begins.
func TestCrashWhileStepOpens(t *testing.T) {
	r, s := newSlow(t, files(1))
	s.begin = make(chan chan struct{})
	unlink := r.start(func() error { return r.fs.Unlink("f0") })
	leave := actortest.Within(t, "begin", s.begin)
	r.hooks.crash("injected")
	if err := actortest.Within(t, "unlink", unlink); !errors.Is(err, fsbridge.ErrFailed) {
		t.Error(err)
	}
	close(leave)
	if _, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Ready{p} }); err != nil {
		t.Fatal(err)
	}
	if id, open := r.log.Current(); open {
		t.Errorf("step %d is open", id)
	}
	s.begin = nil
	r.must(r.fs.Unlink("f0"))
}
