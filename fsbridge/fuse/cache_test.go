//go:build linux

package fuse

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func idOf(t *testing.T, path string) hostfs.ID {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Lstat(path, &st))
	return hostfs.ID{Dev: st.Dev, Ino: st.Ino}
}

func pread(t *testing.T, fd int) string {
	t.Helper()
	buf := make([]byte, 64)
	n, err := unix.Pread(fd, buf, 0)
	check(t, err)
	return string(buf[:n])
}

// TestInvalidate changes the host as a rollback does, with the modification
// times put back, and expects the mount to show it: contents (also through a
// descriptor that is held open), sizes, names, negative names and listings.
func TestInvalidate(t *testing.T) {
	for _, c := range []struct {
		name    string
		all     bool
		noEpoch bool
	}{{"listed", false, false}, {"all", true, false}, {"listed, old kernel", false, true}, {"all, old kernel", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			m := mount(t, nil)
			m.noEpoch.Store(c.noEpoch)
			p := func(n string) string { return filepath.Join(m.mnt, n) }
			h := func(n string) string { return filepath.Join(m.host, n) }
			check(t, os.Mkdir(h("d"), 0o755))
			check(t, os.WriteFile(h("d/f"), []byte("before"), 0o644))
			check(t, os.WriteFile(h("d/gone"), nil, 0o644))
			fd, err := unix.Open(p("d/f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
			check(t, err)
			defer unix.Close(fd)
			var st unix.Stat_t
			check(t, unix.Stat(h("d/f"), &st))
			_, err = unix.Pwrite(fd, []byte("in the step"), 0)
			check(t, err)
			if got := pread(t, fd); got != "in the step" {
				t.Fatalf("read %q", got)
			}
			_, err = os.Stat(p("d/new"))
			if !os.IsNotExist(err) {
				t.Fatal(err)
			}
			_, err = os.ReadDir(p("d"))
			check(t, err)
			check(t, func() error { _, err := os.Stat(p("d/gone")); return err }())
			changes := fsbridge.Changes{All: c.all}
			if !c.all {
				changes.List = []fsbridge.Change{
					{ID: idOf(t, h("d/f"))},
					{Dir: idOf(t, h("d")), Name: "new"},
					{Dir: idOf(t, h("d")), Name: "gone", ID: idOf(t, h("d/gone"))},
				}
			}
			check(t, os.WriteFile(h("d/f"), []byte("before"), 0o644))
			times := []unix.Timespec{st.Atim, st.Mtim}
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, h("d/f"), times, 0))
			check(t, os.WriteFile(h("d/new"), []byte("n"), 0o644))
			check(t, os.Remove(h("d/gone")))
			check(t, m.Invalidate(changes))

			if got := pread(t, fd); got != "before" {
				t.Errorf("the open file reads %q", got)
			}
			var now unix.Stat_t
			check(t, unix.Fstat(fd, &now))
			if now.Size != 6 || now.Mtim != st.Mtim {
				t.Errorf("the open file has size %d, mtime %v; want 6, %v", now.Size, now.Mtim, st.Mtim)
			}
			if got, err := os.ReadFile(p("d/new")); err != nil || string(got) != "n" {
				t.Errorf("new: %q, %v", got, err)
			}
			if _, err := os.Stat(p("d/gone")); !os.IsNotExist(err) {
				t.Errorf("gone: %v", err)
			}
			if got := listed(t, p("d")); !slices.Equal(got, []string{"f", "new"}) {
				t.Errorf("listed %q", got)
			}
		})
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestChanged: edits from outside show once the watcher told of their paths;
// what the workload did itself costs no notification.
func TestChanged(t *testing.T) {
	var mu sync.Mutex
	var watched []string
	m := mount(t, func(o *vfs.Options) {
		o.OnList = func(path string, _ hostfs.ID) bool {
			mu.Lock()
			defer mu.Unlock()
			watched = append(watched, path)
			return path != "unwatched"
		}
	})
	p := func(n string) string { return filepath.Join(m.mnt, n) }
	h := func(n string) string { return filepath.Join(m.host, n) }
	for _, d := range []string{"d", "unwatched", "never"} {
		check(t, os.Mkdir(h(d), 0o755))
		check(t, os.WriteFile(h(d+"/f"), []byte("one"), 0o644))
	}
	read := func(n string) string {
		b, err := os.ReadFile(p(n))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	if read("d/f") != "one" || read("unwatched/f") != "one" {
		t.Fatal("cannot read")
	}
	_, err := os.Stat(p("d/new"))
	if !os.IsNotExist(err) {
		t.Fatal(err)
	}
	mu.Lock()
	if want := []string{".", "d", "unwatched"}; !slices.Equal(watched, want) {
		t.Errorf("watched %q before their first use, want %q", watched, want)
	}
	mu.Unlock()
	check(t, os.WriteFile(h("unwatched/f"), []byte("seen at once"), 0o644))
	if got := read("unwatched/f"); got != "seen at once" {
		t.Errorf("where nobody watches: %q", got)
	}
	check(t, os.WriteFile(h("d/f"), []byte("two, longer"), 0o644))
	check(t, os.WriteFile(h("d/new"), []byte("new"), 0o644))
	check(t, m.Changed([]string{"d", "d/f", "d/new", "d/absent", "no/such/dir"}))
	if got := read("d/f"); got != "two, longer" {
		t.Errorf("changed: %q", got)
	}
	if got := read("d/new"); got != "new" {
		t.Errorf("new: %q", got)
	}
	check(t, os.Remove(h("d/new")))
	check(t, m.Changed([]string{"d/new"}))
	if _, err := os.Stat(p("d/new")); !os.IsNotExist(err) {
		t.Errorf("removed: %v", err)
	}
	check(t, os.WriteFile(p("d/own"), []byte("own"), 0o644))
	_ = read("d/own")
	_ = read("d/own") // the first one updated the access time
	before := m.Tree().Counts()
	check(t, m.Changed([]string{"d/own"}))
	_ = read("d/own")
	after := m.Tree().Counts()
	for _, op := range []string{"READ", "LOOKUP"} {
		if before[op] != after[op] {
			t.Errorf("%s requests after an edit of our own was announced: %d", op, after[op]-before[op])
		}
	}
}

// TestChangedWhileWriting: the pages of a file that the workload is writing to
// are not dropped each time the watcher tells of it, and yet an edit from
// outside shows.
func TestChangedWhileWriting(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.OnList = func(string, hostfs.ID) bool { return true } })
	f, err := os.Create(filepath.Join(m.mnt, "busy"))
	check(t, err)
	defer f.Close()
	told := func() (pages, later bool) {
		o := m.tree.Edited([]fsbridge.DirChanges{{Names: []string{"busy"}}}, func(uint64, string) { later = true })
		st, err := hostfs.StatAt(m.root.FD(), "busy")
		check(t, err)
		return o.Nodes[m.tree.NodeID(st.ID)], later
	}
	for range 3 {
		_, err = f.WriteAt([]byte("written inside"), 0)
		check(t, err)
		if pages, later := told(); pages || !later {
			t.Errorf("after a write: drop the pages %v, look again %v", pages, later)
		}
	}
	host, err := os.OpenFile(filepath.Join(m.host, "busy"), os.O_WRONLY, 0)
	check(t, err)
	defer host.Close()
	_, err = host.WriteAt([]byte("outside"), 0)
	check(t, err)
	if pages, later := told(); !pages || later {
		t.Errorf("after an edit: drop the pages %v, look again %v", pages, later)
	}
	_, err = f.WriteAt([]byte("in"), 12)
	check(t, err)
	_, err = host.WriteAt([]byte("OUTSIDE"), 0)
	check(t, err)
	check(t, m.Changed([]string{"busy"}))
	actortest.Eventually(t, "the edit shows", func() bool {
		b := make([]byte, 14)
		_, err := f.ReadAt(b, 0)
		return err == nil && string(b) == "OUTSIDE insiin"
	})
}

