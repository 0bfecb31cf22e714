package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// talk is a client that drives a machine by the STDIO API, as the reference's tests do.
type talk struct {
	t       *testing.T
	s       *drive.Sandbox
	c       *jsonl.Client
	ro      string // a second folder, read-only
	outside string // a directory of the host's that is no folder
}

// TestStdio: the flows of the reference through the real program and a real
// machine, which is one for all of them.
func TestStdio(t *testing.T) {
	require.Root(t) // in one of CI's passes
	k := &talk{t: t, s: sandbox(t)}
	k.ro, k.outside = filepath.Join(k.s.State, "ro"), filepath.Join(k.s.State, "outside")
	for _, dir := range []string{k.ro, k.outside} {
		check(t, os.Mkdir(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("secret\n"), 0o644))
	}
	k.c = jsonl.Start(t, k.s.Bare(t.Context(), "serve", "--protocol", "stdio", "--memory", "256MiB", "-C", k.s.Dir, "-C", "library="+k.ro+":ro"))
	for _, s := range []struct {
		name string
		test func(*testing.T, *talk)
	}{
		{"SL-02", startSeveral}, {"UR", undoRoundTrips}, {"PJ", posixSmoke}, {"SF", safeguardFlows}, {"SC", symlinkEscapes},
		{"DOS-01", outgrown}, {"SL-05", resetMachine}, {"SL-07", machineDies}, {"SL-08", stopMachine},
	} {
		if !t.Run(s.name, func(t *testing.T) {
			outer := k.t
			k.t = t
			defer func() { k.t = outer }()
			s.test(t, k)
		}) {
			return
		}
	}
}

// execute runs a command, which must succeed, and returns what it said.
func (k *talk) execute(command string) string {
	k.t.Helper()
	id := k.c.Send("agent.execute", map[string]any{"command": command})
	m := k.c.Response(id)
	var r stdio.ExecuteResult
	var said strings.Builder
	for _, e := range k.c.Rest() {
		var o stdio.Output
		if e.Type == stdio.EventTerminalOutput {
			if e.Into(k.t, &o); o.RequestID == id {
				said.WriteString(o.Data)
			}
		}
	}
	if !m.OK() {
		k.t.Fatalf("%s: %s", command, m.Line)
	}
	if m.Into(k.t, &r); r.ExitCode == nil || *r.ExitCode != 0 {
		k.t.Fatalf("%s: %s: %s", command, m.Line, said.String())
	}
	return said.String()
}

func (k *talk) undo(count int) {
	k.t.Helper()
	k.c.Must("undo.rollback", map[string]any{"count": count}, nil)
}

// look is what the guest sees of the folder.
const look = "find . | sort; stat -c '%n %a %s' a b; cat a b sub/c"

// same fails unless the folder is as before, on the host and inside.
func (k *talk) same(before *treesnap.Snapshot, inside string) {
	k.t.Helper()
	treesnap.AssertEqual(k.t, before, k.s.Snapshot(k.t))
	if got := k.execute(look); got != inside {
		k.t.Errorf("inside it is %q, want %q", got, inside)
	}
}

// SL-02: each folder has its tag and is where it is on the host; one that is
// read-only is that inside.
func startSeveral(t *testing.T, k *talk) {
	var info stdio.SessionInfo
	k.c.Must("session.start", map[string]any{"isolation": "vm"}, &info)
	for i, d := range info.WorkingDirectories {
		if d.MountTag != fmt.Sprintf("working%d", i) || d.Path != []string{k.s.Dir, k.ro}[i] || d.Bridge == nil || d.Bridge.Kind != "virtiofs" {
			t.Errorf("%+v", d)
		}
	}
	if info.Isolation != "vm" || len(info.WorkingDirectories) != 2 {
		t.Errorf("%+v", info)
	}
	if got := k.execute("cat /mnt/working/0/a /mnt/working/1/secret; pwd; touch " + k.ro + "/x 2>&1 || true"); got != "first\nsecret\n"+k.s.Dir+"\ntouch: "+k.ro+"/x: Read-only file system\n" {
		t.Errorf("%q", got)
	}
}

