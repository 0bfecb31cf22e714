package qemu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func testDisk(t *testing.T) Disk {
	t.Helper()
	return Disk{Path: filepath.Join(t.TempDir(), "machines", "m", "disk.raw"), Bytes: MinDiskBytes}
}

// Of several who open a disk that is not there yet one gets it; it is sparse, for
// its user only, and the others are told who is in their way.
func TestDiskIsOnes(t *testing.T) {
	d := testDisk(t)
	var wg sync.WaitGroup
	files, errs := make([]*os.File, 4), make([]error, 4)
	for i := range files {
		wg.Go(func() { files[i], errs[i] = d.Open(t.Context()) })
	}
	wg.Wait()
	var owner *os.File
	for i, f := range files {
		switch {
		case errs[i] == nil && owner == nil:
			owner = f
			defer f.Close()
		case errs[i] == nil:
			t.Error("two have the disk")
		case !errors.Is(errs[i], ErrDiskInUse) || !strings.Contains(errs[i].Error(), d.Path):
			t.Error(errs[i])
		}
	}
	if owner == nil {
		t.Fatal("nobody has the disk")
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(owner.Fd()), &st); err != nil || st.Size != d.Bytes || st.Blocks*512 > d.Bytes/4 || st.Mode&0o777 != 0o600 {
		t.Errorf("%+v, %v", st, err)
	}
	magic := make([]byte, 2)
	if _, err := owner.ReadAt(magic, 1024+56); err != nil || string(magic) != "\x53\xef" {
		t.Errorf("no ext4: % x, %v", magic, err)
	}
	if left, err := os.ReadDir(filepath.Dir(d.Path)); err != nil || len(left) != 1 {
		t.Errorf("beside the disk: %v, %v", left, err)
	}
	if err := d.Wipe(t.Context()); !errors.Is(err, ErrDiskInUse) {
		t.Errorf("wiped under its owner: %v", err)
	}
}

// A new disk is a whole file system, as e2fsprogs sees it.
func TestDiskIsWhole(t *testing.T) {
	e2fsck := require.Program(t, "e2fsck", "e2fsprogs")
	d := testDisk(t)
	d.Bytes = 1 << 30
	f, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if out, err := exec.Command(e2fsck, "-fn", d.Path).CombinedOutput(); err != nil || !strings.Contains(string(out), "/16384 blocks") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What was written is there the next time, until it is wiped; then nothing is
// left, and wiping that is no error.
func TestDiskLasts(t *testing.T) {
	d := testDisk(t)
	const at = 32 << 20
	for i, want := range []string{"\x00", "x", "\x00"} {
		f, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil || string(b) != want {
			t.Errorf("%d: read %q, %v", i, b, err)
		}
		if _, err := f.WriteAt([]byte("x"), at); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if i != 1 {
			continue
		}
		if err := errors.Join(d.Wipe(t.Context()), d.Wipe(t.Context())); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Dir(d.Path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left after wiping: %v", err)
		}
	}
}

// What is no disk is not taken for one, and a disk that cannot be made says why.
func TestDiskRefused(t *testing.T) {
	d := testDisk(t)
	small := d
	small.Bytes = 1 << 20
	if _, err := small.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	for what, make := range map[string]func() error{
		"a link":      func() error { return os.Symlink("/dev/null", d.Path) },
		"a directory": func() error { return os.Mkdir(d.Path, 0o700) },
		"a pipe":      func() error { return unix.Mkfifo(d.Path, 0o600) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if f, err := d.Open(t.Context()); err == nil {
			t.Errorf("%s was taken", what)
			f.Close()
		}
		if err := os.Remove(d.Path); err != nil {
			t.Error(err)
		}
	}
}

// A machine has its disk's lock for as long as it runs, and a runtime without a
// disk has nothing to wipe.
func TestDiskOfMachine(t *testing.T) {
	d := testDisk(t)
	o := fakeOptions(t, "works")
	o.Disk = d
	var w hypervisor.Wiper = New(o)
	g, err := boot(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Wipe(t.Context()); !errors.Is(err, ErrDiskInUse) {
		t.Errorf("wiped while the machine runs: %v", err)
	}
	if f := g.Facts(); f["mode"] != "persistent" || f["disk"] != d.Path {
		t.Errorf("facts: %v", f)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Wipe(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after wiping: %v", err)
	}
	o.Disk = Disk{}
	if err := New(o).Wipe(t.Context()); err != nil {
		t.Error(err)
	}
}
