package undolog

import (
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
)

// TestGranuleBeforeSync: where a step shall survive a power failure, a granule
// counts as captured when it is on the disk, and not before: another operation
// on it would go ahead.
func TestGranuleBeforeSync(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Durability: DurabilityPower}})
	defer w.close()
	w.step(func() { w.ok(w.create("f", strings.Repeat("before", 1<<18))) })
	w.begin(w.log.NextID(TypeAPI))
	w.ok(w.write("f", 0, "x"))
	op := &fsbridge.Op{Kind: fsbridge.OpWrite, Node: w.regular("f"), Off: 1 << 19, Len: 3 * fsbridge.ExtentBytes}
	rec := w.log.cur.Load().Journal()
	size := rec.Size()
	release := rec.HoldSync() // a disk that takes its time
	done := make(chan error)
	go func() {
		_, err := w.log.Capture(w.Guard.Epoch(), op)
		done <- err
	}()
	for rec.Size() == size {
		time.Sleep(time.Millisecond)
	}
	for range 50 {
		if w.log.Protected(w.Guard.Epoch(), op) {
			t.Error("captured before it is on the disk")
			break
		}
		time.Sleep(time.Millisecond)
	}
	release()
	w.ok(<-done)
	if !w.log.Protected(w.Guard.Epoch(), op) {
		t.Error("not captured")
	}
	w.commit()
}
