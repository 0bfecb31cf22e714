//go:build linux

package fuse

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(mapperEnv); path != "" {
		runMapper(path)
		return
	}
	hostfs.ClearUmask()
	os.Exit(m.Run())
}

// mounted is a mount of a fresh folder.
type mounted struct {
	*Server
	root *hostfs.Root
	host string // the folder
	mnt  string // the mount of it

	close func() error
}

// Close detaches the mount and ends the server.
func (m *mounted) Close() error { return m.close() }

// mount mounts a new folder; configure may change the options.
func mount(t *testing.T, configure func(*vfs.Options)) *mounted {
	t.Helper()
	require.Mount(t)
	base := t.TempDir()
	m := &mounted{host: filepath.Join(base, "host"), mnt: filepath.Join(base, "mnt")}
	for _, d := range []string{m.host, m.mnt} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.remount(t, configure)
	return m
}

func (m *mounted) remount(t *testing.T, configure func(*vfs.Options)) {
	t.Helper()
	root, err := hostfs.OpenRoot(m.host)
	if err != nil {
		t.Fatal(err)
	}
	o := vfs.Options{Root: root, Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil))}
	if configure != nil {
		configure(&o)
	}
	dev, err := none.Mount(m.mnt, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ServeFile(dev, o, nil)
	if err != nil {
		none.Unmount(m.mnt)
		t.Fatal(err)
	}
	m.Server, m.root = s, root
	m.close = sync.OnceValue(func() error {
		var err error
		if os.Geteuid() == 0 { // whoever waits in it is let go
			err = unix.Unmount(m.mnt, unix.MNT_FORCE|unix.MNT_DETACH)
		} else {
			none.Unmount(m.mnt)
		}
		return errors.Join(err, s.Close())
	})
	closed := m.close
	t.Cleanup(func() {
		if err := closed(); err != nil {
			t.Errorf("close: %v", err)
		}
		<-s.Done()
		root.Close()
	})
	pollOnce(t, m.mnt)
}

// pollOnce makes the kernel learn that we do not poll, before the runtime's
// poller blocks a thread on a file of our own mount.
func pollOnce(t *testing.T, mnt string) {
	t.Helper()
	fd, err := unix.Open(filepath.Join(mnt, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// recorder is an Interceptor that notes what passes, checks the protocol, and
// asks gate, if set, what to do.
type recorder struct {
	guard fsbridge.Guard
	gate  func(op *fsbridge.Op) error
	// remove, if set, may perform the removal of op (the log adopts).
	remove func(op *fsbridge.Op) (bool, error)
	// held, if set, counts the names that remove made of a file.
	held func(id hostfs.ID) int

	mu      sync.Mutex
	seen    []fsbridge.Kind
	created int
	open    int
}

func (r *recorder) Held(id hostfs.ID) int {
	if r.held == nil {
		return 0
	}
	return r.held(id)
}

func (r *recorder) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	if r.gate != nil {
		if err := r.gate(op); err != nil {
			return fsbridge.Ticket{}, err
		}
	}
	ino := op.Dir
	if ino == nil {
		ino = op.Node
	}
	ticket := r.guard.Enter(ino.ID.Ino)
	if err := op.Validate(ticket.Epoch); err != nil {
		r.guard.Exit(ticket)
		return fsbridge.Ticket{}, err
	}
	if r.remove != nil {
		done, err := r.remove(op)
		if err != nil {
			r.guard.Exit(ticket)
			return fsbridge.Ticket{}, err
		}
		ticket.Performed = done
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, op.Kind)
	r.open++
	return ticket, nil
}

func (r *recorder) End(ticket fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	r.guard.Exit(ticket)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if created != nil {
		r.created++
	}
}

// take returns what was seen since the last call.
func (r *recorder) take() []fsbridge.Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen
	r.seen = nil
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const mapperEnv = "FUSE_TEST_MAPPER"

// mapper starts a program that maps the file, closes it, and stores bytes into
// the mapping when asked to. It must be another process: a page fault that
// waits for our own server would hold up our garbage collector, and that the
// server.
func mapper(t *testing.T, path string) (store func(off int, b byte)) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mapperEnv+"="+path)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("mapper: %v", err)
		}
	})
	ok := func() {
		t.Helper()
		var b [1]byte
		if _, err := io.ReadFull(out, b[:]); err != nil {
			t.Fatalf("mapper: %v", err)
		}
	}
	ok()
	return func(off int, b byte) {
		t.Helper()
		_, err := fmt.Fprintf(in, "%d %d\n", off, b)
		check(t, err)
		ok()
	}
}

func runMapper(path string) {
	fatal := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	fatal(err)
	mem, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	fatal(err)
	fatal(unix.Close(fd))
	for {
		_, err = os.Stdout.Write([]byte{'k'})
		fatal(err)
		var off int
		var b byte
		if _, err := fmt.Scanln(&off, &b); err != nil {
			return
		}
		mem[off] = b
	}
}
