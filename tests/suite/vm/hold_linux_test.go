package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// fact returns what "sandbox inspect" shows of an actor or bridge.
func (l *live) fact(node, key string) string {
	l.t.Helper()
	tree, err := l.s.Inspect(l.t.Context())
	check(l.t, err)
	var find func(api.TreeNode) string
	find = func(n api.TreeNode) string {
		if strings.HasSuffix(n.Name, node) {
			return n.Facts[key]
		}
		for _, c := range n.Children {
			if v := find(c); v != "" {
				return v
			}
		}
		return ""
	}
	return find(tree.Root)
}

// paused waits until QEMU has said that the machine stands still, or goes on.
func (l *live) paused(want bool) {
	l.t.Helper()
	until(l.t, fmt.Sprintf("paused is %v", want), func() bool { return l.fact("machine", "paused") == fmt.Sprint(want) })
}

// question waits until the next safeguard asks, and returns its name.
func (l *live) question() (id string) {
	l.t.Helper()
	id = fmt.Sprintf("sg_%03d", l.next)
	l.next++
	until(l.t, id+" asks", func() bool {
		list, err := l.s.Pending(l.t.Context())
		check(l.t, err)
		return len(list) == 1 && list[0].ID == id
	})
	return id
}

func (l *live) decide(id string, allow bool) {
	l.t.Helper()
	check(l.t, l.s.Decide(l.t.Context(), api.DecideRequest{ID: id, Allow: allow, By: "test"}))
}

// TestUnderGuest: a guest that goes on while its operations are held and its steps
// are undone, over both bridges; each in one machine. Over 9P the machine is started, and the folders are served, as
// Windows' are.
//
// SG-08: while a safeguard holds an operation the machine is paused, and only
// then; other folders are as usable on the host as before, and what happens there is
// seen inside as soon as it goes on.
func TestUnderGuest(t *testing.T) {
	for name, nineP := range map[string]bool{"virtiofs": false, "9p": true} {
		t.Run(name, func(t *testing.T) {
			require.Root(t) // in one of CI's passes
			other := ""
			guarded := api.Safeguards{RenameOver: true, DeleteThreshold: 2, Timeout: time.Hour}
			l := startLive(t, func(c *api.Config, o *qemu.Options) {
				base := filepath.Dir(c.Directories[0].Path)
				other = filepath.Join(base, "other")
				check(t, os.Mkdir(other, 0o755))
				fill(t, other)
				c.Directories = append(c.Directories, api.Directory{Path: other, UndoDir: filepath.Join(base, "undo2")})
				o.NineP, o.Named, c.PosixMetadata = nineP, nineP, nineP
			})
			for _, s := range []struct {
				name       string
				over9P     bool // only
				safeguards api.Safeguards
				test       func(*testing.T, *live)
			}{
				{name: "names and modes", over9P: true, test: windowsFolder},
				{name: "host edits", test: func(t *testing.T, l *live) { hostEdits(t, l, nineP) }},
				{name: "never stale", test: neverStale},
				{name: "rollback", test: underWriters},
				{name: "SG-08 allowed", safeguards: guarded, test: func(t *testing.T, l *live) { heldAllowed(t, l, other) }},
				{name: "SG-08 denied", safeguards: guarded, test: heldDenied},
				{name: "SG-08 deadline", safeguards: guarded, test: heldTooLong},
				{name: "SG-08 cancelled", over9P: true, safeguards: guarded, test: heldCancelled},
			} {
				if s.over9P && !nineP {
					continue
				}
				check(t, l.s.ConfigureSafeguards(t.Context(), s.safeguards))
				if !t.Run(s.name, func(t *testing.T) {
					outer := l.t
					l.t = t
					defer func() { l.t = outer }()
					s.test(t, l)
				}) {
					return
				}
			}
		})
	}
}

