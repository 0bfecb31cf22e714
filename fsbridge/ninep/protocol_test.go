package ninep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestP9_03_Invalid: what is wrong in a message gets the right errno, and the
// session goes on.
func TestP9_03_Invalid(t *testing.T) {
	l := newLab(t, nil)
	must(t, os.WriteFile(l.path("f"), []byte("content"), 0o644))
	must(t, os.Mkdir(l.path("d"), 0o755))
	c := l.dial()
	const file, dir, open, opendir, unknown = 1, 2, 3, 4, 99
	must(t, c.walk(0, file, "f"))
	must(t, c.walk(0, dir, "d"))
	must(t, c.open(0, open, 0, "f")) // for reading
	must(t, c.open(0, opendir, 0))
	long := strings.Repeat("x", 256)
	noAttribute := posix.ENODATA
	if runtime.GOOS == "windows" { // there are none
		noAttribute = posix.EOPNOTSUPP
	}
	for _, x := range []struct {
		what string
		typ  uint8
		m    message
		want posix.Errno
	}{
		{"unknown type", 200, new(empty), posix.EOPNOTSUPP},
		{"an answer", typTread + 1, &rread{}, posix.EOPNOTSUPP},
		{"empty body", typTwalk, new(empty), posix.EPROTO},
		{"empty body of a write", typTwrite, new(empty), posix.EPROTO},
		{"trailing byte", typTclunk, &rreadlink{"xyz"}, posix.EPROTO},
		{"auth", typTauth, &tauth{}, posix.EOPNOTSUPP},
		{"attach with auth", typTattach, &tattach{fid: 9, afid: 1}, posix.EINVAL},
		{"attach elsewhere", typTattach, &tattach{fid: 9, afid: noFID, aname: "/etc"}, posix.ENOENT},
		{"attach to a fid in use", typTattach, &tattach{fid: file, afid: noFID}, posix.EBADF},
		{"attach to no fid", typTattach, &tattach{fid: noFID, afid: noFID}, posix.EBADF},
		{"unknown fid", typTgetattr, &tgetattr{fid: unknown}, posix.EBADF},
		{"clunk unknown", typTclunk, &tfid{unknown}, posix.EBADF},
		{"walk unknown", typTwalk, &twalk{unknown, 9, nil}, posix.EBADF},
		{"walk to a fid in use", typTwalk, &twalk{0, file, nil}, posix.EBADF},
		{"walk up", typTwalk, &twalk{dir, 9, []string{".."}}, posix.EINVAL},
		{"walk nowhere", typTwalk, &twalk{0, 9, []string{""}}, posix.EINVAL},
		{"walk a path", typTwalk, &twalk{0, 9, []string{"d/../f"}}, posix.EINVAL},
		{"walk through NUL", typTwalk, &twalk{0, 9, []string{"f\x00"}}, posix.EINVAL},
		{"walk too long", typTwalk, &twalk{0, 9, []string{long}}, posix.ENAMETOOLONG},
		{"walk through a file", typTwalk, &twalk{file, 9, []string{"x"}}, posix.ENOTDIR},
		{"open twice", typTlopen, &tlopen{open, 0}, posix.EBUSY},
		{"open for nothing", typTlopen, &tlopen{file, 3}, posix.EINVAL},
		{"write a directory", typTlopen, &tlopen{dir, 1}, posix.EISDIR},
		{"create in a file", typTlcreate, &tlcreate{fid: file, name: "x"}, posix.ENOTDIR},
		{"create dot", typTlcreate, &tlcreate{fid: dir, name: "."}, posix.EINVAL},
		{"create with an open fid", typTlcreate, &tlcreate{fid: opendir, name: "x"}, posix.EBUSY},
		{"read not open", typTread, &tread{file, 0, 1}, posix.EBADF},
		{"read a directory", typTread, &tread{opendir, 0, 1}, posix.EISDIR},
		{"read at a negative offset", typTread, &tread{open, math.MaxUint64, 1}, posix.EINVAL},
		{"read more than a message", typTread, &tread{open, 0, 1 << 20}, posix.EINVAL},
		{"list at a negative offset", typTreaddir, &tread{opendir, math.MaxUint64, 1000}, posix.EINVAL},
		{"list too little", typTreaddir, &tread{opendir, 0, 5}, posix.EINVAL},
		{"list a file", typTreaddir, &tread{open, 0, 100}, posix.ENOTDIR},
		{"list not open", typTreaddir, &tread{dir, 0, 100}, posix.EBADF},
		{"write what is open for reading", typTwrite, &twrite{open, 0, []byte("x")}, posix.EBADF},
		{"sync not open", typTfsync, &tfsync{fid: file}, posix.EBADF},
		{"set what is unknown", typTsetattr, &tsetattr{fid: file, valid: 1 << 20}, posix.EINVAL},
		{"set a time out of range", typTsetattr, &tsetattr{fid: file, valid: setMtime | setMtimeSet, mtimeNS: 1e9}, posix.EINVAL},
		{"set a negative size", typTsetattr, &tsetattr{fid: file, valid: setSize, size: math.MaxUint64}, posix.EINVAL},
		{"make a device", typTmknod, &tmknod{fid: dir, name: "x", mode: posix.S_IFBLK | 0o600}, posix.EPERM},
		{"remove with unknown flags", typTunlinkat, &tunlinkat{0, "f", 1}, posix.EINVAL},
		{"remove a directory as a file", typTunlinkat, &tunlinkat{0, "d", 0}, posix.EISDIR},
		{"remove a file as a directory", typTunlinkat, &tunlinkat{0, "f", 0x200}, posix.ENOTDIR},
		{"rename into a file", typTrenameat, &trenameat{0, "f", file, "x"}, posix.ENOTDIR},
		{"rename to an unknown fid", typTrenameat, &trenameat{0, "f", unknown, "x"}, posix.EBADF},
		{"rename the root", typTrename, &trename{0, dir, "x"}, posix.EBUSY},
		{"link a directory", typTlink, &tlink{0, dir, "x"}, posix.EPERM},
		{"link an unknown fid", typTlink, &tlink{0, unknown, "x"}, posix.EBADF},
		{"read a file as a link", typTreadlink, &tfid{file}, posix.EINVAL},
		{"xattr that is not there", typTxattrwalk, &txattrwalk{file, 9, "user.no"}, noAttribute},
		{"xattr too large", typTxattrcreate, &txattrcreate{file, "user.a", 1 << 40, 0}, posix.E2BIG},
		{"xattr flags", typTxattrcreate, &txattrcreate{file, "user.a", 1, 8}, posix.EINVAL},
		{"lock not open", typTlock, &tlock{fid: file}, posix.EBADF},
		{"lock of no kind", typTlock, &tlock{fid: open, typ: 3}, posix.EINVAL},
		{"lock beyond all", typTlock, &tlock{fid: open, start: math.MaxUint64, length: 2}, posix.EINVAL},
		{"lock with unknown flags", typTlock, &tlock{fid: open, flags: 2}, posix.EINVAL},
		{"getlock of no kind", typTgetlock, &tgetlock{open, rgetlock{typ: 9}}, posix.EINVAL},
	} {
		if err := c.rpc(x.typ, x.m, new(empty)); err != x.want {
			t.Errorf("%s: %v, want %v", x.what, err, x.want)
		}
	}
	if got, err := c.readAt(open, 0, 100); got != "content" || err != nil {
		t.Errorf("afterwards: %q, %v", got, err)
	}
	if err := c.walk(0, 9, "f"); err != nil {
		t.Errorf("a refused message left fid 9 behind: %v", err)
	}
	if names, _ := os.ReadDir(l.path("d")); len(names) != 0 {
		t.Errorf("made: %v", names)
	}
}

