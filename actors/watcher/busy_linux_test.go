package watcher

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// busyFile is written to all the time, but never grows by that.
const busyFile = "busy"

// stamp is how a path is on the host: what the undo log compares.
func (m *watchedMount) stamp(path string) string {
	st, err := os.Lstat(m.outside(path))
	switch {
	case err != nil:
		return ""
	case st.IsDir():
		return "directory"
	case filepath.Base(path) == busyFile:
		return strconv.FormatInt(st.Size(), 10)
	}
	return fmt.Sprint(st.Size(), st.Mode(), st.ModTime().UnixNano())
}

// leave notes how everything is: from now on only what is not so is announced.
func (m *watchedMount) leave() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = map[string]string{}
	m.must(filepath.WalkDir(m.host, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(m.host, path); rel != "." {
			m.left[rel] = m.stamp(rel)
		}
		return err
	}))
}

// differ stands in for the undo log.
func (m *watchedMount) differ(paths []string) (barriers []undolog.Barrier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		return nil
	}
	for _, p := range paths {
		if s := m.stamp(p); s != m.left[p] {
			m.left[p] = s
			barriers = append(barriers, undolog.Barrier{Paths: []string{p}})
		}
	}
	return barriers
}

// ours is never, so that everything is announced, until leave.
func (m *watchedMount) ours() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		return time.Time{}
	}
	return time.Now()
}

// busy has the workload write to a file all the time, until the test ends, and
// waits until its directory was muted.
func (m *watchedMount) busy(path string) {
	m.t.Helper()
	fd, err := unix.Open(filepath.Join(m.mnt, path), unix.O_RDWR|unix.O_CLOEXEC, 0)
	m.must(err)
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			_, err = unix.Pwrite(fd, []byte("written"), 0)
		}
		ended <- err
	}()
	m.t.Cleanup(func() {
		stop.Store(true)
		m.must(<-ended)
		m.must(unix.Close(fd))
	})
	m.mutedAgain()
}

// mutedAgain waits until a directory is muted.
func (m *watchedMount) mutedAgain() {
	m.t.Helper()
	n := m.mutes.Load()
	actortest.Eventually(m.t, "a busy directory is muted", func() bool { return m.mutes.Load() > n })
}

func (m *watchedMount) told(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.announced, path)
}

// tells waits until all of the paths are announced.
func (m *watchedMount) tells(paths []string) {
	m.t.Helper()
	for _, p := range paths {
		actortest.Eventually(m.t, p+" is announced", func() bool { return m.told(p) })
	}
}

func (m *watchedMount) stat(path string) unix.Stat_t {
	var st unix.Stat_t
	_ = unix.Lstat(filepath.Join(m.mnt, path), &st)
	return st
}

func (m *watchedMount) missing(path string) {
	m.t.Helper()
	actortest.Eventually(m.t, "the mount does not show "+path, func() bool {
		_, err := os.Lstat(filepath.Join(m.mnt, path))
		return os.IsNotExist(err)
	})
}

// TestEditsBesideABusyFile edits from outside beside a file, and the file, that
// the workload writes to all the time: the mount shows all that, it is announced,
// and nothing else is.
func TestEditsBesideABusyFile(t *testing.T) {
	m := newWatchedMount(t)
	m.must(os.MkdirAll(m.outside("d/sub"), 0o755))
	m.edit("d/busy", "written")
	for _, p := range []string{"d/edited", "d/touched", "d/removed", "d/same", "d/sub/f"} {
		m.edit(p, "before")
		m.shows(p, "before")
	}
	m.missing("d/new")
	m.leave()
	m.busy("d/" + busyFile)

	for name, c := range map[string]struct {
		edit func()
		told []string
	}{
		"an edit": {func() {
			m.edit("d/edited", "after, and longer")
			m.shows("d/edited", "after, and longer")
		}, []string{"d/edited"}},
		"an edit of the busy file": {func() {
			f, err := os.OpenFile(m.outside("d/busy"), os.O_WRONLY|os.O_APPEND, 0)
			m.must(err)
			_, err = f.WriteString("appended")
			m.must(err)
			m.must(f.Close())
			size := int64(len("written" + "appended"))
			actortest.Eventually(t, "the mount shows the new size", func() bool { return m.stat("d/busy").Size == size })
		}, []string{"d/busy"}},
		"new times": {func() {
			at := time.Unix(1_000_000_000, 0)
			m.must(os.Chtimes(m.outside("d/touched"), at, at))
			actortest.Eventually(t, "the mount shows the new time", func() bool { return m.stat("d/touched").Mtim.Sec == at.Unix() })
		}, []string{"d/touched"}},
		"a new file": {func() {
			m.edit("d/new", "new")
			m.shows("d/new", "new")
		}, []string{"d/new"}},
		"a removal": {func() {
			m.must(os.Remove(m.outside("d/removed")))
			m.missing("d/removed")
		}, []string{"d/removed"}},
		"a rename of a directory": {func() {
			m.must(os.Rename(m.outside("d/sub"), m.outside("d/moved")))
			m.shows("d/moved/f", "before")
			m.missing("d/sub")
			m.edit("d/moved/f", "after, and longer")
			m.shows("d/moved/f", "after, and longer")
		}, []string{"d/sub", "d/moved"}},
	} {
		m.forgetAnnounced()
		m.mutedAgain()
		c.edit()
		m.tells(c.told)
		m.mutedAgain()
		for _, p := range []string{"d", "d/same"} {
			if m.told(p) {
				t.Errorf("%s: %s is announced", name, p)
			}
		}
	}
}

