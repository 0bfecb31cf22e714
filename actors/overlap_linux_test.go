package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// overlaps is the model of a session in which commands overlap. What the folder held
// before each step is all that it knows of the log.
type overlaps struct {
	l       *lab
	t       *rapid.T
	running []*overlapping
	step    undolog.StepID // that is open
	ran     int            // commands in it
	before  string         // the folder when it began
	changed bool           // since then
	undos   []past         // closed steps, the newest last
	redos   []past
	writes  int
}

// past is a closed step: the folder before and after it.
type past struct{ before, after string }

// overlapping is a command that runs.
type overlapping struct {
	end    chan int
	cancel context.CancelFunc
	result chan overlapped
}

type overlapped struct {
	res api.RunResult
	err error
}

// tree is what the folder holds, as text.
func (m *overlaps) tree() string { return fmt.Sprintf("%q", treesnap.Contents(m.t, m.l.dirs[0])) }

func (m *overlaps) start() {
	c := &overlapping{end: make(chan int, 1), result: make(chan overlapped, 1)}
	m.l.runtime.mu.Lock()
	m.l.runtime.run = func(p *fakeProcess) int {
		select {
		case code := <-c.end:
			return code
		case <-p.Cancelled:
			return 143
		}
	}
	m.l.runtime.mu.Unlock()
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	started := make(chan undolog.StepID, 1)
	before := m.tree()
	go func() {
		res, err := m.l.s.Run(ctx, api.RunRequest{
			Argv: []string{"cmd"}, Wait: true, Share: true, Started: func(id undolog.StepID, _ hypervisor.Process) { started <- id },
		})
		c.result <- overlapped{res, err}
	}()
	id := actortest.Within(m.l.t, "the start", started)
	switch {
	case len(m.running) == 0:
		if id == m.step {
			m.t.Fatalf("step %d begins again", id)
		}
		m.step, m.ran, m.before, m.changed = id, 0, before, false
	case id != m.step:
		m.t.Fatalf("step %d, while %d is open", id, m.step)
	}
	m.running = append(m.running, c)
	m.ran++
}

// take ends one of those that run, in some way.
func (m *overlaps) take(how func(*overlapping)) (*overlapping, overlapped) {
	i := rapid.IntRange(0, len(m.running)-1).Draw(m.t, "which")
	c := m.running[i]
	m.running = slices.Delete(m.running, i, i+1)
	how(c)
	return c, actortest.Within(m.l.t, "the end", c.result)
}

// ends checks the result of a command that has ended by itself, or was cancelled.
func (m *overlaps) ends(c *overlapping, r overlapped, outcome string) {
	c.cancel()
	if r.err != nil || r.res.Outcome != outcome || r.res.Step != m.step || r.res.Others != len(m.running) {
		m.t.Fatalf("%+v, %v; %d run on", r.res, r.err, len(m.running))
	}
	if len(m.running) > 0 {
		if len(r.res.Entries) > 0 {
			m.t.Fatalf("entries of a step that is open: %+v", r.res)
		}
		return
	}
	if want := m.changed; want != (len(r.res.Entries) == 1) {
		m.t.Fatalf("%+v; changed: %v", r.res, want)
	}
	if !m.changed {
		return
	}
	want := m.ran
	if want == 1 {
		want = 0
	}
	if e := r.res.Entries[0].Entry; e.CommandCount != want || len(e.Commands) != want {
		m.t.Fatalf("%d commands: %+v", m.ran, e)
	}
	m.undos, m.redos = append(m.undos, past{m.before, m.tree()}), nil
}

// content is unlike any other.
func (m *overlaps) content() string {
	m.writes++
	return fmt.Sprint("write ", m.writes)
}

