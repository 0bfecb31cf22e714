package watcher

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// watchedMount is a folder behind a real mount, whose kernel keeps what it was
// told for an hour, with a watcher.
type watchedMount struct {
	t               *testing.T
	base, host, mnt string

	mutes atomic.Int32 // of directories

	mu        sync.Mutex
	announced []string
	left      map[string]string // see differ; nil: everything is announced
}

// countMutes is a source that counts how often a directory was muted.
type countMutes struct {
	*inotify
	n *atomic.Int32
}

func (c countMutes) Mute(dir string, id hostfs.ID) (func() Batch, error) {
	arm, err := c.inotify.Mute(dir, id)
	if err == nil {
		c.n.Add(1)
	}
	return arm, err
}

func newWatchedMount(t *testing.T) *watchedMount {
	t.Helper()
	require.Mount(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &watchedMount{t: t, base: base, host: filepath.Join(base, "host"), mnt: filepath.Join(base, "mnt")}
	for _, dir := range []string{m.host, m.mnt} {
		m.must(os.Mkdir(dir, 0o755))
	}
	root, err := hostfs.OpenRoot(m.host)
	m.must(err)
	var server *direct.Mounted
	src, err := newSource(m.host)
	m.must(err)
	w, err := New(Options{
		Root: m.host, Clock: supervision.RealClock{}, Source: countMutes{src.(*inotify), &m.mutes},
		Bridge: func() fsbridge.Bridge { return server },
		Check: func(paths []string, done func(undolog.Outside, error)) {
			done(undolog.Outside{Barriers: m.differ(paths), Unsure: paths}, nil)
		},
		Ours: m.ours,
		External: func(paths []string, _ []undolog.Barrier) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.announced = append(m.announced, paths...)
		},
	})
	m.must(err)
	server, err = direct.Mount(m.mnt, vfs.Options{Root: root, OnList: w.Watch, OnBusy: w.Busy})
	m.must(err)
	m.pollOnce()
	system := actor.NewActorSystem()
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return NewActor(w) }))
	t.Cleanup(func() {
		_ = system.Root.StopFuture(pid).Wait()
		m.must(w.Close())
		m.must(server.Close())
		<-server.Done()
		m.must(root.Close())
		system.Shutdown()
	})
	return m
}

// pollOnce makes the kernel learn that nobody polls there, before the runtime's
// poller blocks a thread on a file of our own mount.
func (m *watchedMount) pollOnce() {
	m.t.Helper()
	fd, err := unix.Open(filepath.Join(m.mnt, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	m.must(err)
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
}

func (m *watchedMount) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *watchedMount) outside(path string) string { return filepath.Join(m.host, path) }

// edit writes a file from outside.
func (m *watchedMount) edit(path, content string) {
	m.t.Helper()
	m.must(os.WriteFile(m.outside(path), []byte(content), 0o644))
}

// shows waits until the mount has the content; it was read before, and the
// kernel asks nobody.
func (m *watchedMount) shows(path, content string) {
	m.t.Helper()
	actortest.Eventually(m.t, "the mount shows "+path+" as "+content, func() bool {
		b, err := os.ReadFile(filepath.Join(m.mnt, path))
		return err == nil && string(b) == content
	})
}

// announces edits a file from outside until that is announced: what happens
// before a directory is watched again is not.
func (m *watchedMount) announces(path string) {
	m.t.Helper()
	n := 0
	actortest.Eventually(m.t, path+" is announced", func() bool {
		n++
		m.edit(path, strings.Repeat("x", n))
		return m.told(path)
	})
	m.shows(path, strings.Repeat("x", n))
}

func (m *watchedMount) forgetAnnounced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.announced = nil
}

// TestEditsBelowARenamedDirectory edits files from outside below a directory
// that was renamed: the mount shows them, and they are announced where they
// are.
func TestEditsBelowARenamedDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		to     string // where it is in the end
		rename func(m *watchedMount) error
	}{
		"by the workload": {"e", func(m *watchedMount) error { return os.Rename(m.mnt+"/d", m.mnt+"/e") }},
		"from outside":    {"e", func(m *watchedMount) error { return os.Rename(m.outside("d"), m.outside("e")) }},
		"into a directory that nobody has looked into": {"far/away/e", func(m *watchedMount) error {
			return os.Rename(m.outside("d"), m.outside("far/away/e"))
		}},
		"away and back": {"far/away/e", func(m *watchedMount) error {
			if err := os.Rename(m.outside("d"), m.base+"/elsewhere"); err != nil {
				return err
			}
			return os.Rename(m.base+"/elsewhere", m.outside("far/away/e"))
		}},
		"and replaced by another": {"e", func(m *watchedMount) error {
			if err := os.Rename(m.outside("d"), m.outside("e")); err != nil {
				return err
			}
			m.must(os.MkdirAll(m.outside("d/sub"), 0o755))
			m.edit("d/sub/f", "another")
			m.shows("d/sub/f", "another")
			m.edit("d/sub/f", "another one")
			m.shows("d/sub/f", "another one")
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newWatchedMount(t)
			m.must(os.MkdirAll(m.outside("d/sub"), 0o755))
			m.must(os.MkdirAll(m.outside("far/away"), 0o755))
			m.edit("d/sub/f", "one")
			m.shows("d/sub/f", "one")
			if _, err := os.Stat(m.mnt + "/d/sub/new"); !os.IsNotExist(err) {
				t.Fatal(err)
			}
			m.must(c.rename(m))
			m.edit(c.to+"/sub/f", "two, longer")
			m.shows(c.to+"/sub/f", "two, longer")
			m.edit(c.to+"/sub/f", "three, longer still")
			m.edit(c.to+"/sub/new", "new")
			m.shows(c.to+"/sub/f", "three, longer still")
			m.shows(c.to+"/sub/new", "new")
			m.forgetAnnounced()
			m.announces(c.to + "/sub/f")
			m.announces(c.to + "/sub/new")
		})
	}
}
