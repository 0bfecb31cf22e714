//go:build linux

package fuse

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// lists records what OnList is told.
type lists struct {
	mu    sync.Mutex
	paths []string
}

func (l *lists) add(path string, _ hostfs.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths = append(l.paths, path)
	return path != "unwatched"
}

func (l *lists) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	paths := l.paths
	l.paths = nil
	slices.Sort(paths)
	return paths
}

// TestFresh: a directory that the workload makes is watched when its step ends, not
// at once; until then edits from outside show although nobody tells of them.
func TestFresh(t *testing.T) {
	var l lists
	m := mount(t, func(o *vfs.Options) { o.OnList, o.WatchAfter = l.add, time.Hour })
	p := func(n string) string { return filepath.Join(m.mnt, n) }
	h := func(n string) string { return filepath.Join(m.host, n) }
	check(t, os.MkdirAll(p("d/sub"), 0o755))
	check(t, os.Mkdir(p("gone"), 0o755))
	check(t, os.Remove(p("gone")))
	check(t, os.Rename(p("d/sub"), p("d/moved")))
	check(t, os.WriteFile(p("d/f"), []byte("inside"), 0o644))
	check(t, os.WriteFile(p("d/removed"), nil, 0o644))
	if _, err := os.Stat(p("d/new")); !os.IsNotExist(err) {
		t.Fatal(err)
	}
	_ = listed(t, p("d"))
	_ = listed(t, p("d/moved"))
	check(t, os.WriteFile(h("d/f"), []byte("outside"), 0o644))
	check(t, os.WriteFile(h("d/new"), nil, 0o644))
	check(t, os.Remove(h("d/removed")))
	check(t, os.WriteFile(h("d/moved/f"), nil, 0o644))
	actortest.Eventually(t, "the edits show", func() bool {
		st, err := os.Stat(p("d/f"))
		_, absent := os.Stat(p("d/removed"))
		_, present := os.Stat(p("d/new"))
		return err == nil && st.Size() == 7 && os.IsNotExist(absent) && present == nil &&
			slices.Equal(listed(t, p("d")), []string{"f", "moved", "new"}) && len(listed(t, p("d/moved"))) == 1
	})
	check(t, m.Fence(t.Context()))
	if got := l.take(); !slices.Equal(got, []string{".", "d", "d/moved"}) {
		t.Errorf("watched %q when the step had ended", got)
	}
	if _, err := os.Stat(p("d/f")); err != nil { // what it knew was for a moment
		t.Fatal(err)
	}
	before := m.Tree().Counts()
	for range 10 {
		if _, err := os.Stat(p("d/f")); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Tree().Counts()["LOOKUP"] - before["LOOKUP"]; n > 1 {
		t.Errorf("%d LOOKUP requests in a watched directory", n)
	}
}

// TestFreshEnds: it does not take a step's end.
func TestFreshEnds(t *testing.T) {
	var l lists
	m := mount(t, func(o *vfs.Options) { o.OnList = l.add })
	check(t, os.MkdirAll(filepath.Join(m.mnt, "a/b"), 0o755))
	var got []string
	actortest.Eventually(t, "both are watched", func() bool {
		got = append(got, l.take()...)
		return slices.Contains(got, "a") && slices.Contains(got, "a/b")
	})
}

// TestUnwatchedListing: what is made from outside is listed where nobody watches,
// too, after the kernel has kept a listing.
func TestUnwatchedListing(t *testing.T) {
	var l lists
	m := mount(t, func(o *vfs.Options) { o.OnList = l.add })
	dir := filepath.Join(m.host, "unwatched")
	check(t, os.Mkdir(dir, 0o755))
	for i, name := range []string{"a", "b", "c"} {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		actortest.Eventually(t, name+" is listed", func() bool { // the kernel counts in jiffies
			return len(listed(t, filepath.Join(m.mnt, "unwatched"))) == i+1
		})
	}
}

// TestUnlistedDirectory: what is made from outside shows in the times of a directory
// that nobody inside has looked into, and so nobody watches.
func TestUnlistedDirectory(t *testing.T) {
	var l lists
	m := mount(t, func(o *vfs.Options) { o.OnList = l.add })
	p, h := filepath.Join(m.mnt, "d"), filepath.Join(m.host, "d")
	check(t, os.Mkdir(h, 0o755))
	_, err := os.Stat(p)
	check(t, err)
	check(t, os.WriteFile(h+"/new", nil, 0o644))
	want, err := os.Stat(h)
	check(t, err)
	actortest.Eventually(t, "the edit shows", func() bool {
		st, err := os.Stat(p)
		return err == nil && st.ModTime().Equal(want.ModTime())
	})
	if got := l.take(); slices.Contains(got, "d") {
		t.Errorf("watched %q", got)
	}
}

// TestFreshEnding: an edit from outside shows that comes when a directory is not
// fresh any more but not yet watched.
func TestFreshEnding(t *testing.T) {
	var meanwhile func()
	m := mount(t, func(o *vfs.Options) {
		o.WatchAfter = time.Hour
		o.OnList = func(path string, _ hostfs.ID) bool {
			if path == "d" {
				meanwhile()
			}
			return true
		}
	})
	check(t, os.Mkdir(filepath.Join(m.mnt, "d"), 0o755))
	check(t, os.WriteFile(filepath.Join(m.mnt, "d/f"), []byte("one"), 0o644))
	f, err := os.Open(filepath.Join(m.mnt, "d/f"))
	check(t, err)
	defer f.Close()
	size := func() int64 {
		st, err := f.Stat()
		if err != nil {
			return -1
		}
		return st.Size()
	}
	meanwhile = func() {
		before := m.tree.Counts()["GETATTR"]
		actortest.Eventually(t, "the kernel asks", func() bool { return size() == 3 && m.tree.Counts()["GETATTR"] > before })
		if err := os.WriteFile(filepath.Join(m.host, "d/f"), []byte("longer"), 0o644); err != nil {
			t.Error(err)
		}
	}
	check(t, m.Fence(t.Context()))
	actortest.Eventually(t, "the edit shows", func() bool { return size() == 6 })
}

// TestSettleWaits: a step's end waits for what is just being watched because it was
// fresh for long enough.
func TestSettleWaits(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var watched atomic.Bool
	m := mount(t, func(o *vfs.Options) {
		o.WatchAfter = time.Millisecond
		o.OnList = func(path string, _ hostfs.ID) bool {
			if path == "d" {
				close(entered)
				<-release
				watched.Store(true)
			}
			return true
		}
	})
	check(t, os.Mkdir(filepath.Join(m.mnt, "d"), 0o755))
	<-entered
	settled := make(chan bool, 1)
	go func() {
		m.tree.Settle()
		settled <- watched.Load()
	}()
	select {
	case <-settled:
		close(release)
		t.Fatal("it does not wait")
	case <-time.After(50 * time.Millisecond): // it need not be as far as that
	}
	close(release)
	if !<-settled {
		t.Error("it is not watched")
	}
}
