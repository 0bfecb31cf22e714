//go:build linux

package none

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// start brings up a guest whose one share is a loopback of a temporary folder.
func start(t *testing.T) (hypervisor.Guest, string) {
	t.Helper()
	require.Mount(t)
	r := New(Options{Dir: filepath.Join(t.TempDir(), "run")})
	if err := r.Probe(t.Context()); err != nil {
		require.Missing(t, "to run commands without a jail ("+err.Error()+")", "'sandbox doctor' says what is missing")
	}
	host := t.TempDir()
	if err := os.MkdirAll(filepath.Join(host, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := r.Start(t.Context(), hypervisor.Config{Shares: []hypervisor.Share{{
		HostPath: host, GuestPath: host,
		Serve: func(tr hypervisor.Transport) error {
			root, err := fs.NewLoopbackRoot(host)
			if err != nil {
				return err
			}
			fd, err := unix.FcntlInt(tr.File.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the server closes the number
			_ = tr.File.Close()
			if err != nil {
				return err
			}
			srv, err := fuse.NewServer(fs.NewNodeFS(root, &fs.Options{}), "/dev/fd/"+strconv.Itoa(fd), &fuse.MountOptions{})
			if err != nil {
				return err
			}
			go srv.Serve()
			return srv.WaitMount()
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g, host
}

func TestCommandsRunOnTheBridge(t *testing.T) {
	g, host := start(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"sh", "-c", "pwd; echo hi > made; exit 7"}, Dir: filepath.Join(host, "sub"), Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	out, _ := io.ReadAll(r)
	st, err := p.Wait(t.Context())
	if err != nil || st.Code != 7 {
		t.Fatalf("status %+v, %v", st, err)
	}
	if got := strings.TrimSpace(string(out)); got == filepath.Join(host, "sub") || !strings.HasSuffix(got, "/sub") {
		t.Errorf("ran in %q, not on the bridge", got)
	}
	if b, err := os.ReadFile(filepath.Join(host, "sub", "made")); err != nil || string(b) != "hi\n" {
		t.Errorf("made: %q, %v", b, err)
	}
}

// Threads of this program end now and then. No command ends with the one that started it.
// TestHomeOnTheBridge: a home directory that is in a working folder is written by its bridge, and so can be undone; another one is left alone.
func TestHomeOnTheBridge(t *testing.T) {
	g, host := start(t)
	bridge := g.Facts()["mount:"+host]
	elsewhere := t.TempDir()
	for home, want := range map[string]string{host: bridge, host + "/sub/": bridge + "/sub", elsewhere: elsewhere, "": "", "sub": "sub"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		given := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		p, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"sh", "-c", `printf %s "$HOME"`}, Dir: host, Env: given, Stdout: w})
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		out, err := io.ReadAll(r)
		_ = r.Close()
		if _, werr := p.Wait(t.Context()); err != nil || werr != nil || string(out) != want || given[1] != "HOME="+home {
			t.Errorf("HOME=%s: %s, want %s (%v, %v)", home, out, want, err, werr)
		}
	}
}

func TestCommandOutlivesThreads(t *testing.T) {
	g, host := start(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"sh", "-c", "read line; exit 7"}, Dir: host, Stdin: r})
	_ = r.Close()
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan struct{})
	var locked, ended sync.WaitGroup
	for range 64 {
		locked.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends
			locked.Done()
			<-all
		})
	}
	locked.Wait()
	close(all)
	ended.Wait()
	if _, err := w.WriteString("go on\n"); err != nil {
		t.Error(err)
	}
	if st, err := p.Wait(t.Context()); err != nil || st.Code != 7 {
		t.Errorf("status %+v, %v", st, err)
	}
}

func TestStartErrorsAndSignals(t *testing.T) {
	g, host := start(t)
	var se *hypervisor.StartError
	if _, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"no-such-command-here"}, Dir: host}); !errors.As(err, &se) || se.ExitCode != 127 {
		t.Errorf("missing command: %v", err)
	}
	plain := filepath.Join(host, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{plain}, Dir: host}); !errors.As(err, &se) || se.ExitCode != 126 {
		t.Errorf("file that is not executable: %v", err)
	}
	p, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"sleep", "1000"}, Dir: host})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cancel(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(t.Context()); err != nil || st.Code != 128+15 || st.Signal != 15 {
		t.Errorf("cancelled: %+v, %v", st, err)
	}
}

// TestSignalAfterTheEnd: a command that has ended is signalled no more, neither by its own number nor by that of its group, which a process that it has left can keep.
func TestSignalAfterTheEnd(t *testing.T) {
	g, _ := start(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"sh", "-c", "sleep 1000 & echo $!"}, Dir: "/", Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(left, unix.SIGKILL) }()
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []unix.Signal{0, unix.SIGKILL} {
		if err := p.Signal(int(sig)); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%v: %v", sig, err)
		}
	}
	if err := p.Cancel(0); err != nil {
		t.Error(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(left) + "/stat")
	if err != nil || strings.Contains(string(stat), ") Z ") {
		t.Errorf("what it left was signalled: %s %v", stat, err)
	}
}

func TestTerminal(t *testing.T) {
	g, host := start(t)
	p, err := g.Exec(t.Context(), hypervisor.Command{
		Argv: []string{"sh", "-c", "stty size; test -t 0 && echo tty"}, Dir: host,
		TTY: &hypervisor.TTY{Rows: 33, Cols: 77, Term: "xterm"},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(p.Terminal()) // ends with EIO when the command has gone
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := string(out); !strings.Contains(s, "33 77") || !strings.Contains(s, "tty\r\n") {
		t.Errorf("terminal said %q", s)
	}
}

func TestStopLeavesNothingMounted(t *testing.T) {
	g, _ := start(t)
	var point string
	for k, v := range g.Facts() {
		if strings.HasPrefix(k, "mount:") {
			point = v
		}
	}
	if _, err := g.Exec(t.Context(), hypervisor.Command{Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(point); !os.IsNotExist(err) {
		t.Errorf("mount point is still there: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), point) {
		t.Error("still mounted")
	}
}
