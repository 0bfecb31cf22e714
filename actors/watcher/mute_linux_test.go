package watcher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// watching is a source on a folder.
type watching struct {
	t       *testing.T
	base    string
	src     *inotify
	markers int
	gone    []hostfs.ID
}

func newWatching(t *testing.T) *watching {
	t.Helper()
	w := &watching{t: t, base: t.TempDir()}
	w.must(os.Mkdir(w.path(""), 0o755))
	src, err := newSource(w.path(""))
	w.must(err)
	w.src = src.(*inotify)
	t.Cleanup(func() { _ = src.Close() })
	w.must(src.Add(".", w.id("")))
	w.mkdir("d")
	return w
}

func (w *watching) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *watching) path(p string) string { return filepath.Join(w.base, "root", p) }

func (w *watching) id(p string) hostfs.ID {
	w.t.Helper()
	var st unix.Stat_t
	w.must(unix.Lstat(w.path(p), &st))
	return hostfs.ID{Dev: st.Dev, Ino: st.Ino}
}

// mkdir makes a directory with a file f, and watches it.
func (w *watching) mkdir(dir string) {
	w.t.Helper()
	w.must(os.Mkdir(w.path(dir), 0o755))
	w.write(dir + "/f")
	w.must(w.src.Add(dir, w.id(dir)))
}

func (w *watching) write(p string) {
	w.t.Helper()
	w.must(os.WriteFile(w.path(p), []byte("x"), 0o644))
}

func (w *watching) mute(dir string) (arm func() Batch) {
	w.t.Helper()
	arm, err := w.src.Mute(dir, w.id(dir))
	w.must(err)
	return arm
}

// heard returns the paths of which something was heard until now.
func (w *watching) heard() []string {
	w.t.Helper()
	w.markers++
	marker := "marker" + strconv.Itoa(w.markers)
	w.write(marker)
	for all := []string(nil); ; {
		b, err := w.src.Read()
		w.must(err)
		w.gone = append(w.gone, b.Gone...)
		all = append(all, paths(b)...)
		if i := slices.Index(all, marker); i >= 0 {
			return all[:i]
		}
	}
}

func paths(b Batch) (all []string) {
	for _, e := range b.Events {
		dir, ok := e.Dir.Path()
		if !ok {
			dir = "nowhere"
		}
		all = append(all, filepath.Join(dir, e.Name))
	}
	return all
}

// hears tells whether a write to p is heard.
func (w *watching) hears(p string) bool {
	w.t.Helper()
	w.heard()
	w.write(p)
	return slices.Contains(w.heard(), p)
}

// holds tells whether a directory is held open.
func (w *watching) holds(dir string) bool {
	w.t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	w.must(err)
	return slices.ContainsFunc(fds, func(e os.DirEntry) bool {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		return to == w.path(dir)
	})
}

func (w *watching) expect(what string, got, want bool) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v", what, got)
	}
}

// TestMute: what happens to files of a muted directory is not heard but told in
// the end; what happens to names is heard.
func TestMute(t *testing.T) {
	w := newWatching(t)
	w.write("d/touched")
	w.write("d/removed")
	w.expect("an edit is heard before", w.hears("d/f"), true)
	arm := w.mute("d")
	w.expect("an edit is heard while muted", w.hears("d/f"), false)
	w.must(os.Chmod(w.path("d/touched"), 0o600))
	w.expect("a change of mode is heard while muted", slices.Contains(w.heard(), "d/touched"), false)
	w.expect("a new file is heard while muted", w.hears("d/new"), true)
	w.must(os.Remove(w.path("d/removed")))
	w.expect("a removal is heard while muted", slices.Contains(w.heard(), "d/removed"), true)
	b := arm()
	told, doubted := paths(b), paths(Batch{Events: b.Unsure})
	for _, p := range []string{"d/f", "d/touched"} {
		w.expect(p+" is told of", slices.Contains(told, p), true)
	}
	for _, p := range []string{"d", "d/new", "d/removed"} { // U19: it was heard of, or others in it were
		w.expect(p+" is told of", slices.Contains(told, p), false)
		w.expect(p+" is in doubt", slices.Contains(doubted, p), true)
	}
	w.expect("an edit is heard afterwards", w.hears("d/f"), true)
	w.expect("the directory is held afterwards", w.holds("d"), false)
}

