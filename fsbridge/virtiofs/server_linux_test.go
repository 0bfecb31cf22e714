package virtiofs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

const root = 1

// TestFiles: a guest makes, reads, renames and removes files, with direct and
// with indirect descriptors.
func TestFiles(t *testing.T) {
	for _, indirect := range []bool{false, true} {
		l := newLab(t, nil)
		f := l.connect()
		f.queues[1].indirect = indirect
		node, fh, err := f.create(root, "a")
		check1(t, err)
		data := bytes.Repeat([]byte("0123456789abcdef"), 4096) // 64 KiB
		check1(t, f.write(node, fh, 0, data))
		check1(t, f.write(node, fh, 100, []byte("!")))
		data[100] = '!'
		got, err := f.read(node, fh, 0, len(data))
		check1(t, err)
		host, err := os.ReadFile(l.path("a"))
		check1(t, err)
		if !bytes.Equal(got, data) || !bytes.Equal(host, data) {
			t.Fatalf("indirect %v: the guest reads %d bytes, the host has %d, of %d", indirect, len(got), len(host), len(data))
		}
		f.release(node, fh)
		check1(t, f.rename(root, "a", root, "b"))
		if again, err := f.lookup(root, "b"); err != nil || again != node {
			t.Errorf("lookup b: node %d, %v; want %d", again, err, node)
		}
		check1(t, f.unlink(root, "b"))
		if entries, err := os.ReadDir(l.host); err != nil || len(entries) != 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
		waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })
	}
}

