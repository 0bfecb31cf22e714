package ninep

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// attach connects the client of the p9 library, an implementation that is not
// ours, and returns the root.
func (l *lab) attach() p9.File {
	l.t.Helper()
	c, err := p9.NewClient(l.conn)
	must(l.t, err)
	l.t.Cleanup(func() { c.Close() })
	root, err := c.Attach("")
	must(l.t, err)
	l.t.Cleanup(func() { root.Close() })
	return root
}

func walkTo(t *testing.T, from p9.File, names ...string) p9.File {
	t.Helper()
	_, f, err := from.Walk(names)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// newFile creates a file and writes to it; the fid stays open.
func newFile(t *testing.T, dir p9.File, name, content string) p9.File {
	t.Helper()
	_, f, err := dir.Walk(nil)
	must(t, err)
	_, _, _, err = f.Create(name, p9.ReadWrite, 0o644, p9.NoUID, p9.NoGID)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	n, err := f.WriteAt([]byte(content), 0)
	must(t, err)
	if n != len(content) {
		t.Fatalf("wrote %d of %d", n, len(content))
	}
	return f
}

func attrs(t *testing.T, f p9.File) p9.Attr {
	t.Helper()
	_, _, a, err := f.GetAttr(p9.AttrMaskAll)
	must(t, err)
	return a
}

// TestFiles: files and directories through the library's client, compared with
// what is on the host.
func TestFiles(t *testing.T) {
	l := newLab(t, nil)
	root := l.attach()
	_, err := root.Mkdir("d", 0o750, p9.NoUID, p9.NoGID)
	must(t, err)
	d := walkTo(t, root, "d")
	content := strings.Repeat("0123456789", 300_000) // several messages
	f := newFile(t, d, "f", content)
	if got, err := os.ReadFile(l.path("d/f")); err != nil || string(got) != content {
		t.Fatalf("on the host: %d bytes, %v", len(got), err)
	}
	back := make([]byte, len(content))
	if n, err := f.ReadAt(back, 0); n != len(content) || err != nil && !errors.Is(err, io.EOF) || string(back) != content {
		t.Errorf("read back %d bytes, %v", n, err)
	}
	must(t, f.FSync())
	must(t, d.Link(walkTo(t, d, "f"), "link"))
	_, err = d.Symlink("../f", "sym", p9.NoUID, p9.NoGID)
	must(t, err)
	if target, err := walkTo(t, d, "sym").Readlink(); target != "../f" || err != nil {
		t.Errorf("link text %q, %v", target, err)
	}
	_, err = d.Mknod("fifo", p9.ModeNamedPipe|0o600, 0, 0, p9.NoUID, p9.NoGID)
	must(t, err)
	if st, err := os.Lstat(l.path("d/fifo")); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("fifo: %v, %v", st, err)
	}
	if a := attrs(t, f); a.Size != uint64(len(content)) || a.NLink != 2 || a.Mode.Permissions() != 0o644 {
		t.Errorf("attributes: %v", a)
	}
	must(t, d.RenameAt("link", root, "moved"))
	must(t, root.UnlinkAt("moved", 0))
	must(t, d.UnlinkAt("sym", 0))
	must(t, d.UnlinkAt("fifo", 0))
	if err := root.UnlinkAt("d", unix.AT_REMOVEDIR); !errors.Is(err, linux.ENOTEMPTY) {
		t.Errorf("a directory with a file in it: %v", err)
	}
	must(t, d.UnlinkAt("f", 0))
	// An open file goes on without a name.
	if _, err := f.WriteAt([]byte("X"), 0); err != nil {
		t.Errorf("write after unlink: %v", err)
	}
	if a := attrs(t, f); a.NLink != 0 || a.Size != uint64(len(content)) {
		t.Errorf("attributes after unlink: %v", a)
	}
	must(t, root.UnlinkAt("d", unix.AT_REMOVEDIR))
	if left, _ := os.ReadDir(l.host); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSetattr: every field of a Tsetattr.
func TestSetattr(t *testing.T) {
	l := newLab(t, nil)
	root := l.attach()
	f := newFile(t, root, "f", "content")
	must(t, f.SetAttr(p9.SetAttrMask{Permissions: true}, p9.SetAttr{Permissions: 0o751}))
	must(t, f.SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{Size: 3}))
	at := p9.SetAttr{ATimeSeconds: 1_000_000_000, ATimeNanoSeconds: 7, MTimeSeconds: 1_100_000_000, MTimeNanoSeconds: 123_456_789}
	must(t, f.SetAttr(p9.SetAttrMask{ATime: true, ATimeNotSystemTime: true, MTime: true, MTimeNotSystemTime: true}, at))
	a := attrs(t, f)
	if a.Mode.Permissions() != 0o751 || a.Size != 3 || a.ATimeSeconds != 1_000_000_000 || a.ATimeNanoSeconds != 7 ||
		a.MTimeSeconds != 1_100_000_000 || a.MTimeNanoSeconds != 123_456_789 {
		t.Errorf("%v", a)
	}
	var st unix.Stat_t
	must(t, unix.Stat(l.path("f"), &st))
	if st.Mtim.Sec != 1_100_000_000 || st.Mtim.Nsec != 123_456_789 || st.Atim.Sec != 1_000_000_000 {
		t.Errorf("on the host: %v %v", st.Atim, st.Mtim)
	}
	must(t, f.SetAttr(p9.SetAttrMask{MTime: true}, p9.SetAttr{MTimeSeconds: 5})) // now
	if now := attrs(t, f); now.MTimeSeconds < 1_600_000_000 || now.ATimeSeconds != 1_000_000_000 {
		t.Errorf("now: %v", now)
	}
	if os.Geteuid() == 0 {
		must(t, f.SetAttr(p9.SetAttrMask{UID: true, GID: true}, p9.SetAttr{UID: 1234, GID: 4321}))
		if a := attrs(t, f); a.UID != 1234 || a.GID != 4321 {
			t.Errorf("owner: %v", a)
		}
	}
}

