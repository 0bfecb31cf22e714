//go:build linux && faults

package undolog

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// closedFolder is a world of two steps, the second of which changed what its
// owner may not look at any more: files and directories, with other names, and
// one that a directory of the log holds.
func closedFolder(t *testing.T) *world {
	w := newWorld(t, testDir(t), Options{})
	w.step(func() {
		w.ok(w.mkdir("d"))
		w.ok(w.mkdir("d/e"))
		for _, p := range []string{"f", "d/f", "d/e/f", "gone", "named"} {
			w.ok(w.create(p, "the first of "+p))
		}
		w.ok(w.link("named", "d/name"))
		w.ok(w.hold("gone"))
	})
	w.step(func() {
		w.ok(w.chmod("gone", 0))
		w.ok(w.unlink("gone"))
	})
	w.step(func() {
		w.ok(w.poke(0, 4, "SECOND"))
		for _, p := range []string{"f", "d/f", "d/e/f", "named"} {
			w.ok(w.write(p, 4, "SECOND"))
			w.ok(w.chmod(p, 0))
		}
		w.ok(w.unlink("named"))
		w.ok(w.unlink("d/e/f"))
		w.ok(w.chmod("d/e", 0))
		w.ok(w.chmod("d", 0))
	})
	return w
}

// modes are those of everything in the folder; it is opened for that, and
// closed again.
func modes(w *world) (all []string) {
	var look func(rel string)
	look = func(rel string) {
		var st unix.Stat_t
		p := w.base + "/work" + rel
		w.ok(unix.Lstat(p, &st))
		all = append(all, fmt.Sprintf("%s %o", rel, st.Mode))
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return
		}
		w.ok(unix.Chmod(p, 0o700))
		for _, name := range []string{"d", "e", "f", "gone", "named", "name"} {
			if unix.Access(p+"/"+name, unix.F_OK) == nil {
				look(rel + "/" + name)
			}
		}
		w.ok(unix.Chmod(p, st.Mode&0o7777))
	}
	look("")
	return all
}

// TestKilledWhileLent kills undos, redos and restores of an ordinary user at
// each moment at which something is more accessible than it should be. Nothing
// of them is seen, and nothing looks like an edit from outside.
func TestKilledWhileLent(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	for _, kind := range []string{"undo", "redo"} {
		kills := 0
		for _, point := range []string{"lend", "lent", "journal.append", "rollback.begin"} {
			for n := 1; ; n++ {
				w := closedFolder(t)
				after := modes(w)
				w.undo(1)
				before := modes(w)
				want := before
				if kind == "undo" {
					w.redo(1)
					want = after
				}
				k := modelKill{Base: w.base, Kind: kind, Count: 1, Fault: fmt.Sprintf("kill:%s:%d", point, n)}
				w.close()
				killed := k.run(t)
				if w = newWorld(t, k.Base, k.options()); !killed {
					w.close()
					break
				}
				kills++
				what := kind + " " + k.Fault
				if got := modes(w); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s, opened:\nwant %v\ngot  %v", what, want, got)
				}
				if r, err := w.log.Recover(context.Background()); r != nil || err != nil {
					t.Fatalf("%s: recovery: %+v, %v", what, r, err)
				}
				if kind == "undo" {
					w.undo(1)
				} else {
					w.redo(1)
					w.undo(1)
				}
				if got := modes(w); fmt.Sprint(got) != fmt.Sprint(before) {
					t.Errorf("%s, undone:\nwant %v\ngot  %v", what, before, got)
				}
				w.undo(2)
				if got := w.snapshot(); len(got.Entries) != 1 {
					t.Fatalf("%s: left: %v", what, got)
				}
				w.close()
			}
		}
		if kills < 10 {
			t.Errorf("%s: killed %d times", kind, kills)
		}
	}
}

// TestFailedWhileLent: an undo that fails before it begins has changed nothing.
func TestFailedWhileLent(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	for _, point := range []string{"lend", "lent", "rollback.begin"} {
		for n := 1; n < 4; n++ {
			w := closedFolder(t)
			want := modes(w)
			w.ok(fault.Arm(fmt.Sprintf("err:%s:%d:EIO", point, n)))
			_, err := w.log.Undo(context.Background(), UndoOptions{})
			w.ok(fault.Arm(""))
			if point == "rollback.begin" && n > 1 {
				want = nil // passed once
			} else if err == nil {
				t.Errorf("%s %d: %v", point, n, err)
			}
			if got := modes(w); want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s %d:\nwant %v\ngot  %v", point, n, want, got)
			} else if want != nil {
				w.undo(1)
			}
			w.close()
		}
	}
}
