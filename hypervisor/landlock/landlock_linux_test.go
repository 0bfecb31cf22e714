package landlock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestKnown: a version is asked for what it knows alone, and for all of that.
func TestKnown(t *testing.T) {
	all := uint64(Read | Write | Device | Names)
	const refer, truncate, ioctl = unix.LANDLOCK_ACCESS_FS_REFER, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	for version, lacks := range map[int]uint64{1: refer | truncate | ioctl, 2: truncate | ioctl, 3: ioctl, 4: ioctl, 5: 0, 7: 0, 100: 0} {
		if got := Known(version, all); got != all&^lacks {
			t.Errorf("version %d: %#x", version, got)
		}
	}
}

// TestAllow: rules are made for files and directories, with the rights that each can have; sockets, symlinks and what is
// gone are left out.
func TestAllow(t *testing.T) {
	version, err := Version()
	if err != nil {
		require.Missing(t, "Landlock ("+err.Error()+")", "a kernel with CONFIG_SECURITY_LANDLOCK")
	}
	r, err := New(Settings{Files: Known(version, Read|Write|Names)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, file: true, link: false, file + ".gone": false} {
		if ruled, err := r.Allow(path, Read|Write|Names); ruled != want || err != nil {
			t.Errorf("%s: %v, %v", path, ruled, err)
		}
	}
	for path, want := range map[string]bool{"/dev/null": true, dir: true, file: false, link: false, file + ".gone": false} {
		if ruled, err := r.AllowDevice(path, Write); ruled != want || err != nil {
			t.Errorf("device %s: %v, %v", path, ruled, err)
		}
	}
	if ruled, err := r.Allow(file, Names); ruled || err != nil {
		t.Errorf("names in a file: %v, %v", ruled, err)
	}
}