// TestXattrs: set in pieces, created only once, replaced, listed and removed.
func TestXattrs(t *testing.T) {
	l := newLab(t, nil)
	must(t, os.WriteFile(l.path("f"), nil, 0o644))
	require.Xattrs(t, filepath.Dir(l.path("f")))
	c := l.dial()
	must(t, c.walk(0, 1, "f"))
	set := func(name, value string, flags uint32) error {
		must(t, c.walk(1, 2))
		must(t, c.rpc(typTxattrcreate, &txattrcreate{2, name, uint64(len(value)), flags}, new(empty)))
		half := len(value) / 2
		if len(value) > 0 {
			must(t, c.write(2, 0, value[:half]))
			must(t, c.write(2, uint64(half), value[half:]))
		}
		if err := c.write(2, uint64(len(value)), "over"); err != syscall.ENOSPC {
			t.Errorf("more than announced: %v", err)
		}
		return c.clunk(2)
	}
	get := func(name string) (string, error) {
		var r rxattrwalk
		if err := c.rpc(typTxattrwalk, &txattrwalk{1, 3, name}, &r); err != nil {
			return "", err
		}
		defer c.clunk(3)
		got, err := c.readAt(3, 0, uint32(r.size))
		if rest, _ := c.readAt(3, r.size+5, 10); rest != "" {
			t.Errorf("behind the end: %q", rest)
		}
		return got, err
	}
	long := strings.Repeat("long", 500)
	must(t, set("user.a", long, unix.XATTR_CREATE))
	if err := set("user.a", "again", unix.XATTR_CREATE); err != syscall.EEXIST {
		t.Errorf("created twice: %v", err)
	}
	must(t, set("user.b", "bee", 0))
	must(t, set("user.empty", "", 0))
	if got, err := get("user.a"); got != long || err != nil {
		t.Errorf("user.a: %d bytes, %v", len(got), err)
	}
	must(t, set("user.a", "short", unix.XATTR_REPLACE))
	if got, err := get("user.a"); got != "short" || err != nil {
		t.Errorf("user.a: %q, %v", got, err)
	}
	names, err := get("")
	must(t, err)
	for _, want := range []string{"user.a\x00", "user.b\x00", "user.empty\x00"} {
		if !strings.Contains(names, want) {
			t.Errorf("%q is not in the list %q", want, names)
		}
	}
	must(t, set("user.b", "", unix.XATTR_REPLACE)) // which removes it
	if _, err := get("user.b"); err != syscall.ENODATA {
		t.Errorf("removed: %v", err)
	}
	if err := set("security.capability", "x", 0); err != syscall.EPERM {
		t.Errorf("security: %v", err)
	}
	// Given up half-way, nothing is set.
	must(t, c.walk(1, 2))
	must(t, c.rpc(typTxattrcreate, &txattrcreate{2, "user.half", 10, 0}, new(empty)))
	must(t, c.write(2, 0, "12345"))
	if err := c.clunk(2); err != syscall.EINVAL {
		t.Errorf("half a value: %v", err)
	}
	if _, err := get("user.half"); err != syscall.ENODATA {
		t.Errorf("half a value was set: %v", err)
	}
	if n := l.sessions.Current().xattrs; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestReadOnly: nothing is changed, whatever is asked for.
func TestReadOnly(t *testing.T) {
	l := newLab(t, func(o *Options) { o.Tree.ReadOnly = true })
	must(t, os.WriteFile(l.path("f"), []byte("f"), 0o644))
	before := treesnap.MustTake(t, l.host)
	c := l.dial()
	must(t, c.walk(0, 1, "f"))
	must(t, c.walk(0, 2))
	for typ, m := range map[uint8]message{
		typTlopen: &tlopen{1, 2}, typTlcreate: &tlcreate{fid: 2, name: "x"}, typTmkdir: &tmkdir{0, "x", 0o755, 0},
		typTsymlink: &tsymlink{0, "x", "y", 0}, typTmknod: &tmknod{fid: 0, name: "x", mode: syscall.S_IFIFO},
		typTlink: &tlink{0, 1, "x"}, typTrenameat: &trenameat{0, "f", 0, "x"}, typTunlinkat: &tunlinkat{0, "f", 0},
		typTsetattr: &tsetattr{fid: 1, valid: setMode, mode: 0o600}, typTrename: &trename{1, 0, "x"},
	} {
		if err := c.rpc(typ, m, new(empty)); err != syscall.EROFS {
			t.Errorf("type %d: %v", typ, err)
		}
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.host))
}

