package fulldisk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// Disk is a mounted file system of 256 KiB.
type Disk struct {
	Dir string
	t   testing.TB
}

// New mounts one until the end of the test. It needs root.
func New(t testing.TB) *Disk {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return &Disk{Dir: dir, t: t}
}

func (d *Disk) ballast() string { return filepath.Join(d.Dir, ".ballast") }

// Fill takes all that is free, until Free.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			d.t.Fatal(err)
		}
	}
}

// Free gives back what Fill took.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
}
