package actors

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// SL-01: a working folder that cannot be one is an error that says so, and
// nothing is left behind.
func TestSL01InvalidDirectory(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	put(t, file, "x")
	for _, dirs := range [][]api.Directory{nil, {{Path: filepath.Join(base, "missing")}}, {{Path: file}}, {{Path: "/"}}, make([]api.Directory, 9)} {
		s, err := Start(t.Context(), api.Config{Directories: dirs, Runtime: &fakeRuntime{}})
		if !errors.Is(err, api.ErrDirectory) || s != nil {
			t.Errorf("%+v: %v", dirs, err)
		}
	}
}

// SL-02: every folder is found by its index, path and label, and has its own
// history; one that is read-only has none.
func TestSL02SeveralDirectories(t *testing.T) {
	l := newLab(t, 2, func(c *api.Config) {
		c.Directories[0].Label, c.Directories[1].Label = "main", "lib"
	})
	for _, name := range []string{"1", "lib", l.dirs[1]} {
		res, err := l.s.WriteFile(t.Context(), api.WriteFileRequest{Directory: name, Path: "by", Data: []byte(name)})
		if err != nil || res.Step == 0 {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	if a, b := len(l.steps("main")), len(l.steps("lib")); a != 0 || b != 3 {
		t.Errorf("%d and %d steps", a, b)
	}
	st, err := l.s.Status(t.Context())
	if err != nil || len(st.Directories) != 2 || st.Directories[1].Label != "lib" || st.Directories[1].Log.Steps != 3 || st.Directories[0].Log.Steps != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// SL-05: a reset ends the command and keeps its step, starts another guest, and
// leaves folders and history as they are.
func TestSL05Reset(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	first := l.runtime.guest
	running, ended := make(chan struct{}), make(chan api.RunResult, 1)
	go func() {
		res, err := l.run(func(p *fakeProcess) int {
			if err := l.fs[0].Unlink("f0"); err != nil {
				t.Error(err)
			}
			close(running)
			<-p.Cancelled
			return 143
		})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	actortest.Within(t, "the command", running)
	if err := l.s.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	res := actortest.Within(t, "the command's end", ended)
	if res.Outcome != messages.OutcomeCancelled || !strings.Contains(res.Reason, "reset") {
		t.Errorf("%+v", res)
	}
	select {
	case <-first.done:
	default:
		t.Error("the first guest lives")
	}
	if l.runtime.guest == first {
		t.Fatal("there is no other guest")
	}
	var states []string
	for len(states) == 0 || states[len(states)-1] != "active" || !slices.Contains(states, "starting") {
		states = append(states, l.event(api.EventSessionState).Message)
	}
	l.mustRun(func() error { return l.fs[0].Unlink("f1") })
	if h := l.steps(""); len(h) != 2 {
		t.Fatalf("history: %+v", h)
	}
	for range 2 {
		if _, err := l.undo(false); err != nil {
			t.Fatal(err)
		}
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}

// SL-07: when the guest dies the session has failed and says so; nothing hangs,
// the history can be used, and a reset brings it back.
func TestSL07GuestDies(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	l.mustRun(func() error { return l.fs[0].Unlink("f1") })
	res, err := l.run(func(p *fakeProcess) int {
		if err := l.fs[0].Unlink("f0"); err != nil {
			t.Error(err)
		}
		p.g.die(errors.New("control channel: broken pipe"))
		return 0
	})
	if err == nil || res.Outcome != messages.OutcomeFailed {
		t.Errorf("%+v, %v", res, err)
	}
	if e := l.event(api.EventError); !strings.Contains(e.Message, "broken pipe") {
		t.Errorf("%+v", e)
	}
	actortest.Eventually(t, "failed", func() bool {
		st, err := l.s.Status(t.Context())
		return err == nil && st.State == "failed" && st.OpenStep == nil
	})
	if _, err := l.run(func(*fakeProcess) int { return 0 }); !errors.Is(err, messages.ErrNoMachine) {
		t.Errorf("a command: %v", err)
	}
	if _, err := l.undo(false); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	if err := l.s.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.mustRun(func() error { return l.fs[0].Unlink("f2") })
}

// SL-08: what has ended leaves no socket and no guest, and answers with an
// error.
func TestSL08Cleanup(t *testing.T) {
	l := newLab(t, 1, nil)
	if err := l.s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	actortest.Within(t, "the end", l.s.Done())
	actortest.Within(t, "the guest's end", l.runtime.guest.done)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(l.dirs[0]), "run", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	_, err := l.write("f0", "x")
	_, serr := l.s.Status(t.Context())
	for _, err := range []error{err, serr, l.s.Reset(t.Context())} {
		if !errors.Is(err, messages.ErrStopped) {
			t.Errorf("%v", err)
		}
	}
}

// Settings hold from when they are changed; those that make no sense are refused
// and change nothing.
func TestSettingsLive(t *testing.T) {
	l := newLab(t, 1, nil)
	for _, bad := range []api.Safeguards{{DeleteThreshold: -1}, {OverwriteBytes: -1}, {Timeout: -1}, {Exempt: []string{"[a"}}} {
		if err := l.s.ConfigureSafeguards(t.Context(), bad); !errors.Is(err, api.ErrSetting) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := l.s.ConfigureSafeguards(t.Context(), api.Safeguards{DeleteThreshold: 2, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if g, err := l.s.Safeguards(t.Context()); err != nil || g.DeleteThreshold != 2 || g.Timeout != time.Minute {
		t.Errorf("%+v, %v", g, err)
	}
	before := l.snap(0)
	go func() {
		e := l.event(api.EventSafeguardTriggered)
		if left := e.Pending.Deadline.Sub(e.Pending.Since); left != time.Minute {
			t.Errorf("the deadline is in %v", left)
		}
		if st, err := l.s.Status(t.Context()); err != nil || st.Pending != 1 {
			t.Errorf("%+v, %v", st, err)
		}
		if err := l.s.Decide(t.Context(), api.DecideRequest{ID: e.Pending.ID, By: "test"}); err != nil {
			t.Error(err)
		}
	}()
	res, err := l.run(func(*fakeProcess) int {
		_, _ = l.fs[0].Unlink("f0"), l.fs[0].Unlink("f1")
		return 1
	})
	if err != nil || res.Outcome != messages.OutcomeDenied {
		t.Fatalf("%+v, %v", res, err)
	}
	l.fs[0].Forget()
	treesnap.AssertEqual(t, before, l.snap(0))
	if err := l.s.ConfigureSafeguards(t.Context(), api.Safeguards{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f0", "f1", "f2"} {
		l.mustRun(func() error { return l.fs[0].Unlink(name) })
	}
	if err := l.s.ConfigureLimits(t.Context(), "", undolog.Limits{StepCount: 1}); err != nil {
		t.Fatal(err)
	}
	if h := l.steps(""); len(h) != 1 {
		t.Errorf("%d steps are left", len(h))
	}
	if n, err := l.s.Limits(t.Context(), ""); err != nil || n.StepCount != 1 || n.LogBytes != undolog.DefaultSettings().LogBytes {
		t.Errorf("%+v, %v", n, err)
	}
	l.event(api.EventWarning)
	if w, err := l.s.Warnings(t.Context(), ""); err != nil || len(w) != 1 || w[0].Code != undolog.WarnEvicted {
		t.Errorf("%+v, %v", w, err)
	}
}

// History, show, diff and status may be asked for while steps are written,
// undone, redone and evicted: they answer, or say that what they were asked for
// is gone.
func TestReadWhileUndoing(t *testing.T) {
	l := newLab(t, 1, nil)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				h, err := l.s.History(ctx, api.HistoryRequest{})
				if err != nil {
					t.Error(err)
				}
				_, err = l.s.Status(ctx)
				for _, e := range h {
					if e.StepID == 0 {
						continue
					}
					var out strings.Builder
					_, serr := l.s.Show(ctx, api.StepRequest{Step: e.StepID})
					// The step may be undone in the meantime; it is then gone, or half
					// of it is back.
					_ = l.s.Diff(ctx, api.StepRequest{Step: e.StepID}, &out)
					if serr != nil && !errors.Is(serr, undolog.ErrNoStep) {
						t.Errorf("show %d: %v", e.StepID, serr)
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	before := l.snap(0)
	for i := range 15 {
		for _, name := range []string{"f0", "f1", "new"} {
			if _, err := l.write(name, strings.Repeat(name, i+1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.s.GC(t.Context(), api.GCRequest{CompressAll: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 3}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := l.s.Redo(t.Context(), api.UndoRequest{Count: 2}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 2}); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	wg.Wait()
	treesnap.AssertEqual(t, before, l.snap(0))
}

// A status takes nobody's time, whatever runs.
func TestStatusConcurrent(t *testing.T) {
	l := newLab(t, 1, nil)
	l.mustRun(func() error {
		took := make(chan time.Duration, 100*20)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 20 {
					begin := time.Now()
					st, err := l.s.Status(t.Context())
					took <- time.Since(begin)
					if err != nil || st.OpenStep == nil || st.State != "active" {
						t.Errorf("%+v, %v", st, err)
					}
				}
			})
		}
		wg.Wait()
		close(took)
		all := slices.Sorted(func(yield func(time.Duration) bool) {
			for d := range took {
				if !yield(d) {
					return
				}
			}
		})
		t.Logf("p50 %v, p99 %v", all[len(all)/2], all[len(all)*99/100])
		return nil
	})
	if st, err := l.s.Status(t.Context()); err != nil || st.OpenStep != nil {
		t.Errorf("afterwards: %+v, %v", st, err)
	}
}