// TestUndo: what is done over 9P is undone to the same tree: rm -rf, writes in
// place, renames, truncation, attributes, new files; and the client sees it.
func TestUndo(t *testing.T) {
	h := newHooks(nil)
	var log *undolog.Log
	l := newLab(t, func(o *Options) {
		var err error
		log, err = undolog.Open(context.Background(), undolog.Options{Dir: filepath.Join(t.TempDir(), "undo"), Root: o.Tree.Root})
		must(t, err)
		h.log, o.Tree.Hooks = log, h
	})
	t.Cleanup(func() { log.Close() })
	must(t, os.MkdirAll(l.path("src/deep/er"), 0o755))
	for _, name := range []string{"top", "src/a", "src/deep/b", "src/deep/er/c"} {
		must(t, os.WriteFile(l.path(name), []byte(strings.Repeat(name, 5000)), 0o640))
	}
	must(t, os.Link(l.path("src/a"), l.path("src/hard")))
	must(t, os.Symlink("a", l.path("src/soft")))
	before := treesnap.MustTake(t, l.host)
	c := l.dial()
	must(t, c.open(0, 1, 2, "top")) // stays open throughout
	must(t, c.walk(0, 2, "src", "deep"))

	steps := map[string]func(){
		"rm -rf": func() {
			must(t, c.removeAll(0, "src"))
			must(t, c.rpc(typTunlinkat, &tunlinkat{0, "top", 0}, new(empty)))
			must(t, c.write(1, 0, "written without a name"))
		},
		"in place": func() {
			must(t, c.write(1, 3, "in place"))
			must(t, c.open(0, 5, 1|openTruncate, "src", "a"))
			must(t, c.write(5, 0, "new"))
			must(t, c.clunk(5))
			must(t, c.rpc(typTsetattr, &tsetattr{fid: 1, valid: setSize | setMode, size: 10, mode: 0o600}, new(empty)))
		},
		"names": func() {
			must(t, c.rpc(typTrenameat, &trenameat{2, "b", 0, "top"}, new(empty)))
			must(t, c.rpc(typTrenameat, &trenameat{0, "src", 0, "source"}, new(empty)))
			must(t, c.rpc(typTmkdir, &tmkdir{0, "src", 0o755, 0}, new(rqid)))
			must(t, c.walk(0, 5))
			must(t, c.rpc(typTlcreate, &tlcreate{fid: 5, name: "src2", flags: 2, mode: 0o644}, new(ropen)))
			must(t, c.write(5, 0, "data"))
			must(t, c.rpc(typTlink, &tlink{0, 5, "another"}, new(empty)))
			must(t, c.clunk(5))
			must(t, c.rpc(typTsymlink, &tsymlink{0, "s", "t", 0}, new(rqid)))
		},
	}
	for name, f := range steps {
		t.Run(name, func(t *testing.T) {
			entry := h.step(t, f)
			if entry == nil {
				t.Fatal("the step changed nothing")
			}
			after := treesnap.MustTake(t, l.host)
			if len(treesnap.Diff(before, after, treesnap.Options{})) == 0 {
				t.Error("nothing was changed")
			}
			var r *undolog.ApplyResult
			h.guard.Drain(func() bool {
				var err error
				r, err = log.Undo(context.Background(), undolog.UndoOptions{Count: 1})
				must(t, err)
				return true
			})
			must(t, l.Invalidate(r.Changes))
			treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.host))
			// The client finds everything again.
			must(t, c.open(0, 6, 0, "src", "deep", "er", "c"))
			if got, err := c.readAt(6, 0, 13); got != "src/deep/er/c" || err != nil {
				t.Errorf("read after undo: %q, %v", got, err)
			}
			must(t, c.clunk(6))
			if got, err := c.readAt(1, 0, 6); got != "toptop" || err != nil {
				t.Errorf("the open file after undo: %q, %v", got, err)
			}
			// A directory that was removed is a new one.
			if err := c.walk(2, 7, "b"); err == syscall.ESTALE || err == syscall.ENOENT {
				must(t, c.clunk(2))
				must(t, c.walk(0, 2, "src", "deep"))
			} else {
				must(t, err)
				must(t, c.clunk(7))
			}
		})
	}
}

