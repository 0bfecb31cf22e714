package vm

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// live is a session with a machine, in which several commands run.
type live struct {
	t    *testing.T
	s    *actors.Session
	dir  string
	next int // the next safeguard's number
}

// startLive boots one. change may make other things of what it is made of.
func startLive(t *testing.T, change ...func(*api.Config, *qemu.Options)) *live {
	t.Helper()
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	base, err := os.MkdirTemp("/var/tmp", "sbt-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	l := &live{t: t, dir: filepath.Join(base, "work"), next: 1}
	check(t, os.Mkdir(l.dir, 0o755))
	fill(t, l.dir)
	cfg := api.Config{
		RuntimeDir:  filepath.Join(base, "run"),
		Directories: []api.Directory{{Path: l.dir, UndoDir: filepath.Join(base, "undo")}},
	}
	o := qemu.Options{VM: hypervisor.VM{Accel: "tcg", BootTimeout: patience, MemoryBytes: 256 << 20}, Umask: 0o022}
	for _, f := range change {
		f(&cfg, &o)
	}
	images := guestimage.Dir
	if o.NineP {
		images = func(t testing.TB) string { return filepath.Join(guestimage.Cache(t), "sandbox", "guest") }
	}
	source := image.Source{Dir: images(t), Arch: "amd64", Guest: guestimage.Program(t)}
	o.Image = func(context.Context) (qemu.Image, error) {
		f, err := source.Open()
		return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, Version: f.Version}, err
	}
	cfg.Runtime = qemu.New(o)
	l.s, err = actors.Start(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() {
		if err := l.s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// sh runs a script, which must succeed, and returns its output.
func (l *live) sh(script string) string {
	l.t.Helper()
	r := <-l.begin(script)
	if r.err != nil || r.Status.Code != 0 {
		l.t.Fatalf("%s: %+v, %v: %s", script, r.RunResult, r.err, r.out)
	}
	return r.out
}

// ran is how a script ended, and its output.
type ran struct {
	api.RunResult
	out string
	err error
}

// begin runs a script while the caller does something else.
func (l *live) begin(script string) <-chan ran {
	l.t.Helper()
	return l.beginIn(l.t.Context(), script)
}

func (l *live) beginIn(ctx context.Context, script string) <-chan ran {
	l.t.Helper()
	r, w, err := os.Pipe()
	check(l.t, err)
	var out bytes.Buffer
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(&out, r) }()
	done := make(chan ran, 1)
	go func() {
		res, err := l.s.Run(ctx, api.RunRequest{Argv: []string{"sh", "-c", script}, Stdout: w, Stderr: w})
		w.Close()
		<-read
		r.Close()
		done <- ran{res, out.String(), err}
	}()
	return done
}

func (l *live) undo(count int) {
	l.t.Helper()
	_, err := l.s.Undo(l.t.Context(), api.UndoRequest{Count: count})
	check(l.t, err)
}

// seenFromInside: a program in the machine shows and changes files as commands see them, and a command that outlives its connection is talked to.
func (l *live) seenFromInside(before *treesnap.Snapshot) {
	l.t.Helper()
	ctx := l.t.Context()
	content := strings.Repeat("0123456789abcdef", 1<<16)
	for _, path := range []string{"/tmp/in/side", filepath.Join(l.dir, "in/side")} {
		c, err := l.s.WritePath(ctx, api.WritePathRequest{Path: path}, strings.NewReader(content))
		check(l.t, err)
		var back bytes.Buffer
		check(l.t, l.s.ReadPath(ctx, api.ReadPathRequest{Path: path}, &back))
		if (c.Step != 0) != strings.HasPrefix(path, l.dir) || back.String() != content || l.sh("wc -c <"+path) != "1048576\n" {
			l.t.Errorf("%+v, %d bytes", c, back.Len())
		}
	}
	l.undo(1)
	treesnap.AssertEqual(l.t, before, treesnap.MustTake(l.t, l.dir))
	for _, terminal := range []*api.CommandTerminal{nil, {Rows: 5, Cols: 40}} {
		st, err := l.s.StartCommand(ctx, api.CommandRequest{Argv: []string{"sh", "-c", `read line; echo "<$line>"`}, Terminal: terminal, Stdin: terminal == nil, Service: true})
		check(l.t, err)
		check(l.t, l.s.InputCommand(ctx, api.CommandInput{Number: st.Number, Data: []byte("hello\n")}))
		said := ""
		check(l.t, l.s.FollowCommand(ctx, api.FollowRequest{Number: st.Number}, func(e api.CommandEvent) error {
			said += string(e.Data)
			if e.Ended != nil && e.Ended.ExitCode != 0 {
				l.t.Errorf("%+v", e.Ended)
			}
			return nil
		}))
		if !strings.Contains(said, "<hello>") {
			l.t.Errorf("%q", said)
		}
	}
}

// One machine's life: what the host changes is seen inside, what is undone is
// undone for open files and caches too, and a machine that is reset goes on.
func TestLiveMachine(t *testing.T) {
	l := startLive(t)
	before := treesnap.MustTake(t, l.dir)

	// A process that stays holds a file open, and has cached it all.
	l.sh(`cat a b sub/c >/dev/null; ls -lR >/dev/null; (exec 3<a 4<sub/c; while [ ! -e /tmp/stop ]; do sleep 0.1; done; cat <&3 >/tmp/seen; cat <&4 >>/tmp/seen 2>/dev/null; echo done >>/tmp/seen) >/dev/null 2>&1 </dev/null &`)
	l.sh(`echo changed >a; rm -r sub; mkdir new; echo x >new/y`)
	if got := l.sh("cat a; ls"); got != "changed\na\nb\nnew\n" {
		t.Errorf("inside: %q", got)
	}
	l.undo(1)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.dir))
	if got := l.sh("cat a sub/c; ls"); got != "first\nthird\na\nb\nsub\n" {
		t.Errorf("after the undo, inside: %q", got)
	}
	// The open file is that of the folder again, or says that it is gone.
	got := l.sh("touch /tmp/stop; until grep -qs done /tmp/seen; do sleep 0.1; done; cat /tmp/seen")
	if !strings.HasPrefix(got, "first\n") && got != "done\n" && got != "third\ndone\n" {
		t.Errorf("files that were open read %q", got)
	}

	l.seenFromInside(before)

	// What somebody changes on the host is soon seen inside.
	l.sh("cat b; stat -c %s b")
	check(t, os.WriteFile(filepath.Join(l.dir, "b"), []byte("from the host\n"), 0o644))
	for end := time.Now().Add(patience); ; {
		if got := l.sh("cat b"); got == "from the host\n" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("inside: %q", got)
		}
	}
	// What a frontend writes is seen at once.
	text := []byte("by the API\n")
	if _, err := l.s.WriteFile(t.Context(), api.WriteFileRequest{Path: "a", Data: text}); err != nil {
		t.Fatal(err)
	}
	if got := l.sh("cat a"); got != "by the API\n" {
		t.Errorf("inside: %q", got)
	}
	if l.s.Reset(t.Context()) != nil {
		t.Fatal("reset failed")
	}
	if got := l.sh("cat a; ls /tmp"); got != "by the API\n" {
		t.Errorf("in the new machine: %q", got)
	}
}
