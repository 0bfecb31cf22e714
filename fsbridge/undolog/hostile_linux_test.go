package undolog

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestSC02SymlinkedDirectory replaces a directory by a symlink that leads outside: nothing there changes.
func TestSC02SymlinkedDirectory(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	outside := filepath.Join(w.base, "outside")
	w.ok(os.Mkdir(outside, 0o755))
	w.ok(os.WriteFile(outside+"/f", []byte("theirs"), 0o600))
	w.step(func() { w.ok(w.mkdir("d")); w.ok(w.create("d/f", "ours")) })
	w.step(func() {
		w.ok(w.write("d/f", 0, "OURS"))
		w.ok(w.create("d/g", "new"))
		w.ok(w.chmod("d", 0o700))
	})
	w.ok(os.Rename(w.base+"/work/d", w.base+"/moved"))
	w.ok(os.Symlink(outside, w.base+"/work/d"))
	theirs := treesnap.MustTake(t, outside)
	_, err := w.log.Undo(context.Background(), UndoOptions{Force: true})
	t.Logf("undo: %v", err)
	treesnap.Same(t, "outside", theirs, treesnap.MustTake(t, outside))
}

// TestFewDescriptors undoes the removal of many directories with few
// descriptors.
func TestFewDescriptors(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Limits: Limits{StepBytes: -1}}})
	defer w.close()
	bigTree(w, 3000)
	w.step(func() { w.ok(rmtree(w, "tree")) })
	w.Forget()
	var old unix.Rlimit
	w.ok(unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	fd, err := hostfs.ReopenFD(w.root.FD(), unix.O_RDONLY)
	w.ok(err)
	w.ok(hostfs.Close(fd))
	w.ok(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd) + 64, Max: old.Max}))
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }()
	w.undo(1)
	w.redo(1)
}
