//go:build linux

package fuse

import (
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/posixmeta"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// makesAll makes one thing of each kind, and does with it what only its owner may.
const makesAll = `
	set -e
	umask 022
	: > file; mkdir dir dir/sub; mkfifo fifo; ln -s target link
	chmod 640 file; chmod 750 dir; chmod 600 fifo; touch -d 2001-01-01 file
	mv file renamed; mv renamed file
	echo x > dir/inner; rm dir/inner`

// owners compares who owns the names on the host.
func owners(t *testing.T, dir string, uid, gid uint32, names ...string) {
	t.Helper()
	for _, name := range names {
		var st unix.Stat_t
		check(t, unix.Lstat(filepath.Join(dir, name), &st))
		if st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d on the host, want %d:%d", name, st.Uid, st.Gid, uid, gid)
		}
	}
}

// TestCreator: where root serves a folder as it is, what another user makes belongs
// to that user, and in a setgid directory to its group, as on any file system.
func TestCreator(t *testing.T) {
	require.Root(t) // to run programs as other users
	m := mount(t, func(o *vfs.Options) { o.Hooks = new(recorder) })
	enter(t, m)
	native := t.TempDir()
	enter(t, &mounted{mnt: filepath.Join(native, "mnt")})
	for name, c := range map[string]struct {
		uid, gid, mode uint32
	}{
		"plain":             {0, 0, 0o777},
		"setgid":            {0, 54321, 0o2777},
		"setgid of root":    {0, 0, 0o2777},
		"its own directory": {12345, 12345, 0o2700},
	} {
		t.Run(name, func(t *testing.T) {
			host, same := filepath.Join(m.host, name), filepath.Join(native, name)
			for _, d := range []string{host, same} {
				check(t, unix.Mkdir(d, 0o700))
				check(t, unix.Chown(d, int(c.uid), int(c.gid)))
				check(t, unix.Chmod(d, c.mode))
			}
			for _, d := range []string{filepath.Join(m.mnt, name), same} {
				check(t, as(12345, d, makesAll))
				check(t, as(0, d, "umask 022; : > root; mkdir rootdir"))
			}
			for _, n := range []string{"file", "dir", "fifo", "link", "dir/sub", "root", "rootdir"} {
				var got, want unix.Stat_t
				check(t, unix.Lstat(filepath.Join(host, n), &got))
				check(t, unix.Lstat(filepath.Join(same, n), &want))
				if got.Uid != want.Uid || got.Gid != want.Gid || got.Mode != want.Mode {
					t.Errorf("%s: %d:%d %o, natively %d:%d %o", n, got.Uid, got.Gid, got.Mode, want.Uid, want.Gid, want.Mode)
				}
			}
		})
	}
}

// TestCreatorGroups: who may make files in a directory only as a member of its group
// may do so, and nobody else gets in.
func TestCreatorGroups(t *testing.T) {
	require.Root(t) // to run programs as other users
	setpriv := require.Program(t, "setpriv", "util-linux")
	m := mount(t, nil)
	enter(t, m)
	check(t, unix.Chown(m.host, 0, 54321))
	check(t, unix.Chmod(m.host, 0o770))
	if err := as(12345, m.mnt, ": > other"); err == nil {
		t.Error("somebody else made a file")
	}
	check(t, as(0, m.mnt, setpriv+` --reuid 12345 --regid 12345 --groups 54321 sh -c '`+makesAll+`'`))
	owners(t, m.host, 12345, 12345, "file", "dir", "fifo", "link")
	check(t, as(0, m.mnt, setpriv+` --regid 777 --clear-groups sh -c ': > group'`))
	owners(t, m.host, 0, 777, "group")
}

// TestCreatorTmpfile: a file that gets its name later.
func TestCreatorTmpfile(t *testing.T) {
	require.Root(t) // to be another user
	m := mount(t, nil)
	enter(t, m)
	check(t, unix.Chmod(m.host, 0o777))
	name := filepath.Join(m.mnt, "tmp")
	check(t, hostfs.CreateAs(12345, 12345, func() error {
		fd, err := unix.Open(m.mnt, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Fchmod(fd, 0o640); err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	}))
	owners(t, m.host, 12345, 12345, "tmp")
}

// TestCreatorPrivileges: nobody gets a program that runs with another's rights this
// way, and no device.
func TestCreatorPrivileges(t *testing.T) {
	require.Root(t) // to run programs as other users
	m := mount(t, nil)
	enter(t, m)
	check(t, unix.Chmod(m.host, 0o777))
	check(t, as(12345, m.mnt, ": > f; chmod 4755 f; : > g; chmod 2755 g"))
	for _, name := range []string{"f", "g"} {
		if mode := hostMode(t, m, name); mode != 0o755 {
			t.Errorf("%s has mode %o", name, mode)
		}
	}
	for name, script := range map[string]string{
		"device": "mknod n c 1 3", "given away": ": > h; chown 0 h",
	} {
		if err := as(12345, m.mnt, script); err == nil {
			t.Errorf("%s: allowed", name)
		}
	}
}

// TestCreatorPosix: where owners are kept beside the files, a creator is kept there.
func TestCreatorPosix(t *testing.T) {
	require.Root(t) // to run programs as other users
	store, err := posixmeta.Open(filepath.Join(t.TempDir(), "meta"), posixmeta.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, store.Close()) })
	m := mount(t, func(o *vfs.Options) {
		o.Posix = posixmeta.NewOverlay(store, func() (int64, bool) { return 0, false })
	})
	enter(t, m)
	check(t, unix.Chmod(m.mnt, 0o777))
	check(t, as(12345, m.mnt, makesAll))
	owners(t, m.mnt, 12345, 12345, "file", "dir", "fifo", "link")
	owners(t, m.host, 0, 0, "file", "dir", "fifo", "link")
}
