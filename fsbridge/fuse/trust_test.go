//go:build linux

package fuse

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestPrivileges: nothing from inside can make a program that runs with the
// starter's rights, nor a device, nor touch labels.
func TestPrivileges(t *testing.T) {
	m := mount(t, func(o *Options) { o.Hooks = new(recorder) })
	p := func(n string) string { return filepath.Join(m.mnt, n) }
	check(t, os.WriteFile(p("f"), nil, 0o755))
	check(t, os.Mkdir(p("d"), 0o755))
	create := func(mode uint32) error {
		fd, err := unix.Open(p("n"), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, mode)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	for name, err := range map[string]error{
		"chmod u+s":       unix.Chmod(p("f"), 0o4755),
		"chmod g+s":       unix.Chmod(p("f"), 0o2755),
		"create u+s":      create(0o4755),
		"mknod u+s":       unix.Mknod(p("n"), unix.S_IFREG|0o4755, 0),
		"device":          unix.Mknod(p("n"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		"block device":    unix.Mknod(p("n"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))),
		"security label":  unix.Setxattr(p("f"), "security.label", []byte("x"), 0),
		"trusted":         unix.Setxattr(p("f"), "trusted.x", []byte("x"), 0),
		"remove security": unix.Removexattr(p("f"), "security.label"),
	} {
		if err != unix.EPERM {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}
	check(t, unix.Chmod(p("d"), 0o2775))
	check(t, unix.Chmod(p("f"), 0o1644))
	var fs unix.Statfs_t
	check(t, unix.Statfs(m.mnt, &fs))
	if fs.Flags&(unix.ST_NOSUID|unix.ST_NODEV) != unix.ST_NOSUID|unix.ST_NODEV {
		t.Errorf("mount flags %#x lack nosuid or nodev", fs.Flags)
	}
}

// TestKillPriv: a write takes setuid away, as on any file system, also when
// the server may keep it.
func TestKillPriv(t *testing.T) {
	require.Root(t) // for an ordinary user it is the kernel's work alone
	m := mount(t, func(o *Options) { o.Owner = &Owner{UID: 12345, GID: 12345} })
	enter(t, m)
	for name, do := range map[string]string{
		"write":    "echo x >> f",
		"truncate": ": > f",
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
	m := mount(t, func(o *Options) { o.Owner = &Owner{UID: 12345, GID: 12345}; o.Hooks = new(recorder) })
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
	m := mount(t, func(o *Options) { o.ReadOnly = true })
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
	m = mount(t, func(o *Options) { o.SymlinksReadOnly = true })
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

// TestHostileRequests sends what no kernel would: unknown and stale numbers,
// names that are paths, offsets beyond the end of the world. Each is an error,
// and nothing outside the folder is touched.
func TestHostileRequests(t *testing.T) {
	base := t.TempDir()
	host := filepath.Join(base, "host")
	check(t, os.Mkdir(host, 0o755))
	check(t, os.WriteFile(filepath.Join(base, "outside"), []byte("x"), 0o644))
	check(t, os.WriteFile(filepath.Join(host, "f"), []byte("content"), 0o644))
	check(t, os.Symlink("..", filepath.Join(host, "up")))
	root, err := hostfs.OpenRoot(host)
	check(t, err)
	defer root.Close()
	tree, err := NewTree(Options{Root: root, Hooks: new(recorder)})
	check(t, err)
	defer tree.OnUnmount()

	at := func(id uint64) fuse.InHeader { return fuse.InHeader{NodeId: id} }
	bad := func(what string, s fuse.Status) {
		t.Helper()
		if s.Ok() || s == fuse.ENOSYS {
			t.Errorf("%s: %v", what, s)
		}
	}
	names := []string{"", ".", "..", "../outside", "/etc/passwd", "a/b", "f\x00g", strings.Repeat("n", 256)}
	for _, name := range names {
		h := at(1)
		bad("lookup "+name, tree.Lookup(nil, &h, name, new(fuse.EntryOut)))
		bad("unlink "+name, tree.Unlink(nil, &h, name))
		bad("rmdir "+name, tree.Rmdir(nil, &h, name))
		bad("mkdir "+name, tree.Mkdir(nil, &fuse.MkdirIn{InHeader: h, Mode: 0o755}, name, new(fuse.EntryOut)))
		bad("mknod "+name, tree.Mknod(nil, &fuse.MknodIn{InHeader: h, Mode: unix.S_IFREG}, name, new(fuse.EntryOut)))
		bad("symlink "+name, tree.Symlink(nil, &h, "target", name, new(fuse.EntryOut)))
		bad("create "+name, tree.Create(nil, &fuse.CreateIn{InHeader: h, Mode: 0o644, Flags: unix.O_WRONLY}, name, new(fuse.CreateOut)))
		bad("rename from "+name, tree.Rename(nil, &fuse.RenameIn{InHeader: h, Newdir: 1}, name, "g"))
		bad("rename to "+name, tree.Rename(nil, &fuse.RenameIn{InHeader: h, Newdir: 1}, "f", name))
	}
	var f, up fuse.EntryOut
	h := at(1)
	check(t, statusError(tree.Lookup(nil, &h, "f", &f)))
	check(t, statusError(tree.Lookup(nil, &h, "up", &up)))
	h = at(up.NodeId)
	bad("lookup below a symlink", tree.Lookup(nil, &h, "outside", new(fuse.EntryOut)))
	bad("open of a symlink", tree.Open(nil, &fuse.OpenIn{InHeader: h, Flags: unix.O_RDWR}, new(fuse.OpenOut)))
	for _, id := range []uint64{0, 2, 7<<32 | 1, 1<<32 | 1<<31, f.NodeId + 1, f.NodeId + 5<<32, math.MaxUint64} {
		h := at(id)
		bad("getattr", tree.GetAttr(nil, &fuse.GetAttrIn{InHeader: h}, new(fuse.AttrOut)))
		bad("lookup", tree.Lookup(nil, &h, "f", new(fuse.EntryOut)))
		bad("open", tree.Open(nil, &fuse.OpenIn{InHeader: h}, new(fuse.OpenOut)))
		bad("readdir", tree.ReadDir(nil, &fuse.ReadIn{InHeader: h, Size: 4096}, fuse.NewDirEntryList(make([]byte, 4096), 0)))
		bad("link", tree.Link(nil, &fuse.LinkIn{InHeader: at(1), Oldnodeid: id}, "g", new(fuse.EntryOut)))
		bad("setattr", tree.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: h, Valid: fuse.FATTR_MODE}}, new(fuse.AttrOut)))
		bad("setxattr", tree.SetXAttr(nil, &fuse.SetXAttrIn{InHeader: h}, "user.a", nil))
		_, s := tree.Readlink(nil, &h)
		bad("readlink", s)
		tree.Forget(id, math.MaxUint64)
	}
	var o fuse.OpenOut
	check(t, statusError(tree.Open(nil, &fuse.OpenIn{InHeader: at(f.NodeId), Flags: unix.O_RDWR}, &o)))
	write := func(node, fh, off uint64) fuse.Status {
		_, s := tree.Writev(nil, &fuse.WriteIn{InHeader: at(node), Fh: fh, Offset: off}, [][]byte{{1}})
		return s
	}
	bad("write with another's handle", write(1, o.Fh, 0))
	bad("write at the end of the world", write(f.NodeId, o.Fh, math.MaxInt64))
	bad("write beyond it", write(f.NodeId, o.Fh, math.MaxUint64))
	bad("write to no handle", write(f.NodeId, o.Fh+1, 0))
	bad("fallocate beyond", tree.Fallocate(nil, &fuse.FallocateIn{InHeader: at(f.NodeId), Fh: o.Fh, Offset: 1 << 62, Length: 1 << 62}))
	bad("fallocate oddly", tree.Fallocate(nil, &fuse.FallocateIn{InHeader: at(f.NodeId), Fh: o.Fh, Length: 1, Mode: 1 << 20}))
	_, s := tree.Read(nil, &fuse.ReadIn{InHeader: at(f.NodeId), Fh: o.Fh, Offset: math.MaxUint64, Size: 1}, make([]byte, 1))
	bad("read beyond", s)
	_, s = tree.CopyFileRange(nil, &fuse.CopyFileRangeIn{InHeader: at(f.NodeId), FhIn: o.Fh, NodeIdOut: f.NodeId, FhOut: o.Fh, OffOut: math.MaxUint64, Len: math.MaxUint64})
	bad("copy beyond", s)
	bad("truncate beyond", tree.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{
		InHeader: at(f.NodeId), Valid: fuse.FATTR_SIZE, Size: math.MaxUint64}}, new(fuse.AttrOut)))
	bad("rename with odd flags", tree.Rename(nil, &fuse.RenameIn{InHeader: at(1), Newdir: 1, Flags: 1 << 10}, "f", "g"))
	tree.Release(nil, &fuse.ReleaseIn{InHeader: at(f.NodeId), Fh: o.Fh})
	tree.Release(nil, &fuse.ReleaseIn{InHeader: at(f.NodeId), Fh: o.Fh})
	bad("write after release", write(f.NodeId, o.Fh, 0))
	tree.Forget(f.NodeId, 1)
	h = at(f.NodeId)
	bad("getattr after forget", tree.GetAttr(nil, &fuse.GetAttrIn{InHeader: h}, new(fuse.AttrOut)))
	if got := listed(t, base); len(got) != 2 || len(listed(t, host)) != 2 {
		t.Errorf("something was made: %q, %q", got, listed(t, host))
	}
	if tree.InFlight() != 0 {
		t.Errorf("%d requests in flight", tree.InFlight())
	}
}