// removeAll is rm -rf.
func (c *client) removeAll(dir uint32, name string) error {
	const fid = 50
	depth := dir + fid
	if err := c.walk(dir, depth, name); err != nil {
		return err
	}
	defer c.clunk(depth)
	if err := c.rpc(typTlopen, &tlopen{depth, 0}, new(ropen)); err != nil {
		return err
	}
	var r rread
	if err := c.rpc(typTreaddir, &tread{depth, 0, 64 << 10}, &r); err != nil {
		return err
	}
	for d := (codec{buf: r.data, decoding: true}); len(d.buf) > 0; {
		var e dirent
		e.fields(&d)
		var err error
		switch {
		case e.name == "." || e.name == "..":
		case e.qid.kind == qidDir:
			err = c.removeAll(depth, e.name)
		default:
			err = c.rpc(typTunlinkat, &tunlinkat{depth, e.name, 0}, new(empty))
		}
		if err != nil {
			return err
		}
	}
	return c.rpc(typTunlinkat, &tunlinkat{dir, name, 0x200}, new(empty))
}

// TestHooks: every message that changes something passes its hook.
func TestHooks(t *testing.T) {
	l, h := held(t, nil, nil)
	must(t, os.WriteFile(l.path("f"), []byte("content"), 0o644))
	c := l.dial()
	must(t, c.open(0, 1, 2, "f"))
	must(t, c.walk(0, 2, "f"))
	must(t, c.walk(0, 3))
	must(t, c.walk(0, 4, "f"))
	must(t, c.walk(0, 5, "f"))
	for _, x := range []struct {
		typ  uint8
		m    message
		want []fsbridge.Kind
	}{
		{typTwrite, &twrite{1, 0, []byte("x")}, []fsbridge.Kind{fsbridge.OpWrite}},
		{typTlopen, &tlopen{2, 1 | openTruncate}, []fsbridge.Kind{fsbridge.OpTruncate}},
		{typTsetattr, &tsetattr{fid: 1, valid: setSize | setMtime, size: 1}, []fsbridge.Kind{fsbridge.OpTruncate, fsbridge.OpSetattr}},
		{typTlcreate, &tlcreate{fid: 3, name: "new", flags: 1, mode: 0o600}, []fsbridge.Kind{fsbridge.OpCreate}},
		{typTmkdir, &tmkdir{0, "d", 0o700, 0}, []fsbridge.Kind{fsbridge.OpMkdir}},
		{typTmknod, &tmknod{fid: 0, name: "p", mode: syscall.S_IFIFO | 0o600}, []fsbridge.Kind{fsbridge.OpMknod}},
		{typTsymlink, &tsymlink{0, "s", "t", 0}, []fsbridge.Kind{fsbridge.OpSymlink}},
		{typTlink, &tlink{0, 1, "hard"}, []fsbridge.Kind{fsbridge.OpLink}},
		{typTrenameat, &trenameat{0, "hard", 0, "harder"}, []fsbridge.Kind{fsbridge.OpRename}},
		{typTunlinkat, &tunlinkat{0, "harder", 0}, []fsbridge.Kind{fsbridge.OpUnlink}},
		{typTunlinkat, &tunlinkat{0, "d", 0x200}, []fsbridge.Kind{fsbridge.OpRmdir}},
		{typTrename, &trename{4, 0, "g"}, []fsbridge.Kind{fsbridge.OpRename}},
		{typTremove, &tfid{4}, []fsbridge.Kind{fsbridge.OpUnlink}},
		{typTgetattr, &tgetattr{fid: 1}, nil},
		{typTread, &tread{1, 0, 10}, nil},
	} {
		h.mu.Lock()
		h.seen = nil
		h.mu.Unlock()
		call := c.start(x.typ, x.m)
		<-call.done
		h.mu.Lock()
		if call.rtyp == typRlerror || len(h.seen) != len(x.want) {
			t.Errorf("%T: answer %d, hooks %v, want %v", x.m, call.rtyp, h.seen, x.want)
		}
		for i := range min(len(h.seen), len(x.want)) {
			if h.seen[i] != x.want[i] {
				t.Errorf("%T: hooks %v, want %v", x.m, h.seen, x.want)
			}
		}
		h.mu.Unlock()
	}
	// An attribute is set by the Tclunk.
	must(t, c.walk(3, 6))
	must(t, c.rpc(typTxattrcreate, &txattrcreate{6, "user.a", 1, 0}, new(empty)))
	must(t, c.write(6, 0, "v"))
	err := c.clunk(6)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || len(h.seen) != 1 || h.seen[0] != fsbridge.OpSetXattr {
		t.Errorf("setting an attribute: %v, hooks %v", err, h.seen)
	}
}
