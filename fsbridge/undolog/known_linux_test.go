package undolog

import (
	"fmt"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// TestCommitBesideCompression: steps are closed while older ones are compressed in the background.
// Neither takes from the list what the other has just noted there.
func TestCommitBesideCompression(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Limits: Limits{AdoptedRaw: 1, LogBytes: -1, StepCount: -1}})
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
