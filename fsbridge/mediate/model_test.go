//go:build linux

package mediate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// act is one thing that the workload does: what, where, and with what.
type act struct {
	What, Path, Other string
	Data              []byte
	Off               int64
	Number            int
}

// modelWork does what the test says, one line each, and answers "ok" or an error.
func modelWork(w *workload) {
	m := &actor{}
	for {
		var a act
		if json.Unmarshal([]byte(w.hear()), &a) != nil {
			return
		}
		if err := m.do(&a); err != nil {
			w.say("%v", err)
		} else {
			w.say("ok")
		}
	}
}

// actor keeps descriptors and mappings from one act to the next.
type actor struct {
	open []int
	maps [][]byte
}

const modelMapped = 4096

func (m *actor) do(a *act) error {
	const at = unix.AT_FDCWD
	write := func(fd int) error { _, err := unix.Pwrite(fd, a.Data, a.Off); return err }
	switch a.What {
	case "create":
		return m.with(a.Path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, write)
	case "write":
		return m.with(a.Path, unix.O_WRONLY, write)
	case "replace":
		return m.with(a.Path, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, write)
	case "append":
		return m.with(a.Path, unix.O_WRONLY|unix.O_APPEND, func(fd int) error { _, err := unix.Write(fd, a.Data); return err })
	case "truncate":
		return unix.Truncate(a.Path, a.Off)
	case "punch":
		return m.with(a.Path, unix.O_WRONLY, func(fd int) error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, a.Off, 4096)
		})
	case "chmod":
		return unix.Fchmodat(at, a.Path, uint32(a.Number), 0)
	case "utimes":
		ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: int64(a.Number)}}
		return unix.UtimesNanoAt(at, a.Path, ts, unix.AT_SYMLINK_NOFOLLOW)
	case "rename":
		return unix.Renameat2(at, a.Path, at, a.Other, uint(a.Number))
	case "link":
		return unix.Link(a.Path, a.Other)
	case "symlink":
		return unix.Symlink(a.Other, a.Path)
	case "unlink":
		return unix.Unlink(a.Path)
	case "mkdir":
		return unix.Mkdir(a.Path, 0o755)
	case "rmdir":
		return unix.Rmdir(a.Path)
	case "rmtree":
		if _, err := os.Lstat(a.Path); err != nil {
			return err
		}
		return os.RemoveAll(a.Path)
	case "fifo":
		return unix.Mkfifo(a.Path, 0o600)
	case "xattr":
		return unix.Lsetxattr(a.Path, "user.a", a.Data[:1], 0)
	case "rmxattr":
		return unix.Lremovexattr(a.Path, "user.a")
	case "tmpfile":
		return m.with(".", unix.O_RDWR|unix.O_TMPFILE, func(fd int) error {
			return errors.Join(write(fd), unix.Linkat(at, fmt.Sprintf("/proc/self/fd/%d", fd), at, a.Path, unix.AT_SYMLINK_FOLLOW))
		})
	}
	return m.late(a, write)
}

