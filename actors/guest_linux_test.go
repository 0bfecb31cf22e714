package actors

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	nojail "github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// kernel starts a session whose commands are real and reach the folder through
// a kernel's mount. change may make other things of what it is made of.
func kernel(t *testing.T, change ...func(*api.Config)) *lab {
	t.Helper()
	require.Mount(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, dirs: []string{filepath.Join(base, "work")}, events: make(chan api.Event, 1000)}
	for _, name := range []string{"f0", "dir/f1"} {
		put(t, filepath.Join(l.dirs[0], name), "content of "+name)
	}
	cfg := api.Config{
		Runtime:     nojail.New(nojail.Options{Dir: filepath.Join(base, "mounts"), Umask: 0o022}),
		RuntimeDir:  filepath.Join(base, "run"),
		Directories: []api.Directory{{Path: l.dirs[0], UndoDir: filepath.Join(base, "undo")}},
	}
	for _, f := range change {
		f(&cfg)
	}
	if l.s, err = Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.s.Subscribe(func(e api.Event) { l.events <- e }))
	t.Cleanup(func() {
		if err := l.s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// sh runs a script and hands its output to read, which must read to the end.
func (l *lab) sh(ctx context.Context, script string, read func(io.Reader)) (api.RunResult, error) {
	l.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close()
	done := make(chan struct{})
	go func() { defer close(done); read(r) }()
	res, err := l.s.Run(ctx, api.RunRequest{Argv: []string{"sh", "-c", script}, Stdout: w, Stderr: w})
	_ = w.Close()
	actortest.Within(l.t, "the end of the output", done)
	return res, err
}

func (l *lab) output(script string) string {
	l.t.Helper()
	var out bytes.Buffer
	res, err := l.sh(l.t.Context(), script, func(r io.Reader) { _, _ = io.Copy(&out, r) })
	if err != nil || res.Status.Code != 0 {
		l.t.Fatalf("%s: %+v, %v: %s", script, res, err, out.String())
	}
	return out.String()
}

// What a frontend writes is seen at once by commands whose kernel had cached what
// was there, and so is its undo; nobody takes it for an edit from outside.
func TestWritesReachCommands(t *testing.T) {
	l := kernel(t)
	before := l.snap(0)
	const look = "cat f0 dir/f1; ls -R; test -e dir/new/file && cat dir/new/file; stat -c %s f0"
	old := l.output(look + "; true")
	for i := range 3 {
		text := strings.Repeat(fmt.Sprintf("written %d;", i), i+1)
		for _, path := range []string{"f0", "dir/new/file", "dir/f1"} {
			if _, err := l.write(path, text); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.output(look); strings.Count(got, text) < 3 || !strings.Contains(got, fmt.Sprintf("\n%d\n", len(text))) && !strings.Contains(got, fmt.Sprint(len(text))) {
			t.Fatalf("round %d: a command sees %q", i, got)
		}
	}
	if res, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 9}); err != nil || len(res.Steps) != 9 {
		t.Fatalf("%+v, %v", res, err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	if got := l.output(look + "; true"); got != old {
		t.Errorf("after the undo a command sees %q, before it was %q", got, old)
	}
	if h := l.steps(""); len(h) != 0 {
		t.Errorf("history: %+v", h)
	}
}

// A real reset: the folder is mounted anew, and commands and undo go on.
func TestSL05ResetKernel(t *testing.T) {
	l := kernel(t)
	before := l.snap(0)
	l.output("echo one > f0; mkdir made; echo x > made/x")
	if err := l.s.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.output("cat f0 made/x; echo two > f0"); got != "one\nx\n" {
		t.Errorf("%q", got)
	}
	st, err := l.s.Status(t.Context())
	if err != nil || st.State != "active" || st.Directories[0].Bridge == nil || st.Directories[0].Bridge.Requests["WRITE"] == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Count: 2}); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}

// Output flows through a pipe that the command writes to itself: our memory does
// not grow with it.
func TestLargeOutput(t *testing.T) {
	l := kernel(t)
	const size = 64 << 20
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	var got int64
	res, err := l.sh(t.Context(), fmt.Sprintf("head -c %d /dev/zero", size), func(r io.Reader) { got, _ = io.Copy(io.Discard, r) })
	runtime.ReadMemStats(&m1)
	if err != nil || res.Outcome != messages.OutcomeCompleted || got != size {
		t.Fatalf("%d bytes, %+v, %v", got, res, err)
	}
	if grown := m1.TotalAlloc - m0.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// A frontend that goes away takes its command with it, and what that started;
// the step is closed and can be undone.
func TestCancelledCommand(t *testing.T) {
	l := kernel(t)
	before := l.snap(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := l.sh(ctx, "echo begun > f0; (while :; do sleep 0.01; done) & echo ready; wait", func(r io.Reader) {
		b := make([]byte, 6)
		if _, err := io.ReadFull(r, b); err != nil {
			t.Error(err)
		}
		cancel()
		_, _ = io.Copy(io.Discard, r) // ends when the whole group has
	})
	if err != nil || res.Outcome != messages.OutcomeCancelled {
		t.Fatalf("%+v, %v", res, err)
	}
	if h := l.steps(""); len(h) != 1 || h[0].Type != undolog.TypeCommand || h[0].Status != messages.OutcomeCancelled {
		t.Fatalf("%+v", h)
	}
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{}); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}
