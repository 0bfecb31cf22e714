package interceptor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// mountModel does random system calls on a real mount of the folder of a rig,
// in several steps, and moves back and forth between them.
type mountModel struct {
	*rig
	mnt   string
	snaps []*treesnap.Snapshot
	at    int
	open  []int // descriptors
}

// TestModelMounted: after each undo, redo and restore the whole folder is as it
// was, what the mount shows is the same, and nothing looks like an edit from
// outside. The kernel keeps what it was told for as long as it likes.
func TestModelMounted(t *testing.T) {
	m, server := newMountModel(t)
	rapid.Check(t, func(t *rapid.T) {
		defer m.release()
		m.begin(t, server)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			m.round(t)
		}
	})
}

func newMountModel(t *testing.T) (*mountModel, *direct.Mounted) {
	t.Helper()
	require.Mount(t)
	r := newRig(t, nil, nil)
	m := &mountModel{rig: r, mnt: filepath.Join(filepath.Dir(r.dir), "mnt")}
	r.must(os.Mkdir(m.mnt, 0o755))
	root, err := hostfs.OpenRoot(r.dir)
	r.must(err)
	server, err := direct.Mount(m.mnt, vfs.Options{Root: root, Hooks: r.hooks, Cache: vfs.CacheLong,
		OnList: func(string, hostfs.ID) bool { return true }})
	r.must(err)
	t.Cleanup(func() {
		m.release()
		r.must(server.Close())
		<-server.Done()
		r.must(root.Close())
	})
	r.hooks.SetBridge(server)
	m.pollOnce()
	return m, server
}

