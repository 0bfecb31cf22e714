package vm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// box is a machine of the real runtime with the real program inside, a working
// folder with an undo log, and a second folder that is read-only.
type box struct {
	t        *testing.T
	dir, ro  string // on the host, and inside
	session  *direct.Session
	readOnly *virtiofs.Server
	g        hypervisor.Guest
	next     int64
	ahead    time.Duration // how far ahead the host's clock is said to be
}

// newBox boots one. What it caches it keeps for an hour, so that what a test
// sees change was invalidated.
func newBox(t *testing.T, program []byte) *box {
	t.Helper()
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	base, err := os.MkdirTemp("/var/tmp", "box-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(base)) })
	b := &box{t: t, dir: filepath.Join(base, "work"), ro: filepath.Join(base, "ro")}
	for _, dir := range []string{b.dir, b.ro} {
		check(t, os.Mkdir(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "a"), []byte("first"), 0o644))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	rt := qemu.New(qemu.Options{
		Arch: "amd64", VM: hypervisor.VM{Accel: "tcg", MemoryBytes: 256 << 20, CPUs: 1, BootTimeout: patience}, Umask: 0o022,
		Now:    func() time.Time { return time.Now().Add(b.ahead) },
		Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)),
		Image: func(context.Context) (qemu.Image, error) {
			f := guestimage.Files(t, program)
			return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, Version: f.Version}, nil
		},
	})
	t.Cleanup(b.close)
	began := time.Now()
	b.g, err = rt.Start(ctx, hypervisor.Config{SessionID: t.Name(), UID: -1, GID: -1, Shares: []hypervisor.Share{
		{HostPath: b.dir, GuestPath: b.dir, Serve: func(tr hypervisor.Transport) (err error) {
			b.session, err = direct.Open(ctx, direct.Options{
				Dir: b.dir, Undo: filepath.Join(base, "undo"), File: tr.File, Sync: tr.Sync, Drop: tr.Drop, TTL: time.Hour,
				Owner: &vfs.Owner{UID: tr.UID, GID: tr.GID},
			})
			return err
		}},
		{HostPath: b.ro, GuestPath: b.ro, ReadOnly: true, Serve: func(tr hypervisor.Transport) error {
			root, err := hostfs.OpenRoot(b.ro)
			if err != nil {
				return err
			}
			t.Cleanup(func() { root.Close() })
			b.readOnly, err = virtiofs.ServeFile(tr.File, virtiofs.Options{Tree: vfs.Options{Root: root, ReadOnly: true}})
			return err
		}},
	}})
	check(t, err)
	t.Logf("booted in %v", time.Since(began))
	return b
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

func (b *box) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.g != nil {
		if err := b.g.Stop(ctx); err != nil {
			b.t.Errorf("stop: %v", err)
		}
	}
	if b.session != nil {
		check(b.t, b.session.Close())
	}
	if b.readOnly != nil {
		check(b.t, b.readOnly.Close())
	}
}

// start starts a command whose output the function returns, once it has ended.
func (b *box) start(c hypervisor.Command) (hypervisor.Process, func() string) {
	b.t.Helper()
	b.next++
	c.ID = b.next
	r, w, err := os.Pipe()
	check(b.t, err)
	if c.TTY == nil {
		c.Stdout, c.Stderr = w, w
	}
	if c.Dir == "" {
		c.Dir = b.dir
	}
	out := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(r)
		r.Close()
		out <- string(text)
	}()
	p, err := b.g.Exec(b.t.Context(), c)
	if err != nil {
		w.Close()
		b.t.Fatalf("%q: %v", c.Argv, err)
	}
	return p, func() string { w.Close(); return <-out }
}

// sh runs a line of shell as the ordinary user.
func (b *box) sh(line string) (out string, code int) {
	b.t.Helper()
	p, text := b.start(hypervisor.Command{Argv: []string{"sh", "-c", line}})
	st := b.wait(p)
	return strings.TrimSpace(text()), st.Code
}

func (b *box) wait(p hypervisor.Process) hypervisor.ExitStatus {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	st, err := p.Wait(ctx)
	check(b.t, err)
	return st
}

// says fails unless the line succeeds with that output.
func (b *box) says(want, line string) {
	b.t.Helper()
	if out, code := b.sh(line); code != 0 || out != want {
		b.t.Errorf("%s: exit %d, %q; want %q", line, code, out, want)
	}
}

