package interceptor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// granting is a bridge that only grants.
type granting struct{ *vfs.Tree }

func (granting) Fence(context.Context) error           { return nil }
func (g granting) Invalidate(c fsbridge.Changes) error { g.Tree.Invalidate(c); return nil }
func (granting) Close() error                          { return nil }

// grants makes the rig's bridge one that grants.
func (r *rig) grants() *vfs.Tree {
	r.t.Helper()
	root, err := hostfs.OpenRoot(r.dir)
	r.must(err)
	tree, err := vfs.NewTree(vfs.Options{Root: root, Hooks: r.hooks})
	r.must(err)
	r.hooks.SetBridge(granting{tree})
	r.t.Cleanup(func() {
		_, _ = ask(r, func(p *messages.Reply[struct{}]) any { return &Stop{p} }) // no capture is under way then
		tree.Close()
		_ = root.Close()
	})
	return tree
}

// grant gets a descriptor of a file in the root.
func (r *rig) grant(tree *vfs.Tree, name string) *os.File {
	r.t.Helper()
	g, err := tree.Grant(vfs.Request{}, vfs.RootID, vfs.OpenFile{Name: name, Flags: os.O_RDWR | os.O_CREATE, Mode: 0o644})
	r.must(err)
	tree.Forget(g.Node, 1)
	f := os.NewFile(uintptr(g.FD), name)
	r.t.Cleanup(func() { _ = f.Close() })
	return f
}

func (r *rig) put(f *os.File, off int64, text string) {
	r.t.Helper()
	_, err := f.WriteAt([]byte(text), off)
	r.must(err)
}

// stands waits until an ambient step is open, other than the one with the id last, in which
// all is captured.
func (r *rig) stands(last undolog.StepID) (id undolog.StepID) {
	r.t.Helper()
	actortest.Eventually(r.t, "an ambient step", func() bool {
		var open bool
		id, open = r.log.Current()
		return open && id < 0 && id != last
	})
	_, err := ask(r, func(p *messages.Reply[undolog.Outside]) any { return &External{nil, p} }) // waits for the captures
	r.must(err)
	return id
}

// TestMBGrantStands: as long as somebody can write without asking there is a step to
// which that belongs, and each can be undone.
func TestMBGrantStands(t *testing.T) {
	r := newRig(t, map[string]string{"f": "content"}, nil)
	tree := r.grants()
	var before []*treesnap.Snapshot
	note := func() { before = append(before, r.snap()) }

	note()
	r.assign(1)
	f := r.grant(tree, "f")
	r.put(f, 0, "1")
	if e, err := r.closeStep(1); err != nil || e == nil {
		t.Fatalf("close: %+v, %v", e, err)
	}
	r.stands(0)
	note()
	r.put(f, 1, "2")
	r.assign(2)
	if e := actortest.Expect[*undolog.Entry](r.events); e.StepID >= 0 || e.AffectedCount != 1 {
		t.Errorf("ambient step: %+v", e)
	}
	note()
	r.put(f, 2, "3")
	if e, err := r.closeStep(2); err != nil || e == nil || e.AffectedCount != 1 {
		t.Errorf("close: %+v, %v", e, err)
	}
	r.assign(3)
	if e, err := r.closeStep(3); err != nil || e != nil {
		t.Errorf("a step in which nothing was written: %+v, %v", e, err)
	}
	for i := len(before) - 1; i >= 0; i-- {
		r.must(r.undo())
		r.same(before[i])
	}
	if len(r.history()) != 0 {
		t.Errorf("history: %+v", r.history())
	}
}

