package actors

import (
	"context"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// A caller that goes away while its step is being opened leaves no step behind
// that nobody ends, and in which all others would find the session busy.
func TestCancelledWhileStepOpens(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(l *lab){
		"command": func(l *lab) {
			_, err := l.s.Run(gone, RunRequest{Argv: []string{"cmd"}})
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