// TestMissedEdit: an edit that nobody told us of shows at the next open.
func TestMissedEdit(t *testing.T) {
	m := mount(t, nil)
	name := filepath.Join(m.host, "f")
	check(t, os.WriteFile(name, []byte("one"), 0o644))
	_, err := os.ReadFile(filepath.Join(m.mnt, "f"))
	check(t, err)
	check(t, os.WriteFile(name, []byte("two"), 0o644))
	fd, err := unix.Open(filepath.Join(m.mnt, "f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	if got := pread(t, fd); got != "two" {
		t.Errorf("read %q", got)
	}
}

// TestWarm counts the requests of work that the kernel can answer by itself.
func TestWarm(t *testing.T) {
	m := mount(t, nil)
	for i := range 50 {
		dir := filepath.Join(m.host, fmt.Sprint(i%5))
		_ = os.Mkdir(dir, 0o755)
		check(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte("x"), 0o644))
	}
	walk := func() {
		check(t, filepath.WalkDir(m.mnt, func(path string, e os.DirEntry, err error) error {
			if err == nil {
				_, err = e.Info()
			}
			_, _ = os.Lstat(filepath.Join(path, "absent"))
			return err
		}))
	}
	walk()
	walk() // the first pass primes the listings, this one the attributes
	before := m.Tree().Counts()
	walk()
	after := m.Tree().Counts()
	total := uint64(0)
	for op, n := range after {
		total += n - before[op]
	}
	if total > 2 {
		t.Errorf("a warm walk of 50 files cost %d requests: %v, then %v", total, before, after)
	}
}