// TestP9_03_Version: what a Tversion may ask for, and that nothing goes before
// it.
func TestP9_03_Version(t *testing.T) {
	l := newLab(t, nil)
	c := l.raw()
	if err := c.rpc(typTattach, &tattach{afid: noFID}, new(rqid)); err != posix.EPROTO {
		t.Errorf("attach first: %v", err)
	}
	var v tversion
	if err := c.rpc(typTversion, &tversion{100, version}, &v); err != posix.EMSGSIZE {
		t.Errorf("a message size of 100: %v", err)
	}
	must(t, c.rpc(typTversion, &tversion{1 << 20, "9P2000.u"}, &v))
	if v.version != "unknown" {
		t.Errorf("9P2000.u: %q", v.version)
	}
	must(t, c.rpc(typTversion, &tversion{math.MaxUint32, version}, &v))
	if v.msize != DefaultMessageBytes || v.version != version {
		t.Errorf("%+v", v)
	}
	must(t, c.rpc(typTattach, &tattach{afid: noFID}, new(rqid)))
	// A second one begins anew.
	must(t, c.rpc(typTversion, &tversion{8192, version}, &v))
	if err := c.rpc(typTgetattr, &tgetattr{}, new(rgetattr)); err != posix.EBADF || v.msize != 8192 {
		t.Errorf("a fid of the session before: %v, msize %d", err, v.msize)
	}
}

