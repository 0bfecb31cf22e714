package ninep

import (
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestLocksOverTheWire: two processes of the client, Tlock and Tgetlock.
func TestLocksOverTheWire(t *testing.T) {
	l := newLab(t, nil)
	must(t, os.WriteFile(l.path("f"), nil, 0o644))
	c := l.dial()
	must(t, c.open(0, 1, 2, "f"))
	must(t, c.open(0, 2, 2, "f"))
	lock := func(f uint32, typ uint8, start, length uint64, pid uint32) uint8 {
		var r rlock
		must(t, c.rpc(typTlock, &tlock{f, typ, lockBlock, start, length, pid, "guest"}, &r))
		return r.status
	}
	if got := lock(1, lockWrite, 10, 10, 1); got != lockSuccess {
		t.Errorf("first: %d", got)
	}
	if got := lock(2, lockRead, 19, 1, 2); got != lockBlocked {
		t.Errorf("second: %d", got)
	}
	var g rgetlock
	must(t, c.rpc(typTgetlock, &tgetlock{2, rgetlock{lockRead, 0, 0, 2, "guest"}}, &g))
	if g != (rgetlock{lockWrite, 10, 10, 1, "guest"}) {
		t.Errorf("getlock: %+v", g)
	}
	lock(1, lockUnlock, 15, 0, 1)
	if got := lock(2, lockRead, 19, 1, 2); got != lockSuccess {
		t.Errorf("after unlocking: %d", got)
	}
	must(t, c.rpc(typTgetlock, &tgetlock{2, rgetlock{lockWrite, 15, 0, 2, "guest"}}, &g))
	if g.typ != lockUnlock {
		t.Errorf("getlock of what is free: %+v", g)
	}
	must(t, c.clunk(1))
	must(t, c.clunk(2))
	if s := l.sessions.Current(); s.locks != 0 || len(s.nodes) != 1 {
		t.Errorf("left: %d locks, %d nodes", s.locks, len(s.nodes))
	}
}

// TestReaddir: a large directory in small pieces, each name once.
func TestReaddir(t *testing.T) {
	l := newLab(t, nil)
	want := map[string]bool{".": true, "..": true}
	for i := range 1000 {
		name := strings.Repeat("n", 1+i%200) + string(rune('a'+i%26)) + strings.Repeat("x", i/200)
		must(t, os.WriteFile(l.path(name), nil, 0o600))
		want[name] = true
	}
	must(t, os.Mkdir(l.path("dir"), 0o700))
	want["dir"] = true
	c := l.dial()
	must(t, c.open(0, 1, 0))
	for _, count := range []uint32{300, 5000, 1 << 19} {
		seen := make(map[string]bool)
		for off := uint64(0); ; {
			var r rread
			must(t, c.rpc(typTreaddir, &tread{1, off, count}, &r))
			if uint32(len(r.data)) > count {
				t.Fatalf("%d bytes, %d asked for", len(r.data), count)
			}
			if len(r.data) == 0 {
				break
			}
			for d := (codec{buf: r.data, decoding: true}); len(d.buf) > 0; {
				var e dirent
				e.fields(&d)
				if d.bad || seen[e.name] {
					t.Fatalf("entry %q, twice: %v", e.name, seen[e.name])
				}
				if isDir := e.name == "dir" || e.name[0] == '.'; isDir != (e.qid.kind == qidDir) {
					t.Errorf("%q: qid type %x", e.name, e.qid.kind)
				}
				seen[e.name], off = true, e.off
			}
		}
		if len(seen) != len(want) {
			t.Errorf("in pieces of %d: %d names, want %d", count, len(seen), len(want))
		}
	}
}

// TestByFid: Trename and Tremove, which name files by fid, follow renames, also
// of directories above.
func TestByFid(t *testing.T) {
	l := newLab(t, nil)
	must(t, os.MkdirAll(l.path("a/b"), 0o755))
	must(t, os.WriteFile(l.path("a/b/f"), []byte("f"), 0o644))
	c := l.dial()
	must(t, c.walk(0, 1, "a", "b", "f"))
	must(t, c.walk(0, 2, "a"))
	must(t, c.rpc(typTrenameat, &trenameat{0, "a", 0, "moved"}, new(empty)))
	must(t, c.rpc(typTrenameat, &trenameat{2, "b", 0, "B"}, new(empty)))
	must(t, c.rpc(typTrename, &trename{1, 2, "g"}, new(empty)))
	if b, err := os.ReadFile(l.path("moved/g")); string(b) != "f" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	must(t, c.rpc(typTgetattr, &tgetattr{fid: 1}, new(rgetattr)))
	must(t, os.Rename(l.path("moved/g"), l.path("moved/h"))) // from outside
	if err := c.rpc(typTrename, &trename{1, 0, "x"}, new(empty)); err != posix.ESTALE {
		t.Errorf("renamed from outside: %v", err)
	}
	must(t, os.Rename(l.path("moved/h"), l.path("moved/g")))
	must(t, c.rpc(typTremove, &tfid{1}, new(empty)))
	if _, err := os.Stat(l.path("moved/g")); !os.IsNotExist(err) {
		t.Errorf("not removed: %v", err)
	}
	if err := c.clunk(1); err != posix.EBADF {
		t.Errorf("a removed fid: %v", err)
	}
	must(t, c.walk(0, 3, "B"))
	must(t, c.rpc(typTremove, &tfid{3}, new(empty)))
	must(t, c.clunk(2))
	if s := l.sessions.Current(); len(s.nodes) != 1 || len(s.fids) != 1 {
		t.Errorf("left: %d nodes, %d fids", len(s.nodes), len(s.fids))
	}
}
