package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A caller that goes away while its step is being opened leaves no step behind
// that nobody ends, and in which all others would find the session busy.
func TestCancelledWhileStepOpens(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(l *lab){
		"command": func(l *lab) {
			_, err := l.s.Run(gone, api.RunRequest{Argv: []string{"cmd"}})
			l.t.Logf("run: %v", err)
		},
		"write": func(l *lab) {
			c := &apiCall{s: l.s, w: l.s.dirs[0], info: undolog.StepInfo{Type: undolog.TypeAPI}}
			if err := c.admit(gone); err == nil {
				err = c.end(files.WriteResult{}, gone.Err())
				l.t.Logf("end: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, nil)
			l.runtime.run = func(p *fakeProcess) int { <-p.Cancelled; return 0 }
			call(l)
			l.mustRun(func() error { return nil })
			if st, err := l.s.Status(t.Context()); err != nil || st.OpenStep != nil {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// A folder whose Interceptor was given up is read-only, and that is all: commands
// run, what is asked of it is answered, and the session ends in order.
func TestGivenUpInterceptorAnswers(t *testing.T) {
	l := newLab(t, 2, nil)
	s := l.s
	pid := s.system.NewLocalPID(s.path("directory/0/interceptor"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := supervision.StopActor(ctx, s.system, pid); err != nil {
		t.Fatal(err)
	}
	s.gaveUp(s.path("directory/0/interceptor"), "injected")
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Undo(short, api.UndoRequest{Count: 1}); !errors.Is(err, messages.ErrReadOnlyDirectory) {
		t.Errorf("undo: %v", err)
	}
	type outcome struct {
		api.RunResult
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		res, err := l.run(func(*fakeProcess) int {
			if err := l.fs[0].Unlink("f0"); !errors.Is(err, fsbridge.ErrReadOnly) {
				t.Errorf("a mutation: %v", err)
			}
			if err := l.fs[1].Unlink("f0"); err != nil {
				t.Errorf("the other folder: %v", err)
			}
			return 0
		})
		done <- outcome{res, err}
	}()
	res := actortest.Within(t, "run", done)
	if res.err != nil || res.Outcome != messages.OutcomeCompleted || len(res.Entries) != 1 || res.Entries[0].Directory != l.dirs[1] {
		t.Errorf("%+v, %v", res.RunResult, res.err)
	}
	if _, err := s.Undo(t.Context(), api.UndoRequest{Directory: "1"}); err != nil {
		t.Errorf("undo in the other: %v", err)
	}
}
