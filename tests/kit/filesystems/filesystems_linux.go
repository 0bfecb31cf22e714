package filesystems

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// Kind is a kind of file system.
type Kind string

// The kinds. Those of overlayfs begin with a lower layer that has what fill made.
const (
	Ext4           Kind = "ext4"
	XFS            Kind = "xfs"
	Btrfs          Kind = "btrfs"
	Tmpfs          Kind = "tmpfs"
	Overlay        Kind = "overlayfs"
	OverlayIndexed Kind = "overlayfs with index"
	Bindfs         Kind = "bindfs"
	NTFS           Kind = "ntfs-3g"
	// Few kernels have these: tests/suite/filesystems/guest boots one that has.
	NineP Kind = "9p"
	NFS   Kind = "NFS"
	// Casefold is ext4 with directories in which case does not count.
	Casefold Kind = "casefold"
)

// GuestEnv is set inside of a guest that has file systems of the kinds that few kernels have: a directory with a mounted one
// by the name of each kind.
const GuestEnv = "SANDBOX_TEST_FILESYSTEMS"

// All are all kinds that a test can work on here.
func All() []Kind {
	if os.Getenv(GuestEnv) != "" {
		return []Kind{NineP, NFS}
	}
	return []Kind{Ext4, XFS, Btrfs, Tmpfs, Overlay, OverlayIndexed, Bindfs, NTFS}
}

// Mount mounts an empty file system of the kind until the end of the test and returns its directory.
// It needs root. If fill is not nil it is called with a directory of what will be in the file
// system: for most kinds the mounted one, for overlayfs its lower layer.
func Mount(t testing.TB, kind Kind, fill func(dir string)) string {
	t.Helper()
	require.Root(t)
	if kind == NineP || kind == NFS || kind == Casefold {
		return mounted(t, kind, fill)
	}
	base := t.TempDir()
	dir := filepath.Join(base, "m")
	for _, name := range []string{"m", "lower", "upper", "work"} {
		check(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	t.Cleanup(func() { // a server in user space ends when it is unmounted
		if err := unix.Unmount(dir, 0); err != nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	filled := dir
	switch kind {
	case Ext4:
		image(t, base, 64<<20, require.Program(t, "mkfs.ext4", "e2fsprogs"), "-q", "-F", "-I", "256", "-E", "lazy_itable_init=1")
	case XFS:
		image(t, base, 320<<20, require.Program(t, "mkfs.xfs", "xfsprogs"), "-q", "-f")
	case Btrfs:
		image(t, base, 128<<20, require.Program(t, "mkfs.btrfs", "btrfs-progs"), "-q", "-f")
	case NTFS:
		disk(t, base, 64<<20, require.Program(t, "mkfs.ntfs", "ntfs-3g"), "-q", "-F", "-f")
		require.FUSE(t)
		run(t, require.Program(t, "ntfs-3g", "ntfs-3g"), filepath.Join(base, "disk"), dir)
	case Tmpfs:
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=755"))
	case Bindfs:
		require.FUSE(t)
		// It has an inode for each name of a file, and what it says of one may be a second old.
		run(t, require.Program(t, "bindfs", "bindfs"), "-o", "attr_timeout=0,entry_timeout=0", filepath.Join(base, "lower"), dir)
	case Overlay, OverlayIndexed:
		filled = filepath.Join(base, "lower")
	default:
		t.Fatalf("no such kind: %q", kind)
	}
	if fill != nil {
		fill(filled)
	}
	if filled != dir {
		overlay(t, base, kind)
	}
	return dir
}

// mounted is a new directory of a file system that is mounted already.
func mounted(t testing.TB, kind Kind, fill func(dir string)) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(os.Getenv(GuestEnv), string(kind)), "")
	check(t, err)
	check(t, os.Chmod(dir, 0o755))
	if fill != nil {
		fill(dir)
	}
	return dir
}

// overlay mounts an overlay of base/lower at base/m. Its upper layer is on a tmpfs: an overlay
// can be no upper layer of another, and a test may run in a container.
func overlay(t testing.TB, base string, kind Kind) {
	t.Helper()
	layers := filepath.Join(base, "layers")
	check(t, os.Mkdir(layers, 0o755))
	check(t, unix.Mount("tmpfs", layers, "tmpfs", 0, "size=64m,mode=755"))
	t.Cleanup(func() { _ = unix.Unmount(layers, unix.MNT_DETACH) })
	run(t, "cp", "-a", filepath.Join(base, "lower"), layers)
	for _, name := range []string{"upper", "work"} {
		check(t, os.Mkdir(filepath.Join(layers, name), 0o755))
	}
	index := "off"
	if kind == OverlayIndexed {
		index = "on"
	}
	MountOverlay(t, filepath.Join(base, "m"), fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,index=%[2]s", layers, index))
}

// MountOverlay mounts an overlay until the test ends. As long as another test's mount namespace has a copy of one that was
// unmounted just now, its directories are in use: it waits for that.
func MountOverlay(t testing.TB, at, options string) {
	t.Helper()
	err := unix.Mount("overlay", at, "overlay", 0, options)
	for end := time.Now().Add(time.Minute); err == unix.EBUSY && time.Now().Before(end); err = unix.Mount("overlay", at, "overlay", 0, options) {
		time.Sleep(10 * time.Millisecond)
	}
	check(t, err)
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// disk makes a file system in the file base/disk.
func disk(t testing.TB, base string, size int64, mkfs string, args ...string) {
	t.Helper()
	path := filepath.Join(base, "disk")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Truncate(path, size))
	run(t, mkfs, append(args, path)...)
}

// image makes a disk and mounts it at base/m.
func image(t testing.TB, base string, size int64, mkfs string, args ...string) {
	t.Helper()
	disk(t, base, size, mkfs, args...)
	run(t, "mount", "-o", "loop", filepath.Join(base, "disk"), filepath.Join(base, "m"))
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
