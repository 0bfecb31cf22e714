package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

func opened(t *testing.T, path string) *hostfs.Root {
	t.Helper()
	r, err := hostfs.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// What stands in the log has no device number, and comes back as what it was; also what
// is on file systems that are not there.
func TestU4Volumes(t *testing.T) {
	dir, root := opened(t, t.TempDir()), opened(t, t.TempDir())
	v, err := OpenVolumes(dir, root, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	here := root.ID()
	if id := v.Disk(here); id.Dev != 0 || id.Ino != here.Ino || v.Live(id) != here {
		t.Errorf("the folder is %+v in the log", id)
	}
	if id := (hostfs.ID{}); v.Disk(id) != id || v.Live(id) != id {
		t.Error("no inode became one")
	}
	other := hostfs.ID{Dev: here.Dev + 7, Ino: 3}
	disk := v.Disk(other)
	if disk.Dev < format.OtherVolume || v.Live(disk) != other || v.Disk(other) != disk {
		t.Errorf("another device: %+v in the log", disk)
	}
	again, err := OpenVolumes(dir, root, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if posix.MountEpoch(root.FD()) != "" && again.Live(disk) != other {
		t.Errorf("another device while nothing was mounted: %+v", again.Live(disk))
	}
	// The mount is another one.
	f := &volumeFile{dir: dir, root: root}
	if err := f.read(); err != nil || len(f.table.Others) != 1 {
		t.Fatalf("%+v, %v", f.table, err)
	}
	f.table.Others[0].While = "an earlier boot"
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
	if again, err = OpenVolumes(dir, root, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if id := again.Live(disk); id == other || id.Dev == here.Dev || again.Disk(id) != disk {
		t.Errorf("a device of an earlier mount is taken for %+v", id)
	}
	if next := again.Disk(hostfs.ID{Dev: here.Dev + 8, Ino: 3}); next.Dev == disk.Dev {
		t.Error("a number was given twice")
	}
	for _, text := range []string{"{", `{"others":[{"number":1}]}`} {
		if err := os.WriteFile(filepath.Join(dir.Path(), volumesName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenVolumes(dir, root, slog.New(slog.DiscardHandler)); !errors.Is(err, format.ErrUndoDir) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A log of version 2 has device numbers: those of its folder are known by the steps' records of it.
func TestU4UpgradeFromVersion2(t *testing.T) {
	dir, root := opened(t, t.TempDir()), opened(t, t.TempDir())
	old, err := os.ReadFile(filepath.Join("..", "format", "testdata", "v1", "journal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"steps/1", "wal/rollback.new/target"} {
		if err := os.MkdirAll(filepath.Join(dir.Path(), step), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir.Path(), step, "journal"), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	version := filepath.Join(dir.Path(), "version")
	if err := os.WriteFile(version, []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(CheckVersion(dir), Upgrade(dir)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(version); err != nil || string(b) != "3\n" {
		t.Errorf("version %q, %v", b, err)
	}
	v, err := OpenVolumes(dir, root, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if id := v.Live(hostfs.ID{Dev: 1, Ino: 3}); id != (hostfs.ID{Dev: root.ID().Dev, Ino: 3}) { // as in journal.txt
		t.Errorf("an inode of the folder is %+v", id)
	}
	if id := v.Live(hostfs.ID{Dev: root.ID().Dev + 9, Ino: 3}); id.Dev == root.ID().Dev+9 || id.Dev == root.ID().Dev {
		t.Errorf("an inode of elsewhere is %+v", id)
	}
	if err := Upgrade(dir); err != nil { // there is nothing to do
		t.Error(err)
	}
}