// heldAllowed: nothing moves inside until the operation is allowed.
func heldAllowed(t *testing.T, l *live, other string) {
	done := l.begin(fmt.Sprintf(`cat %[1]s/a; (while [ ! -e /tmp/beaten ]; do echo . >>%[1]s/beat; done) & 
until [ -s %[1]s/beat ]; do :; done; echo new >x; mv x b; cat %[1]s/a; touch /tmp/beaten; wait; cat b`, other))
	id := l.question()
	l.paused(true)
	size := func() int64 {
		st, err := os.Stat(filepath.Join(other, "beat"))
		check(t, err)
		return st.Size()
	}
	before := size()
	for i := range 20 { // the host works in the other folder as before
		text := fmt.Sprintf("by the API, %d\n", i)
		_, err := l.s.WriteFile(t.Context(), api.WriteFileRequest{Directory: other, Path: "a", Data: []byte(text)})
		check(t, err)
		got, err := l.s.ReadFile(t.Context(), api.ReadFileRequest{Directory: other, Path: "a"})
		if check(t, err); string(got.Data) != text {
			t.Errorf("read %q", got.Data)
		}
	}
	if after := size(); after > before+2 { // what it had asked for before that is done all the same
		t.Errorf("a paused guest wrote %d bytes", after-before)
	}
	if b, err := os.ReadFile(filepath.Join(l.dir, "b")); err != nil || string(b) != "second\n" {
		t.Errorf("before the decision b is %q, %v", b, err)
	}
	l.decide(id, true)
	r := <-done
	if r.err != nil || r.Status.Code != 0 || r.out != "first\nby the API, 19\nnew\n" {
		t.Errorf("%+v, %v: %q", r.RunResult, r.err, r.out)
	}
	l.paused(false)
}

// heldDenied: a refusal rolls the step back, and the machine goes on.
func heldDenied(t *testing.T, l *live) {
	before := treesnap.MustTake(t, l.dir)
	done := l.begin("echo lost >sub/c; rm a b && echo removed; true")
	id := l.question()
	l.paused(true)
	l.decide(id, false)
	r := <-done
	if r.err != nil || r.Outcome != "denied" || strings.Contains(r.out, "removed") {
		t.Errorf("%+v, %v: %q", r.RunResult, r.err, r.out)
	}
	l.paused(false)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.dir))
	if got := l.sh("cat a sub/c; cat /run/sandbox/rollback"); got != fmt.Sprintf("first\nthird\n%d\n", r.Step) {
		t.Errorf("inside: %q", got)
	}
}

// heldTooLong: nobody decides; the deadline is the same for who stands still.
func heldTooLong(t *testing.T, l *live) {
	before := treesnap.MustTake(t, l.dir)
	g, err := l.s.Safeguards(t.Context())
	check(t, err)
	short := g
	short.Timeout = time.Second
	check(t, l.s.ConfigureSafeguards(t.Context(), short))
	l.next++
	if r := <-l.begin("rm a b"); r.err != nil || r.Outcome != "denied" || !strings.Contains(r.Reason, "timeout") {
		t.Errorf("%+v, %v: %q", r.RunResult, r.err, r.out)
	}
	check(t, l.s.ConfigureSafeguards(t.Context(), g))
	l.paused(false)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.dir))
}

// heldCancelled: who does not want to wait for a decision need not. (Over
// virtio-fs a process cannot leave a request: it waits for the decision.)
func heldCancelled(t *testing.T, l *live) {
	before := treesnap.MustTake(t, l.dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := l.beginIn(ctx, "rm a b")
	l.question()
	l.paused(true)
	cancel()
	if r := <-done; r.Outcome != "cancelled" {
		t.Errorf("%+v, %v: %q", r.RunResult, r.err, r.out)
	}
	l.paused(false)
	l.undo(1) // the first of the two was removed
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.dir))
	if got := l.sh("cat a b"); got != "first\nnew\n" {
		t.Errorf("inside: %q", got)
	}
}
