package undolog

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestU14ReadOnlyDisk looks at a log on a disk that is read-only now, and is refused an undo.
func TestU14ReadOnlyDisk(t *testing.T) {
	base := filesystems.Mount(t, filesystems.Tmpfs, nil)
	w := newWorld(t, base, Options{})
	t.Cleanup(func() { w.close() })
	w.step(func() { w.ok(w.create("a", "1")) })
	w.step(func() { w.ok(w.write("a", 0, "2")) })
	before := w.snapshot()
	w.ok(w.log.Close())
	w.ok(unix.Mount("", base, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if _, err := Open(t.Context(), w.opts); !errors.Is(err, ErrUndoDir) || !errors.Is(err, unix.EROFS) {
		t.Errorf("opened to be changed: %v", err)
	}
	w.opts.Looks = true
	w.openLog()
	if h, err := w.log.History(); err != nil || len(h) != 2 {
		t.Errorf("history: %v %v", h, err)
	}
	if d, err := w.log.Step(2); err != nil || len(d.Paths) != 1 {
		t.Errorf("step: %v %v", d, err)
	}
	if _, err := w.log.Undo(t.Context(), UndoOptions{Count: 1}); !errors.Is(err, unix.EROFS) {
		t.Errorf("undone on a read-only disk: %v", err)
	}
	treesnap.Same(t, "refused", before, w.snapshot())
}
