package watcher

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/supervision"
)

// TestStopForgets: after Stop the kernel holds no watch of ours, so that Close, which comes when the rest
// has ended, need not wait for the kernel.
func TestStopForgets(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := New(Options{Root: root, Clock: supervision.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	fd := w.src.(*inotify).fd
	idAt := func(dir string) hostfs.ID {
		fi, err := os.Lstat(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		return idOf(fi)
	}
	watches := func() int {
		info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(info), "inotify wd:")
	}
	for _, dir := range []string{".", "d"} {
		if !w.Watch(dir, idAt(dir)) {
			t.Fatal(dir, "is not watched")
		}
	}
	if n := watches(); n != 2 {
		t.Fatal(n, "watches, want 2")
	}
	w.Stop()
	w.Stop()
	if n := watches(); n != 0 {
		t.Error(n, "watches after Stop")
	}
	if w.Watch(".", idAt(".")) {
		t.Error("watched after Stop")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.src.Close(); !errors.Is(err, os.ErrClosed) {
		t.Error("the second Close returned", err)
	}
}