func statusError(s fuse.Status) error {
	if s.Ok() {
		return nil
	}
	return syscall.Errno(s)
}

// TestReleaseWhileReading: a guest that releases a handle during a large read
// of it never reads another file's bytes.
func TestReleaseWhileReading(t *testing.T) {
	host := t.TempDir()
	check(t, os.WriteFile(filepath.Join(host, "f"), make([]byte, 1<<20), 0o644))
	root, err := hostfs.OpenRoot(host)
	check(t, err)
	defer root.Close()
	tree, err := NewTree(Options{Root: root})
	check(t, err)
	defer tree.OnUnmount()
	var e fuse.EntryOut
	var o fuse.OpenOut
	check(t, statusError(tree.Lookup(nil, &fuse.InHeader{NodeId: 1}, "f", &e)))
	check(t, statusError(tree.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: e.NodeId}}, &o)))
	r, s := tree.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: e.NodeId}, Fh: o.Fh, Size: 1 << 20}, make([]byte, 1<<20))
	check(t, statusError(s))
	fd, _, _ := r.(*fileResult).Seekable()
	tree.Release(nil, &fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: e.NodeId}, Fh: o.Fh})
	if _, err := hostfs.StatFD(int(fd)); err != nil {
		t.Errorf("the descriptor was closed under the read: %v", err)
	}
	r.Done()
	if _, err := hostfs.StatFD(int(fd)); err == nil {
		t.Error("the descriptor leaked")
	}
}

