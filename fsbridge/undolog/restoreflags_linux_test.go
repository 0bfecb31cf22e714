package undolog

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRestoreFlags: what a restore makes anew has the flags that it had.
func TestRestoreFlags(t *testing.T) {
	const noDump = 0x40
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() {
		w.ok(w.mkdir("d"))
		w.ok(w.create("d/f", "before"))
	})
	flags := func(path string, set int) int {
		f, err := os.Open(filepath.Join(w.base, "work", path))
		w.ok(err)
		defer f.Close()
		if set != 0 {
			w.ok(unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, set))
		}
		has, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		w.ok(err)
		return has & noDump
	}
	flags("d", noDump)
	flags("d/f", noDump)
	step := w.step(func() {
		w.ok(w.unlink("d/f"))
		w.ok(w.rmdir("d"))
	})
	_, err := w.log.Restore(t.Context(), RestoreOptions{Path: "d", Step: step.StepID})
	w.ok(err)
	for _, path := range []string{"d", "d/f"} {
		if flags(path, 0) != noDump {
			t.Errorf("%s has lost its flag", path)
		}
	}
}
