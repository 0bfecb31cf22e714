package undolog

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// TestCommitBesideCompression: steps are closed while older ones are compressed in the background.
// Neither takes from the list what the other has just noted there.
func TestCommitBesideCompression(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Limits: Limits{AdoptedRaw: 1, LogBytes: -1, StepCount: -1}}})
	defer w.close()
	const steps = 60
	w.step(func() {
		for i := range steps {
			w.ok(w.create(fmt.Sprint("f", i), "content"))
		}
	})
	for i := range steps {
		w.step(func() { w.ok(w.unlink(fmt.Sprint("f", i))) })
	}
	defer w.log.still()()
	listed := w.log.stepEntries()
	if len(listed) != steps+1 {
		t.Errorf("%d steps are listed, %d were closed", len(listed), steps+1)
	}
	for _, e := range listed {
		dir, err := w.log.openStepEntry(e)
		w.ok(err)
		kept := store.LoadEntry(dir, e.StepID)
		w.ok(dir.Close())
		if e.Compressed != kept.Compressed || e.StoredBytes != kept.StoredBytes {
			t.Errorf("step %d is listed as compressed %v with %d bytes, and is %v with %d", e.StepID, e.Compressed, e.StoredBytes, kept.Compressed, kept.StoredBytes)
		}
	}
}

// TestKnownChanges: two that change the lists at once lose nothing of each other's, and a reader's list stays as it was.
func TestKnownChanges(t *testing.T) {
	var k known
	const each = 2000
	first := &stepEntry{Entry: Entry{Seq: 1}}
	k.change(func(l *lists) { l.steps = append(l.steps, first) })
	was := k.now()
	var both sync.WaitGroup
	both.Go(func() {
		for i := range each {
			e := &stepEntry{Entry: Entry{Seq: uint64(i + 2)}}
			k.change(func(l *lists) { l.steps = append(l.steps, e) })
		}
	})
	both.Go(func() {
		at := first
		for i := range each {
			next := &stepEntry{Entry: Entry{Seq: 1, StoredBytes: int64(i + 1)}}
			k.change(func(l *lists) {
				l.steps = slices.Clone(l.steps)
				l.steps[slices.Index(l.steps, at)] = next
			})
			at = next
		}
	})
	both.Wait()
	if now := k.now(); len(now.steps) != each+1 || now.steps[0].StoredBytes != each || len(was.steps) != 1 || was.steps[0] != first {
		t.Errorf("%d steps, the first changed %d times; the reader's list has %d", len(now.steps), now.steps[0].StoredBytes, len(was.steps))
	}
}
