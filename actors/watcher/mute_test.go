package watcher

import (
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// mutable is a source that can mute, or says why not.
type mutable struct {
	source
	err          error
	mutes, armed atomic.Int32
}

func (s *mutable) Mute(dir string, _ hostfs.ID) (func() Batch, error) {
	s.mutes.Add(1)
	return func() Batch {
		n := s.armed.Add(1)
		return Batch{Events: []Event{{fixedDir(dir), "a" + strconv.Itoa(int(n))}, {fixedDir(dir), "b"}}}
	}, s.err
}

func mutableWatcher(t *testing.T, err error) (*Watcher, *mutable, *actortest.FakeClock) {
	t.Helper()
	clock := actortest.NewFakeClock()
	src := &mutable{source: source{batches: make(chan Batch), closed: make(chan struct{})}, err: err}
	w, werr := New(Options{Root: "/work/dir", Source: src, Clock: clock})
	if werr != nil {
		t.Fatal(werr)
	}
	return w, src, clock
}

// A busy directory is muted for a window, and then everything in it is reported
// as of the window's beginning.
func TestBusyDirectoryIsMutedForAWindow(t *testing.T) {
	w, src, clock := mutableWatcher(t, nil)
	defer w.Close()
	id := hostfs.ID{Dev: 1, Ino: 2}
	for i := int32(1); i <= 3; i++ {
		began := clock.Now()
		actortest.Eventually(t, "the directory is muted", func() bool {
			w.Busy("sub", id)
			return src.mutes.Load() == i
		})
		clock.WaitArmed(muteFor)
		for range 100 {
			w.Busy("sub", id)
		}
		clock.Advance(muteFor - 1)
		if m, a := src.mutes.Load(), src.armed.Load(); m != i || a != i-1 {
			t.Fatalf("muted %d times and armed %d times; want %d and %d", m, a, i, i-1)
		}
		clock.Advance(1)
		var b batch
		actortest.Eventually(t, "what is there is reported", func() bool { b = w.take(); return len(b.paths) > 0 })
		if want := []string{"sub/a" + strconv.Itoa(int(i)), "sub/b"}; !slices.Equal(b.paths, want) || !b.first.Equal(began) {
			t.Errorf("reported %q as of %v; want %q as of %v", b.paths, b.first, want, began)
		}
	}
}

// What cannot be muted is left alone for a while.
func TestDirectoryThatCannotBeMuted(t *testing.T) {
	w, src, clock := mutableWatcher(t, errors.New("too large"))
	defer w.Close()
	id := hostfs.ID{Dev: 1, Ino: 2}
	w.Busy("sub", id)
	clock.WaitArmed(muteAgain)
	clock.Advance(muteAgain - 1)
	w.Busy("sub", id)
	if n := src.mutes.Load(); n != 1 {
		t.Errorf("tried %d times", n)
	}
	clock.Advance(1)
	actortest.Eventually(t, "it is tried again", func() bool {
		w.Busy("sub", id)
		return src.mutes.Load() == 2
	})
}

// Close ends the windows, and nothing happens afterwards.
func TestCloseWhileMuted(t *testing.T) {
	w, src, clock := mutableWatcher(t, nil)
	w.Busy("sub", hostfs.ID{Ino: 1})
	w.Busy("other", hostfs.ID{Ino: 2})
	actortest.Eventually(t, "both have their windows", func() bool { return clock.Timers() == 2 })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Busy("third", hostfs.ID{Ino: 3})
	if m, a, n := src.mutes.Load(), src.armed.Load(), clock.Timers(); m != 2 || a != 2 || n != 0 {
		t.Errorf("muted %d times, armed %d times, %d timers", m, a, n)
	}
	if b := w.take(); len(b.paths) > 0 {
		t.Errorf("reported %q after the end", b.paths)
	}
}

// A name that is heard of all the time has its directory muted, and as soon as everything is heard
// again once more; one that is heard of now and then has not.
func TestHeardOfAllTheTime(t *testing.T) {
	w, src, clock := mutableWatcher(t, nil)
	defer w.Close()
	hear := func(names ...string) {
		for _, name := range names {
			w.Report(Batch{Events: []Event{{fixedDir("sub"), name}, {fixedDir("sub"), ""}}})
		}
	}
	quiet := func(what string) {
		t.Helper()
		w.muted.mu.Lock()
		defer w.muted.mu.Unlock()
		if len(w.muted.dirs) > 0 {
			t.Fatal("muted for", what)
		}
	}
	for range 20 {
		hear("b")
		quiet("a slow writer, and the directory itself")
		clock.Advance(busyGap + 1)
	}
	for i := range 20 {
		hear("c"+strconv.Itoa(i), "d"+strconv.Itoa(i))
		quiet("many files")
		clock.Advance(rest)
	}
	hear("b")
	quiet("a writer that has just begun")
	clock.Advance(rest)
	hear("b")
	actortest.Eventually(t, "the directory is muted", func() bool { return src.mutes.Load() == 1 })
	clock.WaitArmed(muteFor)
	clock.Advance(muteFor)
	actortest.Eventually(t, "the directory is muted again", func() bool {
		hear("b")
		return src.mutes.Load() == 2
	})
}
