package jail

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
)

// What was to be hidden and is gone when that is done needs no cover.
func TestHiddenGone(t *testing.T) {
	gone := t.TempDir() + "/gone"
	if err := script.Run(0, nil, func(w *script.Writer) {
		v := &viewWriter{Writer: w, plan: &plan{}}
		v.cover(&mount{op: opHideDir, path: gone})
		w.Call("going on", unix.SYS_MKDIRAT, script.Cwd, w.Text(gone), 0o755)
	}); err != nil {
		t.Error(err)
	}
	if !exists(gone) {
		t.Error("it did not go on")
	}
}