// TestMuteTellsOfChangesOnly: what was not changed for longer than clocks are
// coarse is not told of.
func TestMuteTellsOfChangesOnly(t *testing.T) {
	w := newWatching(t)
	for _, name := range []string{"same", "read", "edited", "recent", "replaced"} {
		w.write("d/" + name)
	}
	fd, err := unix.Open(w.path("d"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	w.must(err)
	defer unix.Close(fd)
	before, err := standing(fd, maxMuted)
	w.must(err)
	was := func(name string, change func(*hostfs.Stat)) {
		st := before[name]
		change(&st)
		before[name] = st
	}
	if sure, unsure := changes(nil, fd, before); len(sure) > 0 || len(unsure) != len(before) { // U19: nobody touched it
		t.Errorf("of what was made a moment ago and not changed: told of %v, in doubt about %v", sure, unsure)
	}
	later := 2 * int64(coarsest)
	was("", func(st *hostfs.Stat) { st.Ctime += later })
	was("f", func(st *hostfs.Stat) { st.Size++ })
	was("read", func(st *hostfs.Stat) { st.Atime++ })
	was("edited", func(st *hostfs.Stat) { st.Ctime-- })
	was("recent", func(st *hostfs.Stat) { st.Ctime += later })
	was("replaced", func(st *hostfs.Stat) { st.Ino++ })
	var told []string
	sure, unsure := changes(nil, fd, before)
	for _, e := range sure {
		told = append(told, e.Name)
	}
	if len(unsure) != 1 || unsure[0].Name != "replaced" { // which is heard of
		t.Errorf("in doubt about %v", unsure)
	}
	slices.Sort(told)
	if want := []string{"", "edited", "f", "recent"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

// TestMuteRefuses: what cannot be muted is heard as before.
func TestMuteRefuses(t *testing.T) {
	w := newWatching(t)
	if _, err := w.src.Mute("d", w.id("")); !errors.Is(err, hostfs.ErrChanged) {
		t.Errorf("another directory: %v", err)
	}
	w.must(os.Mkdir(w.path("unwatched"), 0o755))
	if _, err := w.src.Mute("unwatched", w.id("unwatched")); !errors.Is(err, hostfs.ErrChanged) {
		t.Errorf("a directory that is not watched: %v", err)
	}
	w.expect("it is watched then", w.hears("unwatched/f"), false)
	for i := range maxMuted - 1 {
		w.write("d/" + strconv.Itoa(i))
	}
	_ = w.mute("d")()
	w.write("d/last")
	if _, err := w.src.Mute("d", w.id("d")); !errors.Is(err, errManyNames) {
		t.Errorf("a directory with many names: %v", err)
	}
	w.expect("an edit in it is heard", w.hears("d/f"), true)
	w.expect("it is held", w.holds("d"), false)
}

// TestMutedDirectoryIsRenamed: it is armed where it is, and not what came to its
// place.
func TestMutedDirectoryIsRenamed(t *testing.T) {
	w := newWatching(t)
	arm := w.mute("d")
	w.must(os.Rename(w.path("d"), w.path("e")))
	w.must(os.Mkdir(w.path("d"), 0o755))
	w.expect("an edit is heard while muted", w.hears("e/f"), false)
	w.expect("an edit is told of where it is", slices.Contains(paths(arm()), "e/f"), true)
	w.expect("an edit is heard afterwards", w.hears("e/f"), true)
	w.expect("the other directory is heard", w.hears("d/g"), false)
}

// TestMutedDirectoryIsRemoved: nothing is armed in its place.
func TestMutedDirectoryIsRemoved(t *testing.T) {
	w := newWatching(t)
	arm := w.mute("d")
	w.must(os.RemoveAll(w.path("d")))
	w.must(os.Mkdir(w.path("d"), 0o755))
	w.expect("the removal is heard", slices.Contains(w.heard(), "d"), true)
	_ = arm()
	w.expect("the other directory is heard", w.hears("d/g"), false)
	if n := len(w.src.byWD); n != 1 {
		t.Errorf("%d watches, want the root's", n)
	}
	w.must(w.src.Add("d", w.id("d")))
	w.expect("it is heard when it is watched", w.hears("d/g"), true)
}

// TestMutedDirectoryIsGivenUp: when it is moved out of the folder, and when its
// watch is lost, nothing is armed.
func TestMutedDirectoryIsGivenUp(t *testing.T) {
	w := newWatching(t)
	id := w.id("d")
	arm := w.mute("d")
	w.must(os.Rename(w.path("d"), filepath.Join(w.base, "away")))
	w.heard()
	w.expect("it is given up", slices.Equal(w.gone, []hostfs.ID{id}), true)
	if b := arm(); len(b.Events)+len(b.Gone) > 0 {
		t.Errorf("told of %q, %v", paths(b), b.Gone)
	}
	w.must(os.Rename(filepath.Join(w.base, "away"), w.path("d")))
	w.expect("it is heard when it is back", w.hears("d/f"), false)

	w.must(w.src.Add("d", id))
	arm = w.mute("d")
	for wd, d := range w.src.byWD {
		if d.id == id {
			_, err := unix.InotifyRmWatch(w.src.fd, uint32(wd))
			w.must(err)
		}
	}
	b := arm()
	w.expect("it is given up", slices.Equal(b.Gone, []hostfs.ID{id}) && len(b.Events) == 0, true)
	w.expect("it is heard", w.hears("d/f"), false)
}

// TestArmAfterClose gives the directory back.
func TestArmAfterClose(t *testing.T) {
	w := newWatching(t)
	arm := w.mute("d")
	w.expect("it is held while muted", w.holds("d"), true)
	w.must(w.src.Close())
	if b := arm(); len(b.Events)+len(b.Gone) > 0 {
		t.Errorf("told of %q, %v", paths(b), b.Gone)
	}
	w.expect("it is held", w.holds("d"), false)
	if _, err := w.src.Mute("d", w.id("d")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("muted after the end: %v", err)
	}
}