// TestP9_04_OutOfOrder: a held removal, and a held rename, hold up nobody:
// later messages on the same directory and file are answered first, and then
// the held ones.
func TestP9_04_OutOfOrder(t *testing.T) {
	for _, kind := range []fsbridge.Kind{fsbridge.OpUnlink, fsbridge.OpRename} {
		t.Run(kind.String(), func(t *testing.T) {
			l, h := held(t, onName("victim"), nil)
			must(t, os.WriteFile(l.path("victim"), []byte("content"), 0o644))
			c := l.dial()
			must(t, c.open(0, 1, 2, "victim"))
			var waiting *call
			if kind == fsbridge.OpUnlink {
				waiting = c.start(typTunlinkat, &tunlinkat{0, "victim", 0})
			} else {
				waiting = c.start(typTrenameat, &trenameat{0, "victim", 0, "other"})
			}
			<-h.arrived
			// Pipelined: all are sent before any answer is looked at.
			var calls []*call
			for range 20 {
				calls = append(calls, c.start(typTread, &tread{1, 0, 7}))
			}
			for _, call := range calls {
				if err := c.end(call, new(rread)); err != nil {
					t.Errorf("read: %v", err)
				}
			}
			must(t, c.walk(0, 2))
			must(t, c.rpc(typTlcreate, &tlcreate{fid: 2, name: "free", flags: 2, mode: 0o644}, new(ropen)))
			must(t, c.write(2, 0, "x"))
			must(t, c.clunk(2))
			must(t, c.rpc(typTrenameat, &trenameat{0, "free", 0, "freed"}, new(empty)))
			must(t, c.rpc(typTunlinkat, &tunlinkat{0, "freed", 0}, new(empty)))
			waitFor(t, "all but the held one", func() bool { return l.InFlight() == 1 })
			h.release <- nil
			must(t, c.end(waiting, new(empty)))
			if last := c.order[len(c.order)-1]; last != waiting.tag {
				t.Errorf("the held one was not answered last")
			}
			if _, err := os.Stat(l.path("victim")); !os.IsNotExist(err) {
				t.Errorf("the allowed operation was not done: %v", err)
			}
		})
	}
}

// TestFlush: a held operation whose process died is let go; it is answered
// before the Tflush, and nothing was done. A Tflush for nothing is answered.
func TestFlush(t *testing.T) {
	l, h := held(t, onName("victim"), nil)
	must(t, os.WriteFile(l.path("victim"), nil, 0o644))
	c := l.dial()
	waiting := c.start(typTunlinkat, &tunlinkat{0, "victim", 0})
	<-h.arrived
	must(t, c.rpc(typTflush, &tflush{60000}, new(empty)))
	must(t, c.rpc(typTflush, &tflush{waiting.tag}, new(empty)))
	if err := c.end(waiting, new(empty)); err != posix.EINTR {
		t.Errorf("the flushed one: %v", err)
	}
	if n := len(c.order); c.order[n-2] != waiting.tag {
		t.Error("the Tflush was answered first")
	}
	if _, err := os.Stat(l.path("victim")); err != nil {
		t.Errorf("it was performed all the same: %v", err)
	}
}

// TestRestart: a new Tversion lets go of what the old session holds, closes its
// files and answers nothing of it.
func TestRestart(t *testing.T) {
	l, h := held(t, onName("victim"), nil)
	must(t, os.WriteFile(l.path("victim"), nil, 0o644))
	c := l.dial()
	must(t, c.open(0, 1, 2, "victim"))
	c.start(typTunlinkat, &tunlinkat{0, "victim", 0})
	<-h.arrived
	old := l.sessions.Current().tree
	must(t, c.rpc(typTversion, &tversion{1 << 20, version}, new(tversion)))
	waitFor(t, "the held one to be let go", func() bool { return l.InFlight() == 0 })
	if old.Writing() {
		t.Error("a file of the old session is still open")
	}
	must(t, c.rpc(typTattach, &tattach{afid: noFID}, new(rqid)))
	must(t, c.rpc(typTmkdir, &tmkdir{0, "new", 0o755, 0}, new(rqid)))
}

// TestP9_05_Oversized: a message that is larger than was agreed is refused
// before memory is taken for it.
func TestP9_05_Oversized(t *testing.T) {
	for _, size := range []uint32{0, 6, 8193, 1 << 20, math.MaxUint32} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l := newLab(t, nil)
			c := l.raw()
			must(t, c.rpc(typTversion, &tversion{8192, version}, new(tversion)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			frame := encode(nil, typTwrite, 0, new(empty))
			binary.LittleEndian.PutUint32(frame, size)
			if err := c.end(c.send(frame), new(empty)); err != posix.EMSGSIZE {
				t.Errorf("refused with %v", err)
			}
			<-l.Done()
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 512<<10 {
				t.Errorf("%d bytes were allocated", grown)
			}
			if err := l.Err(); !errors.Is(err, posix.EMSGSIZE) {
				t.Errorf("the server says: %v", err)
			}
		})
	}
}