func undoRoundTrips(t *testing.T, k *talk) {
	inside := k.execute(look)
	for _, c := range []struct {
		name  string
		steps []string
		keep  int // so many of them stay at first
	}{
		{"UR-01 one file", []string{"echo changed >a"}, 0},
		{"UR-02 several files", []string{"echo x >a; echo y >>b; mkdir -p new/dir; echo z >new/dir/f; rm sub/c; chmod 600 b"}, 0},
		{"UR-03 some of several steps", []string{"echo one >a; echo 1 >f1", "echo two >a; rm b", "echo three >a; mv f1 f3"}, 1},
		{"UR-04 a tree", []string{"rm -rf sub a b"}, 0},
		{"UR-05 renames", []string{"mv a z; mv sub moved; mv moved/c b"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := k.s.Snapshot(t)
			var kept *treesnap.Snapshot
			for i, step := range c.steps {
				k.execute(step)
				if i+1 == c.keep {
					kept = k.s.Snapshot(t)
				}
			}
			k.undo(len(c.steps) - c.keep)
			if kept != nil {
				treesnap.AssertEqual(t, kept, k.s.Snapshot(t))
				k.undo(c.keep)
			}
			k.same(before, inside)
		})
	}
}

func posixSmoke(t *testing.T, k *talk) {
	inside := k.execute(look)
	for _, c := range []struct{ name, command, want string }{
		{"PJ-01 create and unlink", "echo x >f; cat f; exec 3<f; rm f; [ -e f ] || echo gone; cat <&3", "x\ngone\nx\n"},
		{"PJ-02 rename", "mv a r; [ -e a ] || cat r; echo over >o; mv o r; cat r; mv r sub/; cat sub/r", "first\nover\nover\n"},
		{"PJ-03 chmod", "chmod 741 a; stat -c %a a; chmod 000 b; cat b 2>/dev/null || echo refused", "741\nrefused\n"},
		{"PJ-04 symlink", "ln -s sub/c l; readlink l; cat l; rm l; cat sub/c; ln -s nowhere l; cat l 2>/dev/null || echo dangles", "sub/c\nthird\nthird\ndangles\n"},
		{"PJ-05 mkdir and rmdir", "mkdir -m 750 d; stat -c '%a %F' d; mkdir d/e; rmdir d 2>/dev/null || echo full; rmdir d/e d; [ -e d ] || echo gone", "750 directory\nfull\ngone\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := k.s.Snapshot(t)
			if got := k.execute(c.command); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			k.undo(1)
			k.same(before, inside)
		})
	}
}

// safeguardFlows: configured, asked and answered over the API.
func safeguardFlows(t *testing.T, k *talk) {
	inside := k.execute(look)
	const large = "big"
	check(t, os.WriteFile(filepath.Join(k.s.Dir, large), make([]byte, 64<<10), 0o644))
	for _, c := range []struct {
		name, kind, command string
		configure           map[string]any
		allow               bool
	}{
		{"SF-01 deletions, denied", "delete_threshold", "echo lost >sub/c; rm a b", map[string]any{"delete_threshold": 2}, false},
		{"SF-02 a large file, allowed", "overwrite_large", "echo small >big", map[string]any{"overwrite_threshold_bytes": 32 << 10}, true},
		{"SF-03 a rename, allowed", "rename_over", "mv a b", map[string]any{"rename_over": true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := k.s.Snapshot(t)
			c.configure["timeout_seconds"] = 3600
			k.c.Must("safeguard.configure", c.configure, nil)
			id := k.c.Send("agent.execute", map[string]any{"command": c.command})
			var asked stdio.SafeguardTriggered
			if k.c.Event(stdio.EventSafeguardTriggered).Into(t, &asked); asked.Kind != c.kind || asked.RequestID != id {
				t.Errorf("%+v", asked)
			}
			var st stdio.StatusResult
			if k.c.Must("session.status", nil, &st); st.PendingSafeguards != 1 || st.Pending[0].ID != asked.SafeguardID {
				t.Errorf("%+v", st)
			}
			action := map[bool]string{true: "allow", false: "deny"}[c.allow]
			k.c.Must("safeguard.confirm", map[string]any{"safeguard_id": asked.SafeguardID, "action": action}, nil)
			m := k.c.Response(id)
			if c.allow {
				var r stdio.ExecuteResult
				if m.Into(t, &r); !m.OK() || r.ExitCode == nil || *r.ExitCode != 0 || r.AffectedCount == 0 {
					t.Errorf("%s", m.Line)
				}
				k.undo(1)
			} else if m.Code() != string(stdio.Denied) {
				t.Errorf("%s", m.Line)
			}
			k.c.Must("safeguard.configure", map[string]any{"delete_threshold": 0, "overwrite_threshold_bytes": 0, "rename_over": false}, nil)
			treesnap.AssertEqual(t, before, k.s.Snapshot(t))
		})
	}
	check(t, os.Remove(filepath.Join(k.s.Dir, large)))
	until(t, "the guest sees that", func() bool { return k.execute(look) == inside })
}