// change does what a command does.
func (m *overlaps) change() {
	name := rapid.SampledFrom([]string{"f0", "f1", "c0", "c1"}).Draw(m.t, "file")
	_, err := os.Lstat(filepath.Join(m.l.dirs[0], name))
	if err == nil && rapid.Bool().Draw(m.t, "remove") {
		err = m.l.fs[0].Unlink(name)
	} else {
		if err != nil {
			err = m.l.fs[0].Create(name, 0o644)
		}
		err = errors.Join(err, m.l.fs[0].WriteFile(name, []byte(m.content())))
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.changed = true
}

func (m *overlaps) api() {
	before := m.tree()
	res, err := m.l.write(rapid.SampledFrom([]string{"api0", "api1"}).Draw(m.t, "file"), m.content())
	if err != nil {
		m.t.Fatal(err)
	}
	if len(m.running) > 0 {
		if res.Step != m.step {
			m.t.Fatalf("a write in step %d, while %d is open", res.Step, m.step)
		}
		m.changed = true
		return
	}
	m.undos, m.redos = append(m.undos, past{before, m.tree()}), nil
}

// back undoes (or does again) a step.
func (m *overlaps) back(undo bool) {
	from, to, do := &m.undos, &m.redos, m.l.s.Undo
	if !undo {
		from, to, do = &m.redos, &m.undos, m.l.s.Redo
	}
	was := m.tree()
	_, err := do(context.Background(), api.UndoRequest{Count: 1})
	m.l.fs[0].Forget()
	want := was
	switch {
	case len(m.running) > 0:
		if !errors.Is(err, messages.ErrBusy) {
			m.t.Fatalf("while a command runs: %v", err)
		}
	case len(*from) == 0:
		if err == nil {
			m.t.Fatal("there was nothing left")
		}
	case err != nil:
		m.t.Fatal(err)
	default:
		p := (*from)[len(*from)-1]
		*from, *to = (*from)[:len(*from)-1], append(*to, p)
		if want = p.before; !undo {
			want = p.after
		}
	}
	if got := m.tree(); got != want {
		m.t.Fatalf("the folder is\n%sand should be\n%s", got, want)
	}
}

// abort rolls the open step back, which a redo can do again.
func (m *overlaps) abort() {
	after := m.tree()
	_, err := m.l.s.Undo(context.Background(), api.UndoRequest{Count: 1, AbortOpen: true})
	m.l.fs[0].Forget()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, c := range m.running {
		if r := actortest.Within(m.l.t, "the end", c.result); r.res.Outcome != messages.OutcomeFailed || r.res.Others != 0 {
			m.t.Fatalf("%+v, %v", r.res, r.err)
		}
		c.cancel()
	}
	m.running = nil
	if got := m.tree(); got != m.before {
		m.t.Fatalf("after the rollback the folder is\n%sand was\n%s", got, m.before)
	}
	if m.changed {
		m.redos = []past{{m.before, after}}
	}
}

// Commands that overlap, writes of frontends, undos and rollbacks between: the
// history is what the model says, and every undo is exact.
func TestOverlapModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t, 1, nil)
		defer l.s.Close(context.Background())
		m := &overlaps{l: l, t: rt}
		first := m.tree()
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				if m.t = t; len(m.running) == 4 {
					t.Skip()
				}
				m.start()
			},
			"change": func(t *rapid.T) {
				if m.t = t; len(m.running) == 0 {
					t.Skip()
				}
				m.change()
			},
			"end": func(t *rapid.T) {
				if m.t = t; len(m.running) == 0 {
					t.Skip()
				}
				c, r := m.take(func(c *overlapping) { c.end <- rapid.IntRange(0, 3).Draw(t, "code") })
				m.ends(c, r, messages.OutcomeCompleted)
			},
			"cancel": func(t *rapid.T) {
				if m.t = t; len(m.running) == 0 {
					t.Skip()
				}
				c, r := m.take(func(c *overlapping) { c.cancel() })
				m.ends(c, r, messages.OutcomeCancelled)
			},
			"api":  func(t *rapid.T) { m.t = t; m.api() },
			"undo": func(t *rapid.T) { m.t = t; m.back(true) },
			"redo": func(t *rapid.T) { m.t = t; m.back(false) },
			"abort": func(t *rapid.T) {
				if m.t = t; len(m.running) == 0 {
					t.Skip()
				}
				m.abort()
			},
		})
		m.t = rt
		for len(m.running) > 0 {
			c, r := m.take(func(c *overlapping) { c.end <- 0 })
			m.ends(c, r, messages.OutcomeCompleted)
		}
		if n := len(m.undos); n > 0 {
			if _, err := l.s.Undo(context.Background(), api.UndoRequest{Count: n}); err != nil {
				rt.Fatal(err)
			}
		}
		if got := m.tree(); got != first {
			rt.Fatalf("after all undos the folder is\n%sand was\n%s", got, first)
		}
		if err := l.s.Close(context.Background()); err != nil {
			rt.Error(err)
		}
	})
}
