//go:build linux

package fuse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// hostMode is the mode that a name has on the host.
func hostMode(t *testing.T, m *mounted, name string) uint32 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Lstat(filepath.Join(m.host, name), &st))
	return st.Mode & 0o7777
}

// TestPrivileges: nothing from inside can make a program that runs with the
// starter's rights, nor a device, nor touch labels.
func TestPrivileges(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.Hooks = new(recorder) })
	p := func(n string) string { return filepath.Join(m.mnt, n) }
	check(t, os.WriteFile(p("f"), nil, 0o755))
	check(t, os.Mkdir(p("d"), 0o755))
	fd, err := unix.Open(p("n"), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o6755)
	check(t, errors.Join(err, unix.Close(fd), unix.Chmod(p("f"), 0o6755), unix.Mknod(p("r"), unix.S_IFREG|0o4755, 0)))
	for _, name := range []string{"n", "f", "r"} {
		if mode := hostMode(t, m, name); mode&0o7700 != 0o700 {
			t.Errorf("%s has mode %o", name, mode)
		}
	}
	for name, err := range map[string]error{
		"device":          unix.Mknod(p("c"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		"block device":    unix.Mknod(p("b"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))),
		"security label":  unix.Setxattr(p("f"), "security.label", []byte("x"), 0),
		"trusted":         unix.Setxattr(p("f"), "trusted.x", []byte("x"), 0),
		"remove security": unix.Removexattr(p("f"), "security.label"),
	} {
		if err != unix.EPERM {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}
	check(t, unix.Chmod(p("d"), 0o6775))
	if mode := hostMode(t, m, "d"); mode != 0o6775 {
		t.Errorf("the directory has mode %o", mode)
	}
	check(t, unix.Chmod(p("f"), 0o1644))
	var fs unix.Statfs_t
	check(t, unix.Statfs(m.mnt, &fs))
	if fs.Flags&(unix.ST_NOSUID|unix.ST_NODEV) != unix.ST_NOSUID|unix.ST_NODEV {
		t.Errorf("mount flags %#x lack nosuid or nodev", fs.Flags)
	}
}

// TestKillPriv: a write takes setuid away, as on any file system, also when
// the server may keep it. Who opens the file to write could do so by a mapping, of which the server does not hear.
func TestKillPriv(t *testing.T) {
	require.Root(t) // for an ordinary user it is the kernel's work alone
	m := mount(t, func(o *vfs.Options) { o.Owner = &vfs.Owner{UID: 12345, GID: 12345} })
	enter(t, m)
	for name, do := range map[string]string{
		"write":    "echo x >> f",
		"truncate": ": > f",
		"open":     ": >> f",
		"mode":     "chmod 6755 f; chmod 6711 f",
	} {
		t.Run(name, func(t *testing.T) {
			f := filepath.Join(m.host, "f")
			check(t, os.WriteFile(f, []byte("content"), 0o755))
			check(t, unix.Chmod(f, 0o6755))
			_ = m.Changed([]string{"f"})
			check(t, as(12345, m.mnt, do))
			st, err := os.Stat(f)
			check(t, err)
			if st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("mode %v on the host", st.Mode())
			}
		})
	}
}

// as runs a shell command as another user, in dir. The shell changes there: a
// child that waits for our own server between fork and exec would stop it.
func as(uid uint32, dir, script string) error {
	cmd := exec.Command("sh", "-c", "cd \"$0\" && { "+script+"\n}", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// enter lets other users reach the mount: test folders are private.
func enter(t *testing.T, m *mounted) {
	t.Helper()
	for d := filepath.Dir(m.mnt); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		check(t, os.Chmod(d, 0o755))
	}
}

// TestOwner: the starter's files are the workload's own, what it makes belongs
// to the starter, and nobody else gets in.
func TestOwner(t *testing.T) {
	require.Root(t) // to run programs as other users
	m := mount(t, func(o *vfs.Options) { o.Owner = &vfs.Owner{UID: 12345, GID: 12345}; o.Hooks = new(recorder) })
	enter(t, m)
	check(t, os.WriteFile(filepath.Join(m.host, "private"), []byte("p"), 0o600))
	check(t, as(12345, m.mnt, `
		set -e
		cat private >/dev/null
		[ "$(stat -c %u:%g private)" = 12345:12345 ]
		echo x > made; mkdir dir; touch -d 2001-01-01 made; chmod 600 private
		chown 12345:12345 made
		! chown 0:0 made 2>/dev/null`))
	if err := as(54321, m.mnt, "cat private"); err == nil {
		t.Error("another user read a private file")
	}
	if err := as(54321, m.mnt, "echo > other"); err == nil {
		t.Error("another user wrote")
	}
	for _, name := range []string{"made", "dir"} {
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(m.host, name), &st))
		if int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid() {
			t.Errorf("%s belongs to %d:%d on the host", name, st.Uid, st.Gid)
		}
	}
}

// TestReadOnly refuses everything with EROFS, and symlinks by policy.
func TestReadOnly(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.ReadOnly = true })
	check(t, os.WriteFile(filepath.Join(m.host, "f"), []byte("x"), 0o644))
	p := filepath.Join(m.mnt, "f")
	for name, err := range map[string]error{
		"write":    os.WriteFile(p, nil, 0o644),
		"create":   os.WriteFile(p+"2", nil, 0o644),
		"remove":   os.Remove(p),
		"rename":   os.Rename(p, p+"2"),
		"chmod":    os.Chmod(p, 0o600),
		"mkdir":    os.Mkdir(p+"2", 0o755),
		"truncate": os.Truncate(p, 0),
		"xattr":    unix.Setxattr(p, "user.a", nil, 0),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v, want EROFS", name, err)
		}
	}
	m = mount(t, func(o *vfs.Options) { o.SymlinksReadOnly = true })
	check(t, os.Symlink("target", filepath.Join(m.host, "l")))
	p = filepath.Join(m.mnt, "l")
	for name, err := range map[string]error{
		"make": os.Symlink("x", p+"2"), "remove": os.Remove(p), "rename": os.Rename(p, p+"2"),
		"link": os.Link(p, p+"2"), "chown": os.Lchown(p, os.Geteuid(), os.Getegid()),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("symlink, %s: %v, want EROFS", name, err)
		}
	}
	check(t, os.WriteFile(p+"3", nil, 0o644))
}

// TestPanic: a panicking Interceptor costs one EIO and leaves no guard held.
func TestPanic(t *testing.T) {
	r := &recorder{gate: func(op *fsbridge.Op) error {
		if op.Name == "boom" {
			panic("boom")
		}
		return nil
	}}
	m := mount(t, func(o *vfs.Options) { o.Hooks = r; o.Logger = nil })
	if err := os.Mkdir(filepath.Join(m.mnt, "boom"), 0o755); !errors.Is(err, unix.EIO) {
		t.Errorf("mkdir: %v, want EIO", err)
	}
	check(t, os.Mkdir(filepath.Join(m.mnt, "fine"), 0o755))
	if n := m.InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}
