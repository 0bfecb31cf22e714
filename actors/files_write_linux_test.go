package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func (l *lab) write(path, content string) (api.WriteResult, error) {
	return l.s.WriteFile(l.t.Context(), api.WriteFileRequest{Path: path, Data: []byte(content), Parents: true, Origin: api.Origin{Frontend: "mcp", RequestID: "7"}})
}

func (l *lab) steps(dir string) []undolog.Entry {
	l.t.Helper()
	h, err := l.s.History(l.t.Context(), api.HistoryRequest{Directory: dir})
	if err != nil {
		l.t.Fatal(err)
	}
	return h
}

// MC-03: a write outside of commands is a step of its own, of type api, that can
// be undone; one that changes nothing is none.
func TestMC03APIStep(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	res, err := l.write("new dir/sub/file", "one\ntwo\n")
	if err != nil || !res.Created || res.Step <= 0 || res.BytesWritten != 8 || res.Path != "new dir/sub/file" {
		t.Fatalf("%+v, %v", res, err)
	}
	done := l.event(api.EventStepCompleted)
	if done.Step != res.Step || done.Origin != (api.Origin{Frontend: "mcp", RequestID: "7"}) || done.ExitCode != nil || done.Outcome != messages.OutcomeCompleted || !done.Last {
		t.Errorf("event: %+v", done)
	}
	h := l.steps("")
	if len(h) != 1 || h[0].Type != undolog.TypeAPI || h[0].Command != "write_file 'new dir/sub/file'" || h[0].StepID != res.Step {
		t.Fatalf("history: %+v", h)
	}
	if again, err := l.write("new dir/sub/file", "one\ntwo\n"); err != nil || again.Step != 0 || again.Created {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	edit, err := l.s.EditFile(t.Context(), api.EditFileRequest{Path: filepath.Join(l.dirs[0], "f0"), Edits: []api.Edit{{Old: "content", New: "text"}}})
	if err != nil || edit.Step <= res.Step || edit.Replacements != 1 || !strings.Contains(edit.Diff, "-content of f0\n") || !strings.Contains(edit.Diff, "+text of f0\n") {
		t.Fatalf("%+v, %v", edit, err)
	}
	dry, err := l.s.EditFile(t.Context(), api.EditFileRequest{Path: "f0", Edits: []api.Edit{{Old: "text", New: "nothing"}}, DryRun: true})
	if err != nil || dry.Step != 0 || !dry.DryRun || dry.Diff == "" {
		t.Errorf("%+v, %v", dry, err)
	}
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

// MC-04: a write while a command runs belongs to the command's step.
func TestMC04JoinsCommand(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	var in api.WriteResult
	res := l.mustRun(func() error {
		var err error
		in, err = l.write("f0", "by the frontend")
		return errors.Join(err, l.fs[0].Unlink("f1"))
	})
	if in.Step != res.Step {
		t.Errorf("step %d, the command's is %d", in.Step, res.Step)
	}
	if h := l.steps(""); len(h) != 1 || h[0].Type != undolog.TypeCommand || h[0].AffectedCount != 2 {
		t.Fatalf("history: %+v", h)
	}
	if _, err := l.undo(false); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}

// MC-05: what fails leaves no step and no trace, inside of a command or not.
func TestMC05FailureLeavesNothing(t *testing.T) {
	l := newLab(t, 2, func(c *api.Config) { c.Directories[1].ReadOnly = true })
	outside := filepath.Join(filepath.Dir(l.dirs[0]), "outside")
	put(t, filepath.Join(outside, "victim"), "x")
	for name, target := range map[string]string{"out": "../outside", "abs": outside, "gone": "nowhere", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(l.dirs[0], name)); err != nil {
			t.Fatal(err)
		}
	}
	before, other := l.snap(0), treesnap.MustTake(t, outside)
	cases := []struct {
		dir, path string
		create    bool
		want      error
	}{
		{path: "../outside/victim", want: api.ErrOutside}, {path: outside + "/victim", want: api.ErrOutside},
		{path: "out/victim", want: api.ErrOutside}, {path: "abs/new", want: api.ErrOutside}, {path: "out", want: api.ErrOutside},
		{path: "gone"}, {path: "loop"}, {path: "f0/below", want: fs.ErrInvalid}, {path: ""}, {path: "a\x00b"},
		{path: strings.Repeat("n", 300)}, {path: "f0", create: true, want: fs.ErrExist},
		{dir: "1", path: "f0", want: messages.ErrReadOnlyDirectory}, {dir: "9", path: "f0", want: messages.ErrNoDirectory},
	}
	for _, c := range cases {
		_, err := l.s.WriteFile(t.Context(), api.WriteFileRequest{Directory: c.dir, Path: c.path, Data: []byte("y"), Parents: true, Create: c.create})
		if err == nil || c.want != nil && !errors.Is(err, c.want) && c.want != fs.ErrInvalid {
			t.Errorf("%q in %q: %v", c.path, c.dir, err)
		}
	}
	for _, edits := range [][]api.Edit{nil, {{Old: "", New: "x"}}, {{Old: "absent", New: "x"}}, {{Old: "o", New: "0"}}} {
		_, err := l.s.EditFile(t.Context(), api.EditFileRequest{Path: "f0", Edits: edits})
		if !errors.Is(err, api.ErrEdit) {
			t.Errorf("%+v: %v", edits, err)
		}
	}
	if _, err := l.s.EditFile(t.Context(), api.EditFileRequest{Path: "missing", Edits: []api.Edit{{Old: "a"}}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	treesnap.AssertEqual(t, other, treesnap.MustTake(t, outside))
	if h := l.steps(""); len(h) != 0 {
		t.Errorf("history: %+v", h)
	}
}

// A safeguard holds a write as it holds a command: denied it is rolled back and
// the error says so; allowed it is done.
func TestAPIWriteSafeguard(t *testing.T) {
	l := newLab(t, 1, func(c *api.Config) { c.Safeguards.OverwriteBytes = 1000 })
	put(t, filepath.Join(l.dirs[0], "large"), strings.Repeat("large\n", 1000))
	before := l.snap(0)
	type result struct {
		res api.WriteResult
		err error
	}
	got := make(chan result, 1)
	for _, allow := range []bool{false, true} {
		go func() { res, err := l.write("large", "small"); got <- result{res, err} }()
		e := l.event(api.EventSafeguardTriggered)
		if e.Pending.Kind != messages.KindOverwrite || e.Origin.RequestID != "7" || e.Pending.Command != "write_file large" {
			t.Errorf("%+v", e)
		}
		if err := l.s.Decide(t.Context(), api.DecideRequest{ID: e.Pending.ID, Allow: allow, By: "test"}); err != nil {
			t.Fatal(err)
		}
		r := actortest.Within(t, "the write", got)
		if allow != (r.err == nil) || !allow && !errors.Is(r.err, messages.ErrDenied) {
			t.Fatalf("allow %v: %+v", allow, r)
		}
		if !allow {
			treesnap.AssertEqual(t, before, l.snap(0))
		}
	}
	if h := l.steps(""); len(h) != 1 {
		t.Errorf("history: %+v", h)
	}
	// Who gives up does not wait for the deadline, and the question is withdrawn.
	put(t, filepath.Join(l.dirs[0], "large2"), strings.Repeat("large\n", 1000))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		res, err := l.s.WriteFile(ctx, api.WriteFileRequest{Path: "large2", Data: []byte("small")})
		got <- result{res, err}
	}()
	l.event(api.EventSafeguardTriggered)
	cancel()
	if r := actortest.Within(t, "the cancelled write", got); !errors.Is(r.err, context.Canceled) {
		t.Errorf("%+v", r)
	}
	if p, err := l.s.Pending(t.Context()); err != nil || len(p) != 0 {
		t.Errorf("pending: %+v, %v", p, err)
	}
	if _, err := l.write("f0", "after"); err != nil {
		t.Errorf("the next write: %v", err)
	}
}

// Writes of several frontends go one after the other; each is a step.
func TestParallelWrites(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	const n = 30
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := l.write(fmt.Sprintf("dir%d/file%d", i%3, i), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if h := l.steps(""); len(h) != n {
		t.Fatalf("%d steps", len(h))
	}
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: n}); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}