// TestGuest: everything that the program inside does, in one machine.
func TestGuest(t *testing.T) {
	b := newBox(t, guestimage.Program(t))
	for _, s := range []struct {
		name string
		test func(*testing.T, *box)
	}{
		{"place", guestPlace}, {"streams", guestStreams}, {"cancel", guestCancel}, {"terminal", guestTerminal},
		{"step", guestStep}, {"read-only", guestReadOnly}, {"edit", guestEdit}, {"pause", guestPause},
	} {
		if !t.Run(s.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			s.test(t, b)
		}) {
			return
		}
	}
	check(t, b.g.Stop(t.Context()))
	if err := b.g.Err(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

// guestPlace: who and where commands are, and what they cannot reach.
func guestPlace(t *testing.T, b *box) {
	uid := b.g.Facts()["uid"]
	b.says(uid, "id -u")
	b.says("sandbox", "id -un; true")
	b.says("sandbox", "hostname")
	b.says(b.dir, "pwd")
	b.says("sandbox-guest", "test $PPID != 1 && cat /proc/$PPID/comm")
	b.says(uid, "stat -c %u a")
	b.says(b.dir, "readlink /mnt/working/0")
	b.says("ok", "ping -c 1 127.0.0.1 >/dev/null 2>&1 || ip addr show lo | grep -q 127.0.0.1 && echo ok")
	out, _ := b.sh("date +%s")
	if s, err := strconv.ParseInt(out, 10, 64); err != nil || time.Since(time.Unix(s, 0)).Abs() > 2*patience {
		t.Errorf("the guest's clock says %s", out)
	}
	b.says("600 root", "stat -c '%a %U' /dev/vport* | sort -u")
	for _, line := range []string{
		"for p in /dev/vport*; do echo x >$p && exit 0; done; false", "dd if=/dev/mem count=1", "echo 3 >/proc/sys/vm/drop_caches", "mount -o remount,rw " + b.ro,
		"umount " + b.dir, "reboot -f", "kill -9 1", "cat /proc/1/environ", "echo x >/init", "chown 0 a", "insmod /lib/modules/overlay.ko", "echo x >/etc/passwd",
		"su -c true", "ls /proc/1/fd", "kill -9 $PPID", "ls /proc/$PPID/fd", "cat /proc/$PPID/mem",
	} {
		if out, code := b.sh(line); code == 0 {
			t.Errorf("%s: succeeded: %s", line, out)
		}
	}
}

func guestStreams(t *testing.T, b *box) {
	r, w, err := os.Pipe()
	check(t, err)
	const size = 3 << 20
	go func() {
		_, _ = io.WriteString(w, strings.Repeat("0123456\n", size/8)) // md5sum knows
		w.Close()
	}()
	p, text := b.start(hypervisor.Command{Argv: []string{"cat"}, Stdin: r})
	st := b.wait(p)
	r.Close()
	if out := text(); st.Code != 0 || out != strings.Repeat("0123456\n", size/8) {
		t.Errorf("%+v, %d of %d bytes came back", st, len(out), size)
	}
	for line, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "/no/such": 127, "/etc/hosts": 126} {
		if _, code := b.sh(line); code != want {
			t.Errorf("%s: exit %d", line, code)
		}
	}
	b.says("x$y", "echo 'x$y'")
}

// guestCancel: a session that ignores TERM is gone when Wait returns.
func guestCancel(t *testing.T, b *box) {
	p, text := b.start(hypervisor.Command{Argv: []string{"sh", "-c", "trap '' TERM; sleep 9999 & echo ready; while :; do sleep 1; done"}, Dir: "/"})
	check(t, p.Cancel(100*time.Millisecond))
	if st := b.wait(p); st.Code == 0 {
		t.Errorf("%+v", st)
	}
	text()
	b.says("0", "ps | grep -c '[s]leep 9999'; true")
}

func guestTerminal(t *testing.T, b *box) {
	stopped := make(chan int, 1)
	p, _ := b.start(hypervisor.Command{
		Argv: []string{"sh", "-c", "kill -TSTP $$; stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done"},
		TTY:  &hypervisor.TTY{Rows: 33, Cols: 77, Term: "xterm", Stopped: func(signal int) { stopped <- signal }},
	})
	select {
	case <-stopped:
		check(t, p.Signal(int(syscall.SIGCONT)))
	case <-time.After(patience):
		t.Fatal("it does not stop")
	}
	term := p.Terminal()
	await := func(want string) {
		t.Helper()
		_ = term.SetReadDeadline(time.Now().Add(patience)) // not every file can
		var got strings.Builder
		for c := make([]byte, 1); !strings.HasSuffix(got.String(), want); {
			if _, err := term.Read(c); err != nil {
				t.Fatalf("waiting for %q: %v; got %q", want, err, got.String())
			}
			got.Write(c)
		}
	}
	await("33 77")
	await("ready")
	check(t, p.Resize(44, 88))
	await("44 88")
	if st := b.wait(p); st.Code != 5 {
		t.Errorf("%+v", st)
	}
}