// late are acts by what was opened before.
func (m *actor) late(a *act, write func(fd int) error) error {
	switch a.What {
	case "hold":
		fd, err := m.file(a.Path, unix.O_RDWR)
		if err == nil {
			m.open = append(m.open, fd)
		}
		return err
	case "poke", "cut", "mode":
		if len(m.open) == 0 {
			return unix.EBADF
		}
		fd := m.open[a.Number%len(m.open)]
		switch a.What {
		case "cut":
			return unix.Ftruncate(fd, a.Off)
		case "mode":
			return unix.Fchmod(fd, 0o600+uint32(a.Number)%0o100)
		}
		return write(fd)
	case "map": // the descriptor is closed, the mapping stays
		return m.with(a.Path, unix.O_RDWR, func(fd int) error {
			mem, err := unix.Mmap(fd, 0, modelMapped, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err == nil {
				m.maps = append(m.maps, mem)
			}
			return err
		})
	case "scribble":
		if len(m.maps) == 0 {
			return unix.EBADF
		}
		// Beyond the end of the file, that would be a signal.
		if i := a.Number % len(m.maps); unix.Madvise(m.maps[i], unix.MADV_POPULATE_WRITE) == nil {
			copy(m.maps[i], a.Data)
		}
		return nil
	case "forget":
		for _, fd := range m.open {
			_ = unix.Close(fd)
		}
		for _, mem := range m.maps {
			_ = unix.Munmap(mem)
		}
		m.open, m.maps = nil, nil
		return nil
	}
	return fmt.Errorf("no act %q", a.What)
}

// file opens what is a regular file.
func (m *actor) file(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
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

func (m *actor) with(path string, flags int, f func(fd int) error) error {
	fd, err := m.file(path, flags)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}

// mediatedModel is one jail, and the trees that its log must lead back to.
type mediatedModel struct {
	j     *jail
	in    *inside
	snaps []*treesnap.Snapshot
	at    int
}

// TestMBModel: random system calls in several steps, with descriptors and mappings that outlive them;
// after each undo and redo the whole folder is as it was.
func TestMBModel(t *testing.T) {
	j := newJail(t)
	j.undo = filepath.Join(j.base, "undo")
	m := &mediatedModel{j: j, in: j.start("model")}
	empty := treesnap.MustTake(t, j.folder)
	rapid.Check(t, func(t *rapid.T) {
		m.begin(t)
		m.compare(t, "the beginning", empty)
		m.snaps, m.at = []*treesnap.Snapshot{empty}, 0
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for range rapid.IntRange(1, 3).Draw(t, "steps") {
				m.step(t)
			}
			for range rapid.IntRange(0, 3).Draw(t, "moves") {
				m.move(t, rapid.IntRange(-m.at, len(m.snaps)-1-m.at).Draw(t, "move"))
			}
		}
	})
	m.in.say("end")
	m.in.ok()
}

// begin goes back to an empty folder and an empty log, whatever the case before left.
func (m *mediatedModel) begin(t *rapid.T) {
	ctx, log := m.j.t.Context(), m.j.session.Log
	m.tell(t, &act{What: "forget"})
	var err error
	if _, open := log.Current(); open {
		err = m.j.session.Abort(ctx)
	}
	if n := log.Status().Steps; err == nil && n > 0 {
		err = m.j.session.Undo(ctx, n)
	}
	if err == nil {
		_, err = log.GC(ctx, undolog.GCOptions{Discard: true})
	}
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
}

func (m *mediatedModel) step(t *rapid.T) {
	e, err := m.j.session.Step(m.j.t.Context(), "step", func() error {
		for range rapid.IntRange(1, 12).Draw(t, "acts") {
			m.tell(t, m.draw(t))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("step: %v", err)
	}
	if e == nil {
		m.compare(t, "step that changed nothing", m.snaps[m.at])
		m.snaps = m.snaps[:m.at+1+m.j.session.Log.Status().Redoable]
		return
	}
	m.snaps = append(m.snaps[:m.at+1], treesnap.MustTake(m.j.t, m.j.folder))
	m.at++
}

func (m *mediatedModel) move(t *rapid.T, k int) {
	var err error
	switch {
	case k < 0:
		err = m.j.session.Undo(m.j.t.Context(), -k)
	case k > 0:
		err = m.j.session.Redo(m.j.t.Context(), k)
	default:
		return
	}
	if err != nil {
		t.Fatalf("move %d: %v", k, err)
	}
	m.at += k
	m.compare(t, fmt.Sprintf("move by %d to %d", k, m.at), m.snaps[m.at])
}

func (m *mediatedModel) compare(t *rapid.T, what string, want *treesnap.Snapshot) {
	t.Helper()
	d := treesnap.Diff(want, treesnap.MustTake(m.j.t, m.j.folder), treesnap.Options{IgnoreLinks: true})
	if len(d) > 0 {
		t.Fatalf("%s:\n%s", what, strings.Join(d, "\n"))
	}
}

// tell has the workload do something. It may fail, but not because of us.
func (m *mediatedModel) tell(t *rapid.T, a *act) {
	t.Helper()
	line, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	m.in.say(string(line))
	said := m.in.hear()
	if said == "ok" {
		t.Logf("DID %s %s %s %d %d", a.What, a.Path, a.Other, a.Number, a.Off)
	}
	for _, never := range []syscall.Errno{unix.EIO, unix.EROFS, unix.ENOSYS, unix.ESTALE, unix.EINTR} {
		if strings.Contains(said, never.Error()) {
			t.Fatalf("%s %s %s: %s", a.What, a.Path, a.Other, said)
		}
	}
}

func (m *mediatedModel) draw(t *rapid.T) *act {
	a := &act{
		What: rapid.SampledFrom([]string{
			"create", "create", "write", "replace", "append", "truncate", "punch", "chmod", "utimes", "rename", "rename", "link", "link", "symlink",
			"unlink", "unlink", "mkdir", "mkdir", "rmdir", "rmtree", "fifo", "xattr", "rmxattr", "tmpfile", "hold", "poke", "poke", "cut", "mode",
			"map", "scribble", "scribble",
		}).Draw(t, "what"),
		Path: m.path(t), Off: rapid.SampledFrom([]int64{0, 3, 100, 65536, 200000}).Draw(t, "off"),
	}
	switch a.What {
	case "rename", "link", "symlink":
		a.Other = m.path(t)
	}
	switch a.What {
	case "rename":
		a.Number = rapid.SampledFrom([]int{0, 0, unix.RENAME_EXCHANGE, unix.RENAME_NOREPLACE}).Draw(t, "flags")
	case "chmod":
		a.Number = rapid.SampledFrom([]int{0o755, 0o644, 0o2700, 0o1777, 0o400}).Draw(t, "mode")
	case "utimes", "poke", "cut", "mode", "scribble":
		a.Number = rapid.IntRange(0, 1<<20).Draw(t, "number")
	}
	a.Data = bytes.Repeat([]byte{byte(rapid.IntRange('0', '9').Draw(t, "data"))}, rapid.SampledFrom([]int{1, 5, 300, 4000}).Draw(t, "length"))
	return a
}

// path draws a path of the folder, every second one that is there.
func (m *mediatedModel) path(t *rapid.T) string {
	if rapid.Bool().Draw(t, "there") {
		var there []string
		_ = filepath.WalkDir(m.j.folder, func(p string, _ fs.DirEntry, _ error) error {
			if p != m.j.folder {
				there = append(there, p[len(m.j.folder)+1:])
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
