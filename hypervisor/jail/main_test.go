//go:build linux

package jail_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// guestBinary builds sandbox-guest once. A child of the tests gets it by name.
var guestBinary = sync.OnceValues(func() ([]byte, error) {
	if p := os.Getenv("JAIL_TEST_GUEST"); p != "" {
		return os.ReadFile(p)
	}
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "sandbox-guest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "github.com/codeagent/sandbox/cmd/sandbox-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, text)
	}
	return os.ReadFile(out)
})

func TestMain(m *testing.M) {
	if os.Getenv("JAIL_TEST_SUPERVISOR") != "" {
		supervise()
		return
	}
	os.Exit(m.Run())
}

var (
	runtimeOnce sync.Once
	theRuntime  *jail.Runtime
)

func newRuntime() *jail.Runtime {
	runtimeOnce.Do(func() { theRuntime = jail.New(jail.Options{GuestBinary: guestBinary, Umask: 0o022}) })
	return theRuntime
}

// share serves a directory by go-fuse's loopback, as the bridge would.
func share(dir string, seen *hypervisor.Transport) hypervisor.Share {
	return hypervisor.Share{HostPath: dir, GuestPath: dir, Serve: func(tr hypervisor.Transport) error {
		if seen != nil {
			*seen = tr
		}
		root, err := hiding(dir, tr.Hide)
		if err != nil {
			return err
		}
		fd, err := unix.Dup(int(tr.File.Fd()))
		if err != nil {
			return err
		}
		if err := tr.File.Close(); err != nil {
			return err
		}
		o := &fs.Options{UID: tr.UID, GID: tr.GID}
		srv, err := fuse.NewServer(fs.NewNodeFS(root, o), fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{})
		if err != nil {
			return err
		}
		go srv.Serve()
		return nil
	}}
}

// hider is a file or directory of a bridge that refuses to open what is hidden.
type hider struct {
	fs.LoopbackNode
	hide []string
}

func hiding(dir string, hide []string) (fs.InodeEmbedder, error) {
	plain, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return nil, err
	}
	root := plain.(*fs.LoopbackNode).RootData
	root.RootNode = &hider{fs.LoopbackNode{RootData: root}, hide}
	return root.RootNode, nil
}

// WrapChild makes each node below hide, too.
func (n *hider) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &hider{fs.LoopbackNode{RootData: n.RootData}, n.hide}
}

func (n *hider) refuses() bool { return slices.Contains(n.hide, n.Path(n.Root())) }

func (n *hider) Opendir(ctx context.Context) syscall.Errno {
	if n.refuses() {
		return syscall.EACCES
	}
	return 0
}

func (n *hider) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if n.refuses() {
		return nil, 0, syscall.EACCES
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}

func (n *hider) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if n.refuses() {
		return nil, 0, syscall.EACCES
	}
	return n.LoopbackNode.Open(ctx, flags)
}

// need skips, or fails in CI, where a jail cannot be started.
func need(t testing.TB) {
	t.Helper()
	if err := newRuntime().Probe(t.Context()); err != nil {
		require.UserNamespaces(t)
		require.FUSE(t)
		require.Missing(t, "to start a jail ("+err.Error()+")", "'sandbox doctor' says what is missing")
	}
}

type jailed struct {
	hypervisor.Guest
	t   testing.TB
	dir string // the working folder
	tr  hypervisor.Transport
	id  int64
	mu  sync.Mutex
}

// start brings up a jail with one working folder.
func start(t testing.TB, change func(*hypervisor.Config)) *jailed {
	t.Helper()
	return startOn(t, newRuntime(), change)
}

// startOn is start with a runtime of the caller's.
func startOn(t testing.TB, rt *jail.Runtime, change func(*hypervisor.Config)) *jailed {
	t.Helper()
	need(t)
	j := &jailed{t: t, dir: t.TempDir()}
	cfg := hypervisor.Config{SessionID: "test", UID: -1, GID: -1, Shares: []hypervisor.Share{share(j.dir, &j.tr)}}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	g, err := rt.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	j.Guest = g
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if err := g.Err(); err != nil {
			t.Errorf("after Stop: %v", err)
		}
	})
	return j
}

func (j *jailed) nextID() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.id++
	return j.id
}

// run runs a command with its output in files and returns it.
func (j *jailed) run(argv ...string) (out string, st hypervisor.ExitStatus, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", st, err
	}
	defer r.Close()
	var buf bytes.Buffer
	read := make(chan struct{})
	go func() { _, _ = buf.ReadFrom(r); close(read) }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p, err := j.Exec(ctx, hypervisor.Command{ID: j.nextID(), Argv: argv, Dir: j.dir, Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		return "", st, err
	}
	st, err = p.Wait(ctx)
	if err == nil {
		<-read
	}
	return strings.TrimSpace(buf.String()), st, err
}

// sh runs a script that must succeed.
func (j *jailed) sh(script string) string {
	j.t.Helper()
	out, st, err := j.run("sh", "-c", script)
	if err != nil || st.Code != 0 {
		j.t.Errorf("%s: %v, status %d: %s", script, err, st.Code, out)
	}
	return out
}

// refused runs a script that must fail with a message.
func (j *jailed) refused(script, message string) {
	j.t.Helper()
	out, st, err := j.run("sh", "-c", script)
	if err != nil || st.Code == 0 || !strings.Contains(out, message) {
		j.t.Errorf("%s: %v, status %d, want %q: %s", script, err, st.Code, message, out)
	}
}
