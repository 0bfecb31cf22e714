package interceptor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// TestLinksMounted: how many names a file has, and that all of them are one
// inode, is right in a mount whose kernel remembers everything, whatever names
// the log has of the file: after steps, undos, redos and restores, and when
// steps are dropped.
func TestLinksMounted(t *testing.T) {
	m, _ := newMountModel(t)
	at := func(p string) string { return filepath.Join(m.mnt, p) }
	step := func(f func()) {
		t.Helper()
		id := m.log.NextID(undolog.TypeCommand)
		m.assign(id)
		f()
		if e, err := m.closeStep(id); err != nil || e == nil {
			t.Fatalf("close step: %v, %v", e, err)
		}
	}
	// shown are the files with their names: "a,b c" says that a and b are one.
	shown := func() string {
		t.Helper()
		files := map[uint64][]string{}
		links := map[uint64]uint64{}
		err := filepath.WalkDir(m.mnt, func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(p, &st); err != nil {
				return err
			}
			if n, ok := links[st.Ino]; ok && n != uint64(st.Nlink) {
				t.Errorf("%s: %d names, and %d by another of them", p, st.Nlink, n)
			}
			links[st.Ino] = uint64(st.Nlink)
			files[st.Ino] = append(files[st.Ino], p[len(m.mnt)+1:])
			return nil
		})
		m.must(err)
		var out []string
		for ino, names := range files {
			if uint64(len(names)) != links[ino] {
				t.Errorf("%q are said to be %d names", names, links[ino])
			}
			slices.Sort(names)
			out = append(out, strings.Join(names, ","))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	var states []string
	note := func() { t.Helper(); states = append(states, shown()) }
	note()
	step(func() {
		write(t, at("a"), "one file")
		m.must(os.Link(at("a"), at("b")))
		m.must(os.Link(at("a"), at("c")))
		m.must(os.Mkdir(at("d"), 0o755))
		write(t, at("x"), "another")
		m.must(os.Link(at("x"), at("y")))
	})
	note()
	step(func() { m.must(os.Remove(at("a"))); m.must(os.Link(at("b"), at("d/a"))) })
	note()
	step(func() { m.must(os.Rename(at("x"), at("b"))) })
	note()
	step(func() {
		m.must(unix.Renameat2(unix.AT_FDCWD, at("y"), unix.AT_FDCWD, at("c"), unix.RENAME_EXCHANGE))
		m.must(os.Remove(at("c")))
	})
	note()
	step(func() { m.must(os.RemoveAll(at("d"))); m.must(os.Link(at("y"), at("z"))) })
	note()
	step(func() { m.must(os.Mkdir(at("e"), 0o755)); m.must(os.Link(at("y"), at("e/y"))) })
	note()
	now := len(states) - 1
	for _, k := range []int{-1, 1, -1, -1, 2, -4, 3, -2, -3, 6, -5, 5} {
		_, err := ask(m.rig, func(p *messages.Reply[*undolog.ApplyResult]) any {
			if k < 0 {
				return &Undo{undolog.UndoOptions{Count: -k}, p}
			}
			return &Redo{undolog.UndoOptions{Count: k}, p}
		})
		m.must(err)
		now += k
		if got := shown(); got != states[now] {
			t.Errorf("moved by %d to %d: %q, want %q", k, now, got, states[now])
		}
	}
	history := m.history()
	for _, p := range []string{"a", "b", "d", "e", "x"} {
		_, err := ask(m.rig, func(r *messages.Reply[*undolog.ApplyResult]) any {
			return &Restore{undolog.RestoreOptions{Path: p, Step: history[len(history)-2].StepID, Force: true}, r} // b is what x was
		})
		if err != nil {
			t.Fatalf("restore %s: %v", p, err)
		}
		note()
	}
	_, err := ask(m.rig, func(p *messages.Reply[*undolog.GCResult]) any { return &GC{undolog.GCOptions{Discard: true}, p} })
	m.must(err)
	if got, want := shown(), states[len(states)-1]; got != want {
		t.Errorf("without history: %q, want %q", got, want)
	}
	if t.Failed() {
		t.Logf("%q", states)
	}
}