// TestMBGrantIdle: the ambient step is not closed by idleness while somebody can write,
// and leaves nothing when he has ended without.
func TestMBGrantIdle(t *testing.T) {
	r := newRig(t, map[string]string{"f": "content"}, nil)
	tree := r.grants()
	r.assign(1)
	f := r.grant(tree, "f")
	r.put(f, 0, "1")
	_, err := r.closeStep(1)
	r.must(err)
	id := r.stands(0)
	captures := r.hooks.Captures()
	for range 5 {
		r.clock.WaitArmed(5 * time.Second)
		r.clock.Advance(5 * time.Second)
	}
	if now := r.stands(0); now != id || r.hooks.Captures() != captures {
		t.Errorf("step %d, then %d; %d captures, then %d", id, now, captures, r.hooks.Captures())
	}
	r.must(f.Close())
	actortest.Eventually(t, "the end of the step", func() bool {
		r.clock.Advance(5 * time.Second)
		_, open := r.log.Current()
		return !open
	})
	if h := r.history(); len(h) != 1 {
		t.Errorf("history: %+v", h)
	}
}

// TestMBGrantAborted: a rollback takes back what was written without asking, and what
// comes after it belongs to a step again.
func TestMBGrantAborted(t *testing.T) {
	r := newRig(t, map[string]string{"f": "content"}, nil)
	tree := r.grants()
	r.assign(1)
	f := r.grant(tree, "f")
	r.put(f, 0, "1")
	_, err := r.closeStep(1)
	r.must(err)
	kept := r.snap()
	r.assign(2)
	r.put(f, 1, "2")
	g := r.grant(tree, "g")
	r.put(g, 0, "new")
	r.must(r.abort(2))
	r.same(kept)
	r.put(g, 0, "NEW") // nobody sees that
	r.stands(0)
	r.put(f, 2, "3")
	r.flush()
	if e := actortest.Expect[*undolog.Entry](r.events); e.AffectedCount != 1 {
		t.Errorf("ambient step: %+v", e)
	}
	r.must(r.undo())
	r.same(kept)
}

// TestMBGrantCrash: after a crash of the actor the open step is rolled back, and the next one
// stands.
func TestMBGrantCrash(t *testing.T) {
	r := newRig(t, map[string]string{"f": "content"}, nil)
	tree := r.grants()
	r.assign(1)
	f := r.grant(tree, "f")
	r.put(f, 0, "1")
	_, err := r.closeStep(1)
	r.must(err)
	kept := r.snap()
	id := r.stands(0)
	r.put(f, 1, "2")
	r.tell(&crashed{"test"})
	actortest.Expect[*undolog.Recovery](r.events)
	r.same(kept)
	r.stands(id)
	r.put(f, 1, "3")
	r.must(r.undo())
	r.same(kept)
}

// TestMBGrantBesideEdits: what somebody outside writes to a file that a program may write to counts as the
// program's: it is in the step, and an undo takes it back. Edits to other files, and to that one when
// the program has closed it, are theirs: an undo stops.
func TestMBGrantBesideEdits(t *testing.T) {
	r := newRig(t, map[string]string{"f": "content", "g": "content"}, nil)
	tree := r.grants()
	edit := func(name, text string) { write(t, filepath.Join(r.dir, name), text) }
	has := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v, want %q", name, b, err, want)
		}
	}
	r.assign(1)
	f, g := r.grant(tree, "f"), r.grant(tree, "g")
	r.put(f, 0, "1")
	r.put(g, 0, "1")
	r.must(g.Close())
	_, err := r.closeStep(1)
	r.must(err)
	r.stands(0)
	edit("f", "edited beside the writer")
	edit("g", "edited by the user")
	r.must(r.undo())
	has("f", "1ontent")
	has("g", "edited by the user")
	r.must(f.Close())
	r.flush()
	edit("f", "edited after the writer")
	var stopped *undolog.BarrierError
	if err := r.undo(); !errors.As(err, &stopped) {
		t.Fatalf("undo: %v", err)
	}
	for _, name := range []string{"f", "g"} {
		if !slices.ContainsFunc(stopped.Barriers, func(b undolog.Barrier) bool { return slices.Contains(b.Paths, name) }) {
			t.Errorf("the edit of %s is not among %+v", name, stopped.Barriers)
		}
	}
	has("f", "edited after the writer")
	has("g", "edited by the user")
}
