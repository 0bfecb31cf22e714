package interceptor

import (
	"errors"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// An ambient step that is denied is rolled back, also if something that waited
// for the decision would have closed it.
func TestDeniedAmbientIsNotClosed(t *testing.T) {
	for name, next := range map[string]func(done func(error)) any{
		"command": func(done func(error)) any {
			return &Assign{ID: 3, Reply: messages.OnReply(func(_ struct{}, err error) { done(err) })}
		},
		"flush": func(done func(error)) any {
			return &Flush{Reply: messages.OnReply(func(_ struct{}, err error) { done(err) })}
		},
		"discard": func(done func(error)) any {
			return &GC{Options: undolog.GCOptions{Discard: true}, Reply: messages.OnReply(func(_ *undolog.GCResult, err error) { done(err) })}
		},
		"stop": func(done func(error)) any {
			return &Stop{Reply: messages.OnReply(func(_ struct{}, err error) { done(err) })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, files(3), deletes(2))
			before := r.snap()
			r.must(r.fs.Unlink("f0"))
			del := r.start(func() error { return r.fs.Unlink("f1") })
			q := r.asked()
			r.held(1)
			done := make(chan error, 1)
			r.tell(next(func(err error) { done <- err }))
			r.answer(q, false)
			if err := actortest.Within(t, "denied delete", del); !errors.Is(err, fsbridge.ErrDenied) {
				t.Errorf("held delete: %v", err)
			}
			r.must(actortest.Within(t, name, done))
			r.same(before)
			if h := r.history(); len(h) != 0 {
				t.Errorf("history: %+v", h)
			}
		})
	}
}

// What was denied stays so while a lifecycle operation beside it ends.
func TestDeniedAmbientFails(t *testing.T) {
	s := &slow{}
	r := newRig(t, files(3), func(o *Options) { s.Log, o.Log = o.Log, s; o.Safeguards.DeleteThreshold = 2 })
	before := r.snap()
	s.gc = make(chan chan struct{})
	r.must(r.fs.Unlink("f0"))
	gc := messages.NewReply[*undolog.GCResult]()
	r.tell(&GC{Reply: gc})
	leave := actortest.Within(t, "gc", s.gc)
	del := r.start(func() error { return r.fs.Unlink("f1") })
	fence := make(chan struct{})
	r.bridge.mu.Lock()
	r.bridge.fence = func() { <-fence }
	r.bridge.mu.Unlock()
	r.answer(r.asked(), false)
	if err := actortest.Within(t, "denied delete", del); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("held delete: %v", err)
	}
	close(leave)
	r.must(actortest.Within(t, "gc", gc.C()).Err)
	if err := r.fs.WriteFile("new", nil); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("a mutation before the rollback: %v", err)
	}
	close(fence)
	r.flush()
	r.same(before)
}

// A step that was denied is rolled back by the end of the session, too.
func TestDeniedStepIsNotStopped(t *testing.T) {
	r := newRig(t, files(3), deletes(2))
	before := r.snap()
	r.assign(1)
	r.must(r.fs.Unlink("f0"))
	del := r.start(func() error { return r.fs.Unlink("f1") })
	r.answer(r.asked(), false)
	if err := actortest.Within(t, "denied delete", del); !errors.Is(err, fsbridge.ErrDenied) {
		t.Errorf("held delete: %v", err)
	}
	actortest.Expect[*messages.StepFail](r.owner)
	_, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Stop{p} })
	r.must(err)
	r.same(before)
	if h := r.history(); len(h) != 0 {
		t.Errorf("history: %+v", h)
	}
}
