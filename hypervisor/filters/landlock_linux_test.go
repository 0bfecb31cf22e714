package filters

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestKnown: a version is asked for what it knows alone, and for all of that.
func TestKnown(t *testing.T) {
	all := uint64(LandlockRead | LandlockWrite | LandlockDevice | LandlockNames | LandlockConnect)
	const refer, truncate, ioctl = unix.LANDLOCK_ACCESS_FS_REFER, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	for version, lacks := range map[int]uint64{
		1: refer | truncate | ioctl | LandlockConnect, 2: truncate | ioctl | LandlockConnect, 3: ioctl | LandlockConnect, 4: ioctl | LandlockConnect, 5: LandlockConnect, 7: LandlockConnect, 8: LandlockConnect, 9: 0, 100: 0,
	} {
		if got := LandlockKnown(version, all); got != all&^lacks {
			t.Errorf("version %d: %#x", version, got)
		}
	}
}

// TestAllow: rules are made for files and directories, with the rights that each can have; sockets, symlinks and what is
// gone are left out.
func TestAllow(t *testing.T) {
	version, err := LandlockVersion()
	if err != nil {
		require.Missing(t, "Landlock ("+err.Error()+")", "a kernel with CONFIG_SECURITY_LANDLOCK")
	}
	r, err := NewRuleset(LandlockSettings{Files: LandlockKnown(version, LandlockRead|LandlockWrite|LandlockNames)})
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
		if ruled, err := r.Allow(path, LandlockRead|LandlockWrite|LandlockNames); ruled != want || err != nil {
			t.Errorf("%s: %v, %v", path, ruled, err)
		}
	}
	for path, want := range map[string]bool{"/dev/null": true, dir: true, file: false, link: false, file + ".gone": false} {
		if ruled, err := r.AllowDevice(path, LandlockWrite); ruled != want || err != nil {
			t.Errorf("device %s: %v, %v", path, ruled, err)
		}
	}
	if ruled, err := r.Allow(file, LandlockNames); ruled || err != nil {
		t.Errorf("names in a file: %v, %v", ruled, err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	knows := version >= LandlockSockets
	r, err = NewRuleset(LandlockSettings{Files: LandlockKnown(version, LandlockRead|LandlockConnect)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for path, want := range map[string]bool{dir: knows, dir + "/socket": knows, file: false, link: false, file + ".gone": false} {
		if ruled, err := r.AllowConnect(path); ruled != want || err != nil {
			t.Errorf("connecting to %s: %v, %v", path, ruled, err)
		}
	}
}