// noHooks is an Interceptor that costs nothing.
type noHooks struct{ guard fsbridge.Guard }

func (h *noHooks) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	return h.guard.Enter(op.Node.ID.Ino), nil
}

func (h *noHooks) End(t fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	h.guard.Exit(t)
}

// TestWriteAllocates: a write to a file that is protected allocates nothing.
func TestWriteAllocates(t *testing.T) {
	host := t.TempDir()
	check(t, os.WriteFile(filepath.Join(host, "f"), nil, 0o644))
	root, err := hostfs.OpenRoot(host)
	check(t, err)
	defer root.Close()
	tree, err := NewTree(Options{Root: root, Hooks: new(noHooks)})
	check(t, err)
	defer tree.OnUnmount()
	var e fuse.EntryOut
	var o fuse.OpenOut
	check(t, statusError(tree.Lookup(nil, &fuse.InHeader{NodeId: 1}, "f", &e)))
	check(t, statusError(tree.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: e.NodeId}, Flags: unix.O_RDWR}, &o)))
	in := &fuse.WriteIn{InHeader: fuse.InHeader{NodeId: e.NodeId}, Fh: o.Fh}
	data := [][]byte{[]byte("some bytes")}
	allocs := testing.AllocsPerRun(1000, func() {
		if _, s := tree.Writev(nil, in, data); !s.Ok() {
			t.Fatal(s)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per write", allocs)
	}
}

// TestPanic: a panicking Interceptor costs one EIO and leaves no guard held.
func TestPanic(t *testing.T) {
	r := &recorder{gate: func(op *fsbridge.Op) error {
		if op.Name == "boom" {
			panic("boom")
		}
		return nil
	}}
	m := mount(t, func(o *Options) { o.Hooks = r; o.Logger = nil })
	if err := os.Mkdir(filepath.Join(m.mnt, "boom"), 0o755); !errors.Is(err, unix.EIO) {
		t.Errorf("mkdir: %v, want EIO", err)
	}
	check(t, os.Mkdir(filepath.Join(m.mnt, "fine"), 0o755))
	if n := m.InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}