// symlinkEscapes: links that a guest makes lead nowhere on the host, whoever
// follows them: a capture, an undo, a frontend.
func symlinkEscapes(t *testing.T, k *talk) {
	inside := k.execute(look)
	outside := treesnap.MustTake(t, k.outside)
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"SC-01 a capture follows none", []string{"ln -s OUT/secret l; { echo owned >l; } 2>/dev/null; chmod 777 l 2>/dev/null; rm -f l; ln -s OUT l; mv l l2; true"}},
		{"SC-02 nor does an undo", []string{"echo changed >sub/c; echo new >sub/secret", "rm -r sub; ln -s OUT sub", "rm sub; mkdir sub; echo other >sub/secret; rm a; ln -s OUT/secret a"}},
		{"SC-03 a chain of them", []string{"ln -s OUT C; ln -s C B; ln -s B A; cat A/secret 2>/dev/null && echo escaped; { echo x >A/new; } 2>/dev/null; rm -rf A/; true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := k.s.Snapshot(t)
			for _, step := range c.steps {
				if got := k.execute(strings.ReplaceAll(step, "OUT", k.outside)); got != "" {
					t.Errorf("%s: %q", step, got)
				}
			}
			for _, path := range []string{"l2/secret", "a", "A/secret", "B/secret"} {
				if st, err := os.Lstat(filepath.Join(k.s.Dir, path)); err == nil && st.Mode().IsRegular() && path == "a" {
					continue // still the file that it was
				}
				if m := k.c.Call("fs.read", map[string]any{"path": path}); m.OK() || strings.Contains(m.Line, `"secret\n"`) {
					t.Errorf("read through %s: %s", path, m.Line)
				}
			}
			treesnap.AssertEqual(t, outside, treesnap.MustTake(t, k.outside))
			k.undo(len(c.steps))
			treesnap.AssertEqual(t, outside, treesnap.MustTake(t, k.outside))
			k.same(before, inside)
		})
	}
}

// outgrown (DOS-01): a step that makes many files, which costs nothing, and one that
// changes more than a step may keep. It goes on, the files that were too much are named
// and left by its undo, all else of it comes back; the program answers all the while, and
// the next step is whole again.
func outgrown(t *testing.T, k *talk) {
	const files = 60
	inside := k.execute(look)
	before := k.s.Snapshot(t)
	k.c.Must("undo.configure", map[string]any{"max_single_step_size_bytes": files << 9}, nil)
	k.execute(fmt.Sprintf("mkdir u; k=$(head -c 1024 /dev/zero | tr '\\0' x); i=0; while [ $i -lt %d ]; do echo $k >u/$i; i=$((i+1)); done", files))
	id := k.c.Send("agent.execute", map[string]any{"command": "for f in u/*; do echo $f >$f; done"})
	lost := k.c.Take("the warning", func(m jsonl.Message) bool {
		return m.Type == stdio.EventWarning && strings.Contains(m.Line, "undo.max_step_bytes")
	})
	var st stdio.StatusResult
	if k.c.Must("session.status", nil, &st); st.State != "running" && st.State != "idle" {
		t.Errorf("%+v", st)
	}
	m := k.c.Response(id)
	var r stdio.ExecuteResult
	if m.Into(t, &r); !m.OK() || r.Outcome != "completed" || *r.ExitCode != 0 {
		t.Errorf("%s", m.Line)
	}
	if !strings.Contains(lost.Line, strconv.FormatInt(r.StepID, 10)) {
		t.Errorf("the warning is about another step: %s", lost.Line)
	}
	var h stdio.HistoryResult
	k.c.Must("undo.history", nil, &h)
	if len(h.Steps) != 2 || h.Steps[0].Unprotected || h.Steps[0].NotKeptCount == 0 || h.Steps[0].NotKeptCount >= files || h.Steps[1].NotKeptCount != 0 {
		t.Fatalf("%+v", h.Steps)
	}
	var undone stdio.UndoResult
	k.c.Must("undo.rollback", map[string]any{"count": 1}, &undone)
	if undone.LeftCount != h.Steps[0].NotKeptCount {
		t.Errorf("%+v", undone)
	}
	k.leftOf(files, undone.LeftCount)
	after := k.s.Snapshot(t)
	k.execute("rm -r u a; echo x >b") // nothing of this is copied, but for a few bytes
	k.undo(1)
	treesnap.AssertEqual(t, after, k.s.Snapshot(t))
	k.c.Must("undo.discard", nil, nil)
	check(t, os.RemoveAll(filepath.Join(k.s.Dir, "u")))
	until(t, "the guest sees that", func() bool { return k.execute(look) == inside })
	treesnap.AssertEqual(t, before, k.s.Snapshot(t), treesnap.Options{IgnoreMtime: true})
}

