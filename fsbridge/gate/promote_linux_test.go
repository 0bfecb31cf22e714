package gate

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// gated is a gate on a mount, in which everybody is allowed unless refuse is set.
type gated struct {
	t         *testing.T
	host, mnt string
	promoted  chan string
	refuse    atomic.Bool
	stale     atomic.Bool
}

func newGated(t *testing.T, m Mount, files ...string) *gated {
	t.Helper()
	require.Mount(t)
	base := t.TempDir()
	g := &gated{t: t, host: filepath.Join(base, "host"), mnt: filepath.Join(base, "mnt"), promoted: make(chan string, 16)}
	for _, f := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(g.host, f)), 0o755), os.WriteFile(filepath.Join(g.host, f), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(g.mnt, 0o755); err != nil {
		t.Fatal(err)
	}
	m.Promote = func(path string, dir int) error {
		var st, named unix.Stat_t
		if err := errors.Join(unix.Fstat(dir, &st), unix.Stat(path, &named)); err != nil || st.Ino != named.Ino {
			t.Errorf("%s: the descriptor is another directory's: %v", path, err)
		}
		g.promoted <- path
		return nil
	}
	asked, ask := questions()
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case p := <-asked:
				p.answer <- !g.refuse.Load()
			case <-stop:
				return
			}
		}
	}()
	dev, err := none.Mount(g.mnt, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Path: g.host, Ask: ask, Stands: func(Question, bool) bool { return !g.stale.Load() }}).Serve(dev, m)
	if err != nil {
		none.Unmount(g.mnt)
		t.Fatal(err)
	}
	t.Cleanup(func() { none.Unmount(g.mnt); s.Wait(); close(stop) })
	return g
}

// look looks at a path until that ends as wanted: the kernel keeps what it was told for a second.
func (g *gated) look(path string, want error) {
	g.t.Helper()
	var st unix.Stat_t
	for err := unix.Stat(filepath.Join(g.mnt, path), &st); !errors.Is(err, want); err = unix.Stat(filepath.Join(g.mnt, path), &st) {
		if err != nil && want == nil {
			g.t.Fatalf("%s: %v", path, err)
		}
	}
}

// TestPromotes: a directory that is allowed is mounted once; a file is not, nor what holds something that is hidden, or may
// have another name of it.
func TestPromotes(t *testing.T) {
	g := newGated(t, Mount{Hidden: []string{"mixed/key", "key"}}, "mixed/key", "mixed/x", "key", "linked/x", "file", "sdk/x", "last/x")
	if err := os.Link(filepath.Join(g.host, "key"), filepath.Join(g.host, "sdk", "alias")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"mixed/x", "linked/x", "file", "sdk/x"} {
		g.look(path, nil)
	}
	if err := os.Remove(filepath.Join(g.host, "sdk", "alias")); err != nil { // the key has one name again
		t.Fatal(err)
	}
	g.look("last/x", nil)
	g.look("last", nil)
	if got := within(t, "a mount", g.promoted); got != filepath.Join(g.host, "last") {
		t.Errorf("mounted: %s", got)
	}
	select {
	case got := <-g.promoted:
		t.Errorf("mounted, too: %s", got)
	default:
	}
}

// TestPromotesAnew: what takes a directory's place is mounted in its turn; so is what is allowed again after it was refused.
func TestPromotesAnew(t *testing.T) {
	g := newGated(t, Mount{}, "sdk/x", "new/y")
	sdk := filepath.Join(g.host, "sdk")
	g.look("sdk/x", nil)
	within(t, "the first mount", g.promoted)
	if err := errors.Join(os.Rename(sdk, sdk+".old"), os.Rename(filepath.Join(g.host, "new"), sdk)); err != nil {
		t.Fatal(err)
	}
	g.look("sdk/x", unix.ENOENT)
	within(t, "the second mount", g.promoted)
	g.refuse.Store(true)
	g.stale.Store(true)
	g.look("sdk/y", unix.EACCES)
	g.refuse.Store(false)
	g.look("sdk/y", nil)
	within(t, "the third mount", g.promoted)
}

// TestNotBelowOverlays: over a directory that can be written nothing is mounted.
func TestNotBelowOverlays(t *testing.T) {
	g := newGated(t, Mount{Lower: true}, "sdk/x")
	g.look("sdk/x", nil)
	select {
	case got := <-g.promoted:
		t.Errorf("mounted: %s", got)
	default:
	}
}

// TestOurs: who promotes is answered at once, and asks nobody.
func TestOurs(t *testing.T) {
	asked, ask := questions()
	g := New(Options{Path: "/opt", Ask: ask})
	q := Question{Path: "/opt/x"}
	ours := func(want bool) {
		t.Helper()
		if allow, err := g.admit(t.Context(), q, nil, true); allow != want || err != nil {
			t.Errorf("%v, %v", allow, err)
		}
	}
	ours(false)
	done := make(chan bool, 1)
	go func() {
		allow, _ := g.admit(t.Context(), q, nil, false)
		done <- allow
	}()
	p := within(t, "the question", asked)
	ours(false)
	p.answer <- true
	if !within(t, "the answer", done) {
		t.Error("refused")
	}
	ours(true)
	if n := len(asked); n != 0 {
		t.Errorf("%d more questions", n)
	}
}
