package watcher

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// source hands over batches, each when it is asked for one.
type source struct {
	batches chan Batch
	closed  chan struct{}
}

func (s *source) Add(string, hostfs.ID) error { return nil }
func (s *source) Close() error                { close(s.closed); return nil }
func (s *source) Read() (Batch, error) {
	select {
	case b := <-s.batches:
		return b, nil
	case <-s.closed:
		return Batch{}, os.ErrClosed
	}
}

type fixedDir string

func (d fixedDir) Path() (string, bool) { return string(d), true }
func (d fixedDir) ID() hostfs.ID        { return hostfs.ID{} }

// A burst is read in runs with rests between them, and nothing of it is lost.
func TestBurstIsReadInRuns(t *testing.T) {
	clock := actortest.NewFakeClock()
	src := &source{batches: make(chan Batch), closed: make(chan struct{})}
	w, err := New(Options{Root: "/work/dir", Source: src, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	batch := func(i int) Batch { return Batch{Events: []Event{{fixedDir("sub"), "f" + strconv.Itoa(i)}}} }
	src.batches <- batch(0)
	clock.WaitArmed(rest)
	select {
	case src.batches <- batch(1):
		t.Error("reading goes on at once")
	default:
	}
	const batches = 1000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := 1; i <= batches; i++ { // the last shows that the others are noted
			src.batches <- batch(i)
		}
	}()
	for done := false; !done; {
		select {
		case <-sent:
			done = true
		default:
			clock.Advance(rest)
		}
	}
	if got := w.take().paths; len(got) < batches || got[0] != "sub/f0" {
		t.Errorf("%d of %d events were seen", len(got), batches)
	}
}

// Where somebody inside waits for changes they are told sooner, but not in more than two batches in the time of one.
func TestPrompt(t *testing.T) {
	clock := actortest.NewFakeClock()
	w, err := New(Options{Root: "/work/dir", Source: &source{batches: make(chan Batch), closed: make(chan struct{})}, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a := NewActor(w)
	if got := a.wait(); got != debounce {
		t.Errorf("nobody waits: %v", got)
	}
	w.Prompt()
	for _, c := range []struct{ since, want time.Duration }{{0, apart}, {apart - soon - 1, soon + 1}, {apart, soon}, {time.Hour, soon}} {
		if a.looked = clock.Now().Add(-c.since); a.wait() != c.want {
			t.Errorf("%v after the last batch: %v, want %v", c.since, a.wait(), c.want)
		}
	}
}

// TestU19UnsureIsForCachesOnly: what may have changed is forgotten by caches, and nobody is told that somebody edited it;
// unless it has changed, too.
func TestU19UnsureIsForCachesOnly(t *testing.T) {
	w, _, _ := mutableWatcher(t, nil)
	defer w.Close()
	at := func(name string) Event { return Event{fixedDir("d"), name} }
	w.Report(Batch{Unsure: []Event{at("both"), at("doubt"), at("")}})
	w.Report(Batch{Events: []Event{at("edited"), at("both")}, Unsure: []Event{at("edited")}})
	b := w.take()
	if len(b.dirs) != 1 || len(b.dirs[0].Names) != 4 {
		t.Errorf("caches are told of %+v", b.dirs)
	}
	if want := []string{"d/both", "d/edited"}; !slices.Equal(b.paths, want) {
		t.Errorf("edits: %q, want %q", b.paths, want)
	}
}

// TestKeptOpen: a removed file that an NFS client keeps by another name, since it is open, is no edit. Caches are told of it.
func TestKeptOpen(t *testing.T) {
	w, _, _ := mutableWatcher(t, nil)
	defer w.Close()
	var events []Event
	for _, name := range []string{".nfs000000000000800300000001", ".nfs00000000000080030000000g", ".nfs0000", "nfs000000000000800300000001"} {
		events = append(events, Event{fixedDir("d"), name})
	}
	w.Report(Batch{Events: events})
	b := w.take()
	if len(b.dirs) != 1 || len(b.dirs[0].Names) != len(events) {
		t.Errorf("caches are told of %+v", b.dirs)
	}
	if want := []string{"d/.nfs0000", "d/.nfs00000000000080030000000g", "d/nfs000000000000800300000001"}; !slices.Equal(b.paths, want) {
		t.Errorf("edits: %q, want %q", b.paths, want)
	}
}

// TestU19ShareOfWatches: where caches need watches, too, directories that nobody has looked into get a share of them only,
// and it is said that edits elsewhere are not told.
func TestU19ShareOfWatches(t *testing.T) {
	if Share() < 0 {
		t.Errorf("a share of %d", Share())
	}
	for most, want := range map[int]int{0: 4, 2: 2, 4: 4} {
		root := t.TempDir()
		for _, d := range []string{"a/b", "c"} {
			if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		lacks := 0
		w, err := New(Options{
			Root: root, Source: &source{batches: make(chan Batch), closed: make(chan struct{})},
			Clock: actortest.NewFakeClock(), Overflow: func(string) { lacks++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		w.WatchAll(nil, most)
		if w.watches != want || (lacks == 0) != (want == 4) {
			t.Errorf("of at most %d: %d are watched, and that some are not is said %d times", most, w.watches, lacks)
		}
		if !w.Watch("c", hostfs.ID{}) {
			t.Error("what somebody looks into is not watched")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