// TestFence: bytes stored in a mapping reach the host by the fence, without
// msync, munmap or close, and pass the Interceptor.
func TestFence(t *testing.T) {
	r := new(recorder)
	m := mount(t, func(o *vfs.Options) { o.Hooks = r })
	check(t, os.WriteFile(filepath.Join(m.host, "f"), bytes.Repeat([]byte("."), 8192), 0o644))
	store := mapper(t, filepath.Join(m.mnt, "f"))
	n := m.Tree().Object(idOf(t, filepath.Join(m.host, "f")))
	for round := range 3 {
		r.take()
		store(5000, byte('0'+round))
		if n.Place.Writers() != 1 || n.Place.Handles() != 1 {
			t.Errorf("the mapping counts as %d writers, %d handles", n.Place.Writers(), n.Place.Handles())
		}
		check(t, m.Fence(context.Background()))
		got, err := os.ReadFile(filepath.Join(m.host, "f"))
		check(t, err)
		if got[5000] != byte('0'+round) {
			t.Errorf("round %d: the host has %q", round, got[5000])
		}
		if seen := r.take(); !slices.Contains(seen, fsbridge.OpWrite) {
			t.Errorf("round %d: the Interceptor saw %v", round, seen)
		}
	}
}

// TestFenceTimeout: a fence that cannot finish gives up with its context.
func TestFenceTimeout(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	r := &recorder{gate: func(op *fsbridge.Op) error {
		if op.Kind == fsbridge.OpWrite {
			close(held)
			<-release
		}
		return nil
	}}
	m := mount(t, func(o *vfs.Options) { o.Hooks = r })
	check(t, os.WriteFile(filepath.Join(m.host, "f"), make([]byte, 4096), 0o644))
	store := mapper(t, filepath.Join(m.mnt, "f"))
	store(0, 1)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- m.Fence(ctx) }()
	<-held
	cancel()
	within(t, "the fence", func() {
		if err := <-result; err == nil {
			t.Error("the fence succeeded")
		}
	})
	close(release)
}