// pollOnce makes the kernel learn that nobody polls there, before the runtime's
// poller blocks a thread on a file of our own mount.
func (m *mountModel) pollOnce() {
	fd, err := unix.Open(filepath.Join(m.mnt, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	m.must(err)
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
}

func (m *mountModel) release() {
	for _, fd := range m.open {
		_ = unix.Close(fd)
	}
	m.open = nil
}

// begin empties folder and log, whatever the case before left.
func (m *mountModel) begin(t *rapid.T, server *direct.Mounted) {
	if id, open := m.log.Current(); open {
		_ = m.abort(id)
	}
	entries, err := os.ReadDir(m.dir)
	for _, e := range entries {
		p := filepath.Join(m.dir, e.Name())
		_ = filepath.WalkDir(p, func(p string, d fs.DirEntry, _ error) error {
			if d.IsDir() {
				return os.Chmod(p, 0o700)
			}
			return nil
		})
		err = errors.Join(err, os.RemoveAll(p))
	}
	_, gerr := ask(m.rig, func(p *messages.Reply[*undolog.GCResult]) any { return &GC{undolog.GCOptions{Discard: true}, p} })
	if err = errors.Join(err, gerr, server.Invalidate(fsbridge.Changes{All: true})); err != nil {
		t.Fatalf("begin: %v", err)
	}
	m.at, m.snaps = 0, []*treesnap.Snapshot{m.snap()}
}

func (m *mountModel) round(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		t.Logf("DID step after %d", m.at)
		m.step(t)
	}
	if m.at > 0 && rapid.IntRange(0, 2).Draw(t, "restore") == 0 {
		m.restore(t)
	}
	for range rapid.IntRange(0, 4).Draw(t, "moves") {
		k := rapid.IntRange(-m.at, len(m.snaps)-1-m.at).Draw(t, "move")
		t.Logf("DID move %d", k)
		if rapid.IntRange(0, 3).Draw(t, "pack") == 0 {
			_, err := ask(m.rig, func(p *messages.Reply[*undolog.GCResult]) any { return &GC{undolog.GCOptions{CompressAll: true}, p} })
			if err != nil {
				t.Fatalf("pack: %v", err)
			}
		}
		if k == 0 {
			continue
		}
		_, err := ask(m.rig, func(p *messages.Reply[*undolog.ApplyResult]) any {
			if k < 0 {
				return &Undo{undolog.UndoOptions{Count: -k}, p}
			}
			return &Redo{undolog.UndoOptions{Count: k}, p}
		})
		if err != nil {
			t.Fatalf("move %d: %v", k, err)
		}
		m.at += k
		m.compare(t, fmt.Sprintf("move by %d to %d", k, m.at), m.snaps[m.at], nil)
	}
}

func (m *mountModel) step(t *rapid.T) {
	id := m.log.NextID(undolog.TypeCommand)
	m.assign(id)
	for range rapid.IntRange(1, 12).Draw(t, "ops") {
		m.randomOp(t)
	}
	e, err := m.closeStep(id)
	if err != nil {
		t.Fatalf("close step: %v", err)
	}
	if e == nil {
		m.compare(t, "step that changed nothing", m.snaps[m.at], nil)
		m.snaps = m.snaps[:m.at+1+m.log.Status().Redoable]
		return
	}
	m.snaps = append(m.snaps[:m.at+1], m.snap())
	m.at++
	m.compare(t, "mount after a step", m.snaps[m.at], nil)
}

func (m *mountModel) restore(t *rapid.T) {
	history := m.history()
	k := rapid.IntRange(0, m.at-1).Draw(t, "restore to")
	path := m.path(t)
	t.Logf("DID restore %s to %d", path, k)
	step := history[m.at-1-k].StepID // the newest is first
	o := undolog.RestoreOptions{Path: path, Step: step}
	restore := func(p *messages.Reply[*undolog.ApplyResult]) any { return &Restore{o, p} }
	res, err := ask(m.rig, restore)
	if errors.Is(err, undolog.ErrElsewhere) {
		m.compare(t, "refused restore", m.snaps[m.at], nil)
		o.Force = true
		res, err = ask(m.rig, restore)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		m.compare(t, "refused restore", m.snaps[m.at], nil)
		return
	}
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	m.compare(t, "restored", m.snaps[k], func(p string) bool { return p != path && !strings.HasPrefix(p, path+"/") })
	if len(res.Steps) > 0 {
		m.snaps = append(m.snaps[:m.at+1], m.snap())
		m.at++
	}
}

// compare compares the folder, and what the mount shows of it, with want.
func (m *mountModel) compare(t *rapid.T, what string, want *treesnap.Snapshot, exclude func(string) bool) {
	t.Helper()
	o := treesnap.Options{IgnoreLinks: true, Exclude: exclude}
	unlinked := func(d []string) []string {
		return slices.DeleteFunc(d, func(l string) bool { return strings.Contains(l, ": hard link of ") })
	}
	d := treesnap.Diff(want, m.snap(), o)
	if exclude != nil { // a path is restored; other names of its files are not
		d = unlinked(d)
	}
	if len(d) > 0 {
		t.Fatalf("%s:\n%s", what, strings.Join(d, "\n"))
	}
	shown, err := treesnap.Take(m.mnt)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	d = treesnap.Diff(want, shown, o)
	if exclude != nil {
		d = unlinked(d)
	}
	for path, e := range shown.Entries {
		if e.Links != 0 { // all names of a file are in the folder
			d = append(d, fmt.Sprintf("%q: has %d links that are not to be seen", path, e.Links))
		}
	}
	if len(d) > 0 {
		t.Fatalf("%s, as the mount shows it:\n%s", what, strings.Join(d, "\n"))
	}
}

// path draws a path of the folder, every second one that is there.
func (m *mountModel) path(t *rapid.T) string {
	if rapid.Bool().Draw(t, "there") {
		var there []string
		_ = filepath.WalkDir(m.dir, func(p string, _ fs.DirEntry, _ error) error {
			if p != m.dir {
				there = append(there, p[len(m.dir)+1:])
			}
			return nil
		})
		if len(there) > 0 {
			return rapid.SampledFrom(there).Draw(t, "path")
		}
	}
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	p := name.Draw(t, "name")
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "depth") {
		p += "/" + name.Draw(t, "name")
	}
	return p
}

