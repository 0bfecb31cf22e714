package readonly

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// covered makes a folder with a file in it, and covers it.
func covered(t *testing.T) (dir, folder string, m *Mount) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir, folder = filepath.Join(t.TempDir(), "records"), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "f"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Cover(dir, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(folder, unix.MNT_DETACH) })
	return dir, folder, m
}

func write(folder string) error {
	return os.WriteFile(filepath.Join(folder, "f"), []byte("new"), 0o600)
}

// TestCover: who opens a path in a covered folder cannot change it, who had it open can, and when the cover is off everybody can.
func TestCover(t *testing.T) {
	dir, folder, m := covered(t)
	for what, err := range map[string]error{
		"write": write(folder), "create": os.Mkdir(filepath.Join(folder, "d"), 0o700),
		"remove": os.Remove(filepath.Join(folder, "f")), "chmod": os.Chmod(folder, 0o755),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Rename(folder, folder+".moved"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("rename of the folder: %v", err)
	}
	if _, err := Cover(dir, folder); err == nil {
		t.Error("it was covered twice")
	}
	if found, err := Uncover(dir, folder); found || err != nil {
		t.Errorf("the cover of a living process was taken off: %v, %v", found, err)
	}
	if err := errors.Join(m.TakeOff(), m.TakeOff(), write(folder)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("records left: %v, %v", left, err)
	}
}

// TestCoverKeepsOpen: a descriptor of the folder from before writes as before.
func TestCoverKeepsOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	folder := t.TempDir()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	m, err := Cover(filepath.Join(t.TempDir(), "records"), folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Mkdir("d", 0o700), m.TakeOff()); err != nil {
		t.Error(err)
	}
}

// TestUncover: what a killed process has left is taken off; what is mounted there by others is not.
func TestUncover(t *testing.T) {
	dir, folder, m := covered(t)
	die := func() { // the kernel gives the lock up
		if err := m.record.Close(); err != nil {
			t.Fatal(err)
		}
	}
	die()
	if err := unix.Mount("none", folder, "tmpfs", unix.MS_RDONLY, "size=64k"); err != nil {
		t.Fatal(err)
	}
	if found, err := Uncover(dir, folder); found || err != nil {
		t.Errorf("over another mount: %v, %v", found, err)
	}
	if found, err := Left(dir, folder); found || err != nil {
		t.Errorf("left over another mount: %v, %v", found, err)
	}
	if err := errors.Join(unix.Unmount(folder, 0), unix.Unmount(folder, 0)); err != nil {
		t.Fatal(err)
	}

	var err error
	if m, err = Cover(dir, folder); err != nil {
		t.Fatal(err)
	}
	if found, err := Left(dir, folder); found || err != nil {
		t.Errorf("left by a process that lives: %v, %v", found, err)
	}
	die()
	for range 2 { // a look takes nothing off
		if found, err := Left(dir, folder); !found || err != nil {
			t.Errorf("left: %v, %v", found, err)
		}
	}
	if found, err := Uncover(dir, folder); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := Left(dir, folder); found || err != nil {
		t.Errorf("left after it: %v, %v", found, err)
	}
	if err := write(folder); err != nil {
		t.Error(err)
	}
	if found, err := Uncover(dir, folder); found || err != nil {
		t.Errorf("a second time: %v, %v", found, err)
	}
}

// TestRecords: what is in a record is believed only from a directory of root's alone, and damaged ones uncover nothing.
func TestRecords(t *testing.T) {
	dir, folder, m := covered(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Uncover(dir, folder); err == nil {
		t.Error("records that everybody can write were read")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.record.Truncate(7); err != nil {
		t.Fatal(err)
	}
	_ = m.record.Close()
	if found, err := Uncover(dir, folder); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if err := write(folder); !errors.Is(err, unix.EROFS) {
		t.Errorf("%v", err)
	}
}