// leftOf fails unless so many of the files below u are as the step left them, and all
// others as they were before it.
func (k *talk) leftOf(files, want int) {
	k.t.Helper()
	left := 0
	for i := range files {
		name := "u/" + strconv.Itoa(i)
		b, err := os.ReadFile(filepath.Join(k.s.Dir, name))
		check(k.t, err)
		switch string(b) {
		case name + "\n":
			left++
		case strings.Repeat("x", 1024) + "\n":
		default:
			k.t.Errorf("%s: %.40q", name, b)
		}
	}
	if left != want {
		k.t.Errorf("%d files were left, want %d", left, want)
	}
}

// machine is QEMU's process.
func (k *talk) machine() int {
	k.t.Helper()
	var st stdio.StatusResult
	k.c.Must("session.status", nil, &st)
	pid, err := strconv.Atoi(st.Machine["pid"])
	check(k.t, err)
	return pid
}

// SL-05: another machine, the same folders and history.
func resetMachine(t *testing.T, k *talk) {
	inside := k.execute(look)
	before := k.s.Snapshot(t)
	k.execute("echo x >/tmp/scratch; echo changed >a")
	old := k.machine()
	k.c.Must("session.reset", nil, nil)
	if now := k.machine(); now == old {
		t.Errorf("it is the same machine, %d", now)
	}
	if got := k.execute("cat a; ls /tmp"); got != "changed\n" {
		t.Errorf("in the new one: %q", got)
	}
	k.undo(1)
	k.same(before, inside)
}

// SL-07: QEMU, and with it the control channel, is gone in the middle of a
// command: that is rolled back, the session has failed and says why, and can be
// reset.
func machineDies(t *testing.T, k *talk) {
	before := k.s.Snapshot(t)
	id := k.c.Send("agent.execute", map[string]any{"command": "rm a; echo begun; sleep 1000"})
	k.c.Take("its output", func(m jsonl.Message) bool {
		return m.Type == stdio.EventTerminalOutput && strings.Contains(m.Line, "begun")
	})
	check(t, syscall.Kill(k.machine(), syscall.SIGKILL))
	var e stdio.ErrorEvent
	if k.c.Event(stdio.EventError).Into(t, &e); e.Code != stdio.Unavailable || !strings.Contains(e.Message, "QEMU ended unexpectedly (killed)") {
		t.Errorf("%+v", e)
	}
	if m := k.c.Response(id); m.OK() {
		t.Errorf("%s", m.Line)
	}
	var st stdio.StatusResult
	if k.c.Must("session.status", nil, &st); st.State != "error" {
		t.Errorf("%+v", st)
	}
	treesnap.AssertEqual(t, before, k.s.Snapshot(t))
	k.c.Must("session.reset", nil, nil)
	if got := k.execute("cat a"); got != "first\n" {
		t.Errorf("%q", got)
	}
}

// SL-08: nothing is left of a session that was stopped, and of the program when
// its client has gone.
func stopMachine(t *testing.T, k *talk) {
	pid := k.machine()
	k.c.Must("session.stop", nil, nil)
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("QEMU is still there: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(k.s.State, "run", "*", "*.sock")); err != nil || len(left) > 0 {
		t.Errorf("sockets left: %q, %v", left, err)
	}
	k.c.Close()
	k.c.WaitEnd()
	k.s.CheckResidue(t)
}

// SL-06: a machine that cannot be started is a structured error that says what to
// do, at once; the program goes on, and so does the next session.
func TestSL06LaunchFails(t *testing.T) {
	s := sandbox(t)
	empty := filepath.Join(s.State, "empty")
	check(t, os.WriteFile(empty, nil, 0o600))
	for want, flags := range map[string][]string{
		"/nowhere/kernel":                 {"--kernel-path", "/nowhere/kernel"},
		"QEMU ended unexpectedly (exit s": {"--kernel-path", empty, "--initrd-path", empty},
		"of memory":                       {"--memory", "100TiB"},
	} {
		c := jsonl.Start(t, s.Command(t.Context(), append([]string{"serve", "--protocol", "stdio"}, flags...)...))
		id := c.Send("session.start", map[string]any{"isolation": "vm"})
		if m := c.Response(id); m.OK() || !slices.Contains([]string{string(stdio.Unavailable), string(stdio.InvalidField)}, m.Code()) || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%q: %s", flags, m.Line)
		}
		var st stdio.StatusResult
		if c.Must("session.status", nil, &st); st.State != "none" && st.State != "error" {
			t.Errorf("%q: %+v", flags, st)
		}
		c.Must("session.start", map[string]any{"isolation": "jail"}, nil)
		c.Must("agent.execute", map[string]any{"command": "rm a"}, nil)
		c.Must("undo.rollback", nil, nil)
		c.Must("session.stop", nil, nil)
		c.Close()
		c.WaitEnd()
	}
	s.CheckResidue(t)
}