// TestReadOnly: a folder that is shared for reading refuses every write here,
// whatever the guest thinks.
func TestReadOnly(t *testing.T) {
	l := newLab(t, func(o *Options) { o.Tree.ReadOnly = true })
	check1(t, os.WriteFile(l.path("a"), []byte("x"), 0o644))
	f := l.connect()
	node, err := f.lookup(root, "a")
	check1(t, err)
	fh, err := f.open(node, unix.O_RDONLY)
	check1(t, err)
	if b, err := f.read(node, fh, 0, 10); err != nil || string(b) != "x" {
		t.Errorf("read: %q, %v", b, err)
	}
	refused := map[string]error{"unlink": f.unlink(root, "a"), "rename": f.rename(root, "a", root, "b"), "write": f.write(node, fh, 0, []byte("y"))}
	_, _, refused["create"] = f.create(root, "n")
	_, refused["open for writing"] = f.open(node, unix.O_RDWR)
	_, refused["open and truncate"] = f.open(node, unix.O_TRUNC)
	for what, err := range refused {
		if !errors.Is(err, syscall.EROFS) && (what != "write" || !errors.Is(err, syscall.EBADF)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, err := os.ReadFile(l.path("a")); err != nil || string(b) != "x" {
		t.Errorf("the host has %q, %v", b, err)
	}
}

// TestPaths (VF-01): the path that is reported for a file follows what the
// guest does with it.
func TestPaths(t *testing.T) {
	var dropped Stale
	l := newLab(t, func(o *Options) {
		o.Drop = func(s Stale) error { dropped = s; return nil }
		o.Tree.OnList = func(string, hostfs.ID) bool { return true }
	})
	f := l.connect()
	body := append(state(0o755, 0), "d\x00"...)
	f.must(9, root, body, 128)
	dir, err := f.lookup(root, "d")
	check1(t, err)
	_, _, err = f.create(root, "a")
	check1(t, err)
	path := func(of string) string {
		t.Helper()
		dropped = Stale{}
		check1(t, l.Invalidate(changeOf(t, l.path(of))))
		return strings.Join(dropped.Paths, " ")
	}
	if p := path("a"); p != "a" {
		t.Errorf("made: %q", p)
	}
	check1(t, f.rename(root, "a", dir, "b"))
	if p := path("d/b"); p != "d/b" {
		t.Errorf("renamed: %q", p)
	}
	check1(t, f.rename(root, "d", root, "e"))
	if p := path("e/b"); p != "e/b" {
		t.Errorf("its directory renamed: %q", p)
	}
	gone := changeOf(t, l.path("e/b"))
	check1(t, f.unlink(dir, "b"))
	dropped = Stale{}
	check1(t, l.Invalidate(gone))
	if len(dropped.Paths) != 0 {
		t.Errorf("removed, and still at %q", dropped.Paths)
	}
	// What the guest did itself is no news, what others do is.
	dropped = Stale{}
	check1(t, l.Changed([]string{"e"}))
	if len(dropped.Paths) != 0 {
		t.Errorf("the guest's own change was announced: %q", dropped.Paths)
	}
	check1(t, os.WriteFile(l.path("e/new"), nil, 0o644))
	check1(t, l.Changed([]string{"e/new"}))
	if p := strings.Join(dropped.Paths, " "); p != "e e/new" {
		t.Errorf("changed outside: %q", p)
	}
}

// TestNegativeLookup (VF-02): numbers and names that are not known are errors.
func TestNegativeLookup(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	if _, err := f.lookup(root, "none"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a name that does not exist: %v", err)
	}
	for _, node := range []uint64{0, 2, 1 << 32, 1<<63 | 5, ^uint64(0) - 1} {
		if _, err := f.lookup(node, "a"); !errors.Is(err, syscall.ESTALE) {
			t.Errorf("node %#x: %v", node, err)
		}
		if _, err := f.read(root, node, 0, 10); !errors.Is(err, syscall.EBADF) {
			t.Errorf("handle %#x: %v", node, err)
		}
	}
}

// TestOutside (VF-03): no name leads out of the folder.
func TestOutside(t *testing.T) {
	l := newLab(t, nil)
	secret := filepath.Join(filepath.Dir(l.host), "secret")
	check1(t, os.WriteFile(secret, []byte("s"), 0o644))
	check1(t, os.Symlink("../secret", l.path("link")))
	f := l.connect()
	for _, name := range []string{"..", ".", "../secret", "/etc/passwd", "a/../../secret", "", strings.Repeat("n", 256)} {
		if _, err := f.lookup(root, name); err == nil {
			t.Errorf("lookup %q: no error", name)
		}
		if _, _, err := f.create(root, name); err == nil {
			t.Errorf("create %q: no error", name)
		}
		if err := f.rename(root, "link", root, name); err == nil {
			t.Errorf("rename to %q: no error", name)
		}
	}
	link, err := f.lookup(root, "link")
	check1(t, err)
	if _, err := f.open(link, unix.O_RDONLY); err == nil {
		t.Error("a symlink was opened")
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "s" {
		t.Errorf("outside: %q, %v", b, err)
	}
}

// TestSessions: what a guest leaves open is closed when it mounts anew, says
// that it goes, or is gone; numbers of before mean nothing after.
func TestSessions(t *testing.T) {
	l := newLab(t, nil)
	check1(t, os.WriteFile(l.path("a"), []byte("x"), 0o644))
	f := l.connect()
	for _, end := range []string{"init", "destroy", "disconnect"} {
		node, err := f.lookup(root, "a")
		check1(t, err)
		fh, err := f.open(node, unix.O_RDWR)
		check1(t, err)
		if n := openOf(t, l.path("a")); n != 1 {
			t.Fatalf("%s: %d descriptors before", end, n)
		}
		switch end {
		case "init":
			f.init()
		case "destroy":
			f.must(fuseproto.OpDestroy, 0, nil, 0)
			if _, err := f.lookup(root, "a"); !errors.Is(err, syscall.ENOTCONN) {
				t.Errorf("after destroy: %v", err)
			}
			f.init()
		case "disconnect":
			f.conn.Close()
			f = l.connect()
		}
		if n := openOf(t, l.path("a")); n != 0 {
			t.Errorf("%s: %d descriptors left", end, n)
		}
		if _, err := f.read(node, fh, 0, 1); !errors.Is(err, syscall.EBADF) {
			t.Errorf("%s: the handle of before: %v", end, err)
		}
	}
	if err := f.queues[1].wait(f.start(fuseproto.OpSyncfs, root, make([]byte, 8), 0)); len(err) != fuseproto.ReplyBytes {
		t.Errorf("syncfs: %x", err)
	}
}

// openOf counts this process's descriptors of a file.
func openOf(t testing.TB, path string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check1(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}

// TestListen: what cannot be served is said at once.
func TestListen(t *testing.T) {
	if _, err := Listen("/tmp/"+strings.Repeat("x", 120), Options{}); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := Listen(filepath.Join(t.TempDir(), "s"), Options{}); err == nil {
		t.Error("no folder: no error")
	}
	l := newLab(t, nil)
	if _, err := Listen(l.socket, Options{Tree: vfs.Options{Root: l.o.Tree.Root}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket that is there: %v", err)
	}
	if st, err := os.Stat(l.socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", st.Mode(), err)
	}
}

// TestFence: the guest is asked to write back while it has files open for
// writing, and only then.
func TestFence(t *testing.T) {
	asked := 0
	l := newLab(t, func(o *Options) { o.Sync = func(context.Context) error { asked++; return errors.New("no") } })
	f := l.connect()
	check1(t, l.Fence(t.Context()))
	node, fh, err := f.create(root, "a")
	check1(t, err)
	if err := l.Fence(t.Context()); err == nil || asked != 1 {
		t.Errorf("with a writer: asked %d times, %v", asked, err)
	}
	f.release(node, fh)
	if err := l.Fence(t.Context()); err != nil || asked != 1 {
		t.Errorf("afterwards: asked %d times, %v", asked, err)
	}
}

// TestRestored: a file that changed behind a guest that has it not open is a
// new one to it, so that no page of before is used.
func TestRestored(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	node, fh, err := f.create(root, "a")
	check1(t, err)
	check1(t, l.Invalidate(changeOf(t, l.path("a"))))
	if again, err := f.lookup(root, "a"); err != nil || again != node {
		t.Errorf("open: node %d, %v; want %d: its writer must be known", again, err, node)
	}
	f.release(node, fh)
	check1(t, l.Invalidate(changeOf(t, l.path("a"))))
	if again, err := f.lookup(root, "a"); err != nil || again == node {
		t.Errorf("closed: still node %d, %v", again, err)
	}
}

// TestReads: what a READ returns, which goes to the guest's memory directly.
func TestReads(t *testing.T) {
	l := newLab(t, nil)
	check1(t, os.WriteFile(l.path("a"), []byte("0123456789"), 0o644))
	f := l.connect()
	node, err := f.lookup(root, "a")
	check1(t, err)
	fh, err := f.open(node, unix.O_RDONLY)
	check1(t, err)
	for _, c := range []struct {
		node, fh  uint64
		off       int64
		size, out int
		want      string
		err       error
	}{
		{node: node, fh: fh, size: 10, out: 10, want: "0123456789"},
		{node: node, fh: fh, off: 2, size: 3, out: 100, want: "234"},
		{node: node, fh: fh, off: 7, size: 4096, out: 4096, want: "789"},
		{node: node, fh: fh, off: 10, size: 10, out: 10},
		{node: node, fh: fh, off: 1 << 40, size: 10, out: 10},
		{node: node, fh: fh},
		{node: node, fh: fh, off: -1, size: 10, out: 10, err: syscall.EINVAL},
		{node: node, fh: fh, size: 10, out: 9, err: syscall.EIO},
		{node: node, fh: fh + 1, size: 10, out: 10, err: syscall.EBADF},
		{node: root, fh: fh, size: 10, out: 10, err: syscall.EBADF},
	} {
		got, err := f.call(fuseproto.OpRead, c.node, readBody(c.fh, c.off, c.size), c.out)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d bytes at %d with room for %d: %q, %v; want %q, %v", c.size, c.off, c.out, got, err, c.want, c.err)
		}
	}
	f.release(node, fh)
	waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })
}

// TestPieces: ranges of the guest's memory, over the borders of its regions.
func TestPieces(t *testing.T) {
	m := memory{regions: []region{{guest: 100, data: []byte("0123456789")}, {guest: 110, data: []byte("abcdefghij")}}}
	for _, c := range []struct {
		segments []segment
		off, n   int
		want     string // of each piece
		ok       bool
	}{
		{[]segment{{102, 5}}, 0, 5, "23456", true},
		{[]segment{{102, 5}}, 1, 3, "345", true},
		{[]segment{{106, 8}}, 1, 6, "789 abc", true},
		{[]segment{{106, 2}, {112, 2}, {100, 2}}, 3, 3, "d 01", true},
		{[]segment{{106, 2}, {112, 2}}, 2, 2, "cd", true},
		{[]segment{{106, 2}}, 2, 0, "", true},
		{[]segment{{106, 2}}, 3, 0, "", false},
		{[]segment{{106, 2}}, 1, 2, "6", false},
		{[]segment{{118, 4}}, 0, 4, "", false},
		{[]segment{{90, 4}}, 0, 4, "", false},
	} {
		list, ok := m.pieces(c.segments, c.off, c.n)
		if got := string(bytes.Join(list, []byte(" "))); ok != c.ok || ok && got != c.want {
			t.Errorf("%v, %d from %d: %q, %v; want %q, %v", c.segments, c.n, c.off, got, ok, c.want, c.ok)
		}
	}
	list := appended(appended(appended(nil, segment{100, 5}), segment{105, 5}), segment{120, 1})
	if len(list) != 2 || list[0] != (segment{100, 10}) {
		t.Errorf("joined: %v", list)
	}
}