// randomOp does one random system call on the mount; that it fails is fine. None maps
// a file: this process serves the mount, and a munmap that waits for an answer keeps
// the memory locked that the server may need for it.
func (m *mountModel) randomOp(t *rapid.T) {
	rel := m.path(t)
	p, other := filepath.Join(m.mnt, rel), ""
	second := func() string { other = m.path(t); return filepath.Join(m.mnt, other) }
	data := func() []byte {
		b := make([]byte, rapid.SampledFrom([]int{1, 5, 300, 70000}).Draw(t, "len"))
		b[0] = byte(rapid.IntRange('0', '9').Draw(t, "data"))
		return b
	}
	off := func() int64 { return rapid.SampledFrom([]int64{0, 3, 100, 65536, 200000}).Draw(t, "off") }
	var err error
	op := rapid.SampledFrom([]string{
		"create", "create", "write", "write", "append", "truncate", "chmod", "rename", "rename", "exchange", "noreplace", "unlink", "unlink",
		"mkdir", "mkdir", "rmdir", "rmtree", "symlink", "link", "link", "linkover", "xattr", "rmxattr", "fifo", "punch", "fallocate", "tmpfile",
		"hold", "poke", "poke", "utimes",
	}).Draw(t, "op")
	switch op {
	case "create":
		err = m.with(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(fd int) error { return hostfs.PwriteFull(fd, data(), 0) })
	case "write":
		err = m.with(p, unix.O_WRONLY, func(fd int) error { return hostfs.PwriteFull(fd, data(), off()) })
	case "append":
		err = m.with(p, unix.O_WRONLY|unix.O_APPEND, func(fd int) error { _, err := unix.Write(fd, data()); return err })
	case "truncate":
		size := rapid.SampledFrom([]int64{0, 1, 5, 66000, 300000}).Draw(t, "size")
		err = m.with(p, unix.O_WRONLY, func(fd int) error { return unix.Ftruncate(fd, size) })
	case "chmod":
		mode := rapid.SampledFrom([]uint32{0o755, 0o644, 0o4755, 0o2700, 0o1777, 0o400}).Draw(t, "mode")
		err = unix.Fchmodat(unix.AT_FDCWD, p, mode, unix.AT_SYMLINK_NOFOLLOW)
	case "rename":
		err = unix.Rename(p, second())
	case "exchange":
		err = unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, second(), unix.RENAME_EXCHANGE)
	case "noreplace":
		err = unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, second(), unix.RENAME_NOREPLACE)
	case "unlink":
		err = unix.Unlink(p)
	case "mkdir":
		err = unix.Mkdir(p, 0o755)
	case "rmdir":
		err = unix.Rmdir(p)
	case "rmtree":
		if _, err = os.Lstat(p); err == nil { // else RemoveAll opens the parent, which may be a FIFO
			err = os.RemoveAll(p)
		}
	case "symlink":
		err = unix.Symlink("../"+m.path(t), p)
	case "link":
		err = unix.Link(p, second())
	case "linkover": // as ln -f does
		if err = unix.Link(p, filepath.Join(m.mnt, "e")); err == nil {
			err = unix.Rename(filepath.Join(m.mnt, "e"), second())
			_ = unix.Unlink(filepath.Join(m.mnt, "e")) // if it is there still
		}
	case "xattr":
		err = unix.Lsetxattr(p, "user.a", []byte{byte(rapid.IntRange('0', '5').Draw(t, "value"))}, 0)
	case "rmxattr":
		err = unix.Lremovexattr(p, "user.a")
	case "fifo":
		err = unix.Mkfifo(p, 0o600)
	case "punch":
		err = m.with(p, unix.O_WRONLY, func(fd int) error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off(), 4096)
		})
	case "fallocate":
		err = m.with(p, unix.O_WRONLY, func(fd int) error { return unix.Fallocate(fd, 0, off(), 5000) })
	case "tmpfile":
		err = m.with(m.mnt, unix.O_RDWR|unix.O_TMPFILE, func(fd int) error {
			if err := hostfs.PwriteFull(fd, data(), 0); err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, p, unix.AT_SYMLINK_FOLLOW)
		})
	case "hold":
		var fd int
		if fd, err = m.file(p, unix.O_RDWR); err == nil {
			if m.open = append(m.open, fd); len(m.open) > 4 {
				_ = unix.Close(m.open[0])
				m.open = m.open[1:]
			}
		}
	case "poke":
		if err = unix.EBADF; len(m.open) > 0 {
			err = hostfs.PwriteFull(rapid.SampledFrom(m.open).Draw(t, "handle"), data(), off())
		}
	case "utimes":
		ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(int64(rapid.IntRange(1, 1<<40).Draw(t, "mtime")))}
		err = unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		t.Logf("DID %s %s %s", op, rel, other)
	}
	if errors.Is(err, unix.EIO) {
		t.Fatalf("%s %s %s: %v", op, rel, other, err)
	}
}

// file opens what is a regular file.
func (m *mountModel) file(p string, flags int) (int, error) {
	fd, err := unix.Open(p, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (m *mountModel) with(p string, flags int, f func(fd int) error) error {
	fd, err := m.file(p, flags)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}
