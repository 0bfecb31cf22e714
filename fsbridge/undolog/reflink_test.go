package undolog

import (
	"context"
	"os"
	"strings"
	"testing"
)

// TestReflinkOfCutFile: somebody outside cuts a file between the record of its
// size and the capture of its content. What is missing counts as a hole, also in
// a reflink, and does not keep the step from being rolled back.
func TestReflinkOfCutFile(t *testing.T) {
	w := newWorld(t, t.TempDir(), Options{})
	defer w.close()
	before := strings.Repeat("before..", 1<<17)
	w.step(func() { w.ok(w.create("f", before)) })
	w.begin(w.log.NextID(TypeAPI))
	w.ok(w.chmod("f", 0o600))
	w.ok(os.Truncate(w.base+"/work/f", 300<<10))
	w.ok(w.truncate("f", 0))
	if _, err := w.log.Abort(context.Background()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(w.base + "/work/f")
	if want := before[:300<<10] + strings.Repeat("\x00", len(before)-300<<10); err != nil || string(got) != want {
		t.Errorf("%d bytes instead of %d: %v", len(got), len(want), err)
	}
}