// TestBusyDirectoryGoes renames or replaces a directory while the workload writes
// to a file in it all the time.
func TestBusyDirectoryGoes(t *testing.T) {
	for name, c := range map[string]struct {
		to   string // where it is in the end
		move func(m *watchedMount)
	}{
		"renamed by the workload": {"e", func(m *watchedMount) { m.must(os.Rename(m.mnt+"/d", m.mnt+"/e")) }},
		"renamed from outside":    {"e", func(m *watchedMount) { m.must(os.Rename(m.outside("d"), m.outside("e"))) }},
		"away and back": {"e", func(m *watchedMount) {
			m.must(os.Rename(m.outside("d"), m.base+"/elsewhere"))
			m.must(os.Rename(m.base+"/elsewhere", m.outside("e")))
		}},
		"removed, and another made": {"d", func(m *watchedMount) {
			m.must(os.RemoveAll(m.outside("d")))
			m.must(os.Mkdir(m.outside("d"), 0o755))
			m.edit("d/f", "another")
		}},
		"renamed, and another made": {"d", func(m *watchedMount) {
			m.must(os.Rename(m.outside("d"), m.outside("e")))
			m.must(os.Mkdir(m.outside("d"), 0o755))
			m.edit("d/f", "another")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newWatchedMount(t)
			m.must(os.Mkdir(m.outside("d"), 0o755))
			m.edit("d/busy", "before")
			m.edit("d/f", "before")
			m.shows("d/f", "before")
			m.busy("d/" + busyFile)
			c.move(m)
			m.edit(c.to+"/f", "after, and longer")
			m.shows(c.to+"/f", "after, and longer")
			m.leave()
			m.forgetAnnounced()
			actortest.Eventually(t, "an edit is announced", func() bool {
				m.edit(c.to+"/f", time.Now().String())
				_ = m.stat(c.to + "/f") // a directory that was given up is watched again when it is used
				return m.told(c.to + "/f")
			})
			m.edit(c.to+"/f", "the end")
			m.shows(c.to+"/f", "the end")
		})
	}
}

// TestWritesToAMutedDirectory: none of a thousand writes is an event.
func TestWritesToAMutedDirectory(t *testing.T) {
	require.Mount(t)
	w := newWatching(t)
	mnt := filepath.Join(w.base, "mnt")
	w.must(os.Mkdir(mnt, 0o755))
	root, err := hostfs.OpenRoot(w.path(""))
	w.must(err)
	type place struct {
		dir string
		id  hostfs.ID
	}
	busy := make(chan place, 100)
	server, err := direct.Mount(mnt, vfs.Options{
		Root:   root,
		OnList: func(dir string, id hostfs.ID) bool { return w.src.Add(dir, id) == nil },
		OnBusy: func(dir string, id hostfs.ID) { busy <- place{dir, id} },
	})
	w.must(err)
	(&watchedMount{t: t, mnt: mnt}).pollOnce()
	defer func() {
		w.must(server.Close())
		<-server.Done()
		w.must(root.Close())
	}()
	fd, err := unix.Open(mnt+"/d/f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	w.must(err)
	defer unix.Close(fd)
	write := func(times int) {
		for range times {
			_, err := unix.Pwrite(fd, []byte("x"), 0)
			w.must(err)
		}
	}
	write(63)
	w.expect("writes are heard before", slices.Contains(w.heard(), "d/f") && len(busy) == 0, true)
	write(1)
	if len(busy) != 1 {
		t.Fatalf("called %d times", len(busy))
	}
	at := <-busy
	arm, err := w.src.Mute(at.dir, at.id)
	w.must(err)
	w.heard()
	write(1000)
	if heard := w.heard(); len(heard) > 0 {
		t.Errorf("heard of %q", heard)
	}
	if want := 1000 / 64; len(busy) != want {
		t.Errorf("called %d times, want %d", len(busy), want)
	}
	w.expect("the file is told of", slices.Contains(paths(arm()), "d/f"), true)
	write(1)
	w.expect("a write is heard afterwards", slices.Contains(w.heard(), "d/f"), true)
}