// TestHalf: the client dies in the middle of a message.
func TestHalf(t *testing.T) {
	l := newLab(t, nil)
	c := l.dial()
	_, err := c.conn.Write(encode(nil, typTwrite, 5, &twrite{1, 0, make([]byte, 100000)})[:5000])
	must(t, err)
	c.conn.Close()
	<-l.Done()
	if err := l.Err(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the server says: %v", err)
	}
}

// TestBounds: fids, open files, requests and the bytes of held writes are
// bounded, and what is over is refused without harm to the rest.
func TestBounds(t *testing.T) {
	h := newHooks(func(op *fsbridge.Op) bool { return op.Kind == fsbridge.OpWrite && op.Off >= 1<<30 })
	l := newLab(t, func(o *Options) {
		o.Tree.Hooks = h
		o.MaxFIDs, o.MaxOpen, o.MaxRequests = 8, 2, 4
		o.MaxBytes, o.Patience = 100_000, 1
	})
	h.pid = l.HostPID
	must(t, os.WriteFile(l.path("f"), nil, 0o644))
	c := l.dial()
	must(t, c.open(0, 1, 2, "f"))
	must(t, c.open(0, 2, 2, "f"))
	must(t, c.walk(0, 3, "f"))
	if err := c.rpc(typTlopen, &tlopen{3, 0}, new(ropen)); err != posix.ENFILE {
		t.Errorf("a third open file: %v", err)
	}
	if err := c.rpc(typTlcreate, &tlcreate{fid: 0, name: "g", flags: 2}, new(ropen)); err != posix.ENFILE {
		t.Errorf("a third open file, by creation: %v", err)
	}
	for f := uint32(4); f < 8; f++ {
		must(t, c.walk(0, f, "f"))
	}
	if err := c.walk(0, 8, "f"); err != posix.ENFILE {
		t.Errorf("a ninth fid: %v", err)
	}
	big := strings.Repeat("x", 60_000)
	first := c.start(typTwrite, &twrite{1, 1 << 30, []byte(big)})
	<-h.arrived
	if err := c.write(1, 0, big); err != posix.ENOSPC {
		t.Errorf("more bytes than there is room for: %v", err)
	}
	must(t, c.write(1, 0, "small ones go on"))
	waitFor(t, "the small one's end", func() bool { return l.InFlight() == 1 }) // it counts until after its answer
	small := []*call{c.start(typTwrite, &twrite{1, 1 << 30, []byte("x")}), c.start(typTwrite, &twrite{1, 1 << 31, []byte("x")}), c.start(typTwrite, &twrite{1, 1 << 32, []byte("x")})}
	for range small {
		<-h.arrived
	}
	if err := c.rpc(typTgetattr, &tgetattr{fid: 1}, new(rgetattr)); err != posix.ENOSPC {
		t.Errorf("a fifth request: %v", err)
	}
	for _, call := range append(small, first) {
		h.release <- nil
		_ = call
	}
	for _, call := range append(small, first) {
		must(t, c.end(call, new(rwrite)))
	}
	waitFor(t, "idleness", func() bool { return l.InFlight() == 0 })
	must(t, c.write(1, 0, big))
	must(t, c.clunk(2))
	must(t, c.rpc(typTlopen, &tlopen{3, 0}, new(ropen)))
}

// TestOrderOfClunk: a fid means what it meant when the message was sent, even
// if the Tclunk behind it is faster.
func TestOrderOfClunk(t *testing.T) {
	l := newLab(t, nil)
	must(t, os.WriteFile(l.path("f"), nil, 0o644))
	c := l.dial()
	for i := range 50 {
		must(t, c.open(0, 1, 1, "f"))
		w := c.start(typTwrite, &twrite{1, uint64(i), []byte{'x'}})
		cl := c.start(typTclunk, &tfid{1})
		must(t, c.end(w, new(rwrite)))
		must(t, c.end(cl, new(empty)))
	}
	if b, _ := os.ReadFile(l.path("f")); len(b) != 50 || slices.Contains(b, 0) {
		t.Errorf("%q", b)
	}
	if l.sessions.Current().tree.Writing() || l.sessions.Current().opened != 0 {
		t.Error("a file is still open")
	}
}
