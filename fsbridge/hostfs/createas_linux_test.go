package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestCreateAs: the file is the other user's, in a directory of ours, and the thread is
// afterwards what it was, whatever became of it.
func TestCreateAs(t *testing.T) {
	require.Root(t) // to make a file of another user
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before, after [2]unix.CapUserData
	if err := unix.Capget(&hdr, &before[0]); err != nil {
		t.Fatal(err)
	}
	dir, failure := t.TempDir(), errors.New("failure")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{nil, failure} {
		name := filepath.Join(dir, "made")
		err := hostfs.CreateAs(12345, 54321, func() error {
			if err := os.Mkdir(name, 0o755); err != nil {
				return err
			}
			if err := unix.Chmod(dir, 0o755); !errors.Is(err, unix.EPERM) {
				t.Errorf("what is not making a file: %v, want EPERM", err)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		var st unix.Stat_t
		if err := errors.Join(unix.Stat(name, &st), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
		if st.Uid != 12345 || st.Gid != 54321 {
			t.Errorf("it belongs to %d:%d", st.Uid, st.Gid)
		}
		uid, _ := unix.SetfsuidRetUid(-1)
		gid, _ := unix.SetfsgidRetGid(-1)
		if uid != 0 || gid != os.Getegid() {
			t.Errorf("the thread is %d:%d now", uid, gid)
		}
		if err := unix.Capget(&hdr, &after[0]); err != nil {
			t.Fatal(err)
		}
		if after != before {
			t.Errorf("the thread has the rights %+v, had %+v", after, before)
		}
	}
}