// guestStep: a step of the guest's is undone, and neither the guest's caches nor
// a file that it holds open, nor a program that asks, misses that.
func guestStep(t *testing.T, b *box) {
	before := treesnap.MustTake(t, b.dir)
	_, err := b.session.Step(t.Context(), "work", func() error {
		b.says("", "cat a >/dev/null; echo second >a; mkdir -p d/e; echo x >d/e/f; mv d/e/f g; touch gone; rm gone; ln -s a l")
		return nil
	})
	check(t, err)
	if text, err := os.ReadFile(filepath.Join(b.dir, "a")); err != nil || string(text) != "second\n" {
		t.Errorf("the host has %q, %v", text, err)
	}
	r, w, err := os.Pipe()
	check(t, err)
	p, text := b.start(hypervisor.Command{Argv: []string{"sh", "-c", "exec 3<a; cat a; read go; cat a; cat <&3"}, Stdin: r})
	check(t, b.session.Undo(t.Context(), 1))
	check(t, b.g.RollbackNotify(1))
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, b.dir))
	b.says("a", "ls")
	b.says("first", "cat a")
	b.says("1", "cat /run/sandbox/rollback")
	_, err = fmt.Fprintln(w, "go")
	check(t, err)
	w.Close()
	b.wait(p)
	r.Close()
	if out := text(); !strings.HasSuffix(out, "firstfirst") {
		t.Errorf("who had it open reads %q", out)
	}
}

// guestReadOnly: the kernel inside refuses, before the bridge is asked.
func guestReadOnly(t *testing.T, b *box) {
	b.says("first", "cat "+b.ro+"/a")
	for _, line := range []string{"echo x >a", "echo x >new", "rm a", "mv a b", "mkdir d", "chmod 600 a", "ln a b", "touch a"} {
		if out, code := b.sh("cd " + b.ro + "; " + line); code == 0 || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: exit %d, %s", line, code, out)
		}
	}
	b.says("a", "ls "+b.ro)
}

// guestEdit: what the user edits is seen as soon as the bridge was told.
func guestEdit(t *testing.T, b *box) {
	changed, ok := b.session.Bridge.(interface{ Changed([]string) error })
	if !ok {
		t.Fatal("the bridge cannot be told of edits")
	}
	for i := range 5 {
		b.says(strings.Repeat("x", i), "cat edited 2>/dev/null; ls | grep -c edited >/dev/null; true")
		check(t, os.WriteFile(filepath.Join(b.dir, "edited"), []byte(strings.Repeat("x", i+1)), 0o644))
		check(t, changed.Changed([]string{"edited", "."}))
	}
	b.says("xxxxx", "cat edited")
	check(t, os.Rename(filepath.Join(b.dir, "edited"), filepath.Join(b.dir, "moved")))
	check(t, changed.Changed([]string{"edited", "moved", "."}))
	b.says("a moved", "ls | xargs; [ ! -e edited ]")
	check(t, os.Remove(filepath.Join(b.dir, "moved")))
	check(t, changed.Changed([]string{"moved", "."}))
	b.says("a", "ls; [ ! -e moved ]")
}

// guestPause: a machine that stands still, and one that goes on.
func guestPause(t *testing.T, b *box) {
	still := b.g.(hypervisor.Pauser)
	_, err := b.session.Step(t.Context(), "pause", func() error {
		p, text := b.start(hypervisor.Command{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 50 ]; do echo $i >n; i=$((i+1)); done; cat n"}})
		for range 5 {
			check(t, still.Pause(t.Context()))
			check(t, still.Resume(t.Context()))
		}
		st := b.wait(p)
		if out := text(); st.Code != 0 || out != "49\n" {
			t.Errorf("%+v, %q", st, out)
		}
		return nil
	})
	check(t, err)
	check(t, b.session.Undo(t.Context(), 1))

	// Its clock stood still: it is told the time, even if that is days later.
	for _, b.ahead = range []time.Duration{100 * time.Hour, 0} {
		check(t, still.Pause(t.Context()))
		check(t, still.Resume(t.Context()))
		out, _ := b.sh("date +%s")
		s, err := strconv.ParseInt(out, 10, 64)
		if off := time.Since(time.Unix(s, 0)) + b.ahead; err != nil || off.Abs() > 2*patience {
			t.Errorf("%v ahead: the guest's clock is off by %v (%q)", b.ahead, off, out)
		}
	}
}
