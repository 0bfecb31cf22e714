package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
)

// patience is longer than anything takes on a busy machine.
const patience = 5 * time.Minute

// image makes files that pass for a kernel and an initramfs, the first readable
// for its owner only, as some distributions have it.
func image(t *testing.T) func(context.Context) (Image, error) {
	t.Helper()
	dir := t.TempDir()
	kernel, initrd := filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd")
	for file, mode := range map[string]os.FileMode{kernel: 0o600, initrd: 0o644} {
		if err := os.WriteFile(file, []byte("boots"), mode); err != nil {
			t.Fatal(err)
		}
	}
	return func(context.Context) (img Image, err error) {
		if img.Kernel, err = os.Open(kernel); err != nil {
			return img, err
		}
		img.Version = "6.1.0-fake"
		img.Initrd, err = os.Open(initrd)
		return img, err
	}
}

func fakeOptions(t *testing.T, way string) Options {
	t.Helper()
	return Options{VM: hypervisor.VM{Program: fakeProgram, BootTimeout: patience}, Arch: "amd64", Image: image(t), Append: "fake=" + way}
}

// bothWays runs a test of machines that inherit descriptors, and of ones that find everything by its name, of which nothing is left.
func bothWays(t *testing.T, test func(t *testing.T, o func(way string) Options)) {
	t.Run("inherited", func(t *testing.T) { test(t, func(way string) Options { return fakeOptions(t, way) }) })
	t.Run("named", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "qemu-") // short, and to be entered by QEMU's user
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // after all machines
			if err := os.Remove(dir); err != nil {
				t.Errorf("something is left: %v", err)
			}
		})
		test(t, func(way string) Options {
			o := fakeOptions(t, way)
			o.Named, o.NineP, o.Sockets = true, true, dir
			if err := os.Chmod(filepath.Dir(t.TempDir()), 0o755); err != nil { // the image is in it, and root's QEMU is somebody else
				t.Fatal(err)
			}
			open := o.Image
			o.Image = func(ctx context.Context) (Image, error) {
				img, err := open(ctx)
				return img, errors.Join(err, img.Kernel.Chmod(0o644))
			}
			return o
		})
	})
}

// TestNamedIs9P: without descriptors there is 9P alone, whatever was asked for.
func TestNamedIs9P(t *testing.T) {
	for _, o := range []Options{{Named: true}, {Named: true, NineP: true}} {
		if err := o.check(); err != nil || !o.Named || !o.NineP {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

// boot starts a fake machine.
func boot(t *testing.T, o Options, shares ...hypervisor.Share) (*guest, error) {
	t.Helper()
	g, err := New(o).Start(t.Context(), hypervisor.Config{SessionID: "test", Shares: shares, UID: -1, GID: -1})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return g.(*guest), nil
}

// ended waits for the end of a guest and returns why.
func ended(t *testing.T, g *guest) error {
	t.Helper()
	select {
	case <-g.Done():
	case <-time.After(patience):
		t.Fatal("the guest does not end")
	}
	return g.Err()
}

func contains(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("no %q in the error %v", p, err)
		}
	}
}

// Guests that do not come up: the error says why.
func TestBadBoots(t *testing.T) { bothWays(t, testBadBoots) }

func testBadBoots(t *testing.T, o func(way string) Options) {
	for way, want := range map[string][]string{
		"refuses": {"QEMU ended unexpectedly (exit status 1: fake: cannot set up guest memory", "its console is empty"},
		"panics":  {"the guest's kernel gave up: Kernel panic - not syncing: VFS: Unable to mount root fs", "console ends with:\n    [    0.9] no root"},
		"old":     {fmt.Sprintf("the guest speaks version %d, we speak %d", control.Version+1, control.Version)},
		"cannot":  {`the guest cannot set itself up: "mounting the persistent disk: bad message\x1b[2J"`},
		"babbles": {"nonsense on its control channel"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			_, err := boot(t, o(way))
			contains(t, err, want...)
		})
	}
}

// Guests that hang end at the time that was given, and the console, without what
// would act on a terminal, is in the error.
func TestBootTimeout(t *testing.T) { bothWays(t, testBootTimeout) }

func testBootTimeout(t *testing.T, o func(way string) Options) {
	for way, want := range map[string][]string{
		"hangs":      {"did not come up within 6s", "[    0.1] waiting for[31m godot"},
		"no-monitor": {"did not come up within 6s"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			short := o(way)
			short.BootTimeout = 6 * time.Second
			_, err := boot(t, short)
			contains(t, err, want...)
			if err != nil && strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("control characters in %q", err)
			}
		})
	}
}

// The caller's own end of patience is told as such, and leaves nothing.
func TestCancelledBoot(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	share := hypervisor.Share{HostPath: "/x", GuestPath: "/x", Serve: func(tr hypervisor.Transport) error {
		cancel()
		return tr.File.Close()
	}}
	_, err := New(fakeOptions(t, "hangs")).Start(ctx, hypervisor.Config{SessionID: "test", Shares: []hypervisor.Share{share}, UID: -1, GID: -1})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A folder that cannot be served aborts the start, with its own error.
func TestServeFails(t *testing.T) {
	no := errors.New("no such bridge")
	share := hypervisor.Share{HostPath: "/x", GuestPath: "/x", Serve: func(tr hypervisor.Transport) error { return errors.Join(no, tr.File.Close()) }}
	if _, err := boot(t, fakeOptions(t, "good"), share, share2("/y")); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
}

func share2(path string) hypervisor.Share {
	return hypervisor.Share{HostPath: path, GuestPath: path, Serve: func(tr hypervisor.Transport) error { return tr.File.Close() }}
}

// Guests that break later: the session learns why.
func TestBreaks(t *testing.T) { bothWays(t, testBreaks) }

func testBreaks(t *testing.T, o func(way string) Options) {
	for way, want := range map[string]string{
		"floods":          "the guest sends nonsense on its control channel",
		"half-and-closes": "the control channel broke",
		"switches-off":    "the guest switched itself off",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			g, err := boot(t, o(way))
			if err == nil {
				err = ended(t, g)
			}
			contains(t, err, want) // a flood may be noticed before Start returns
		})
	}
}

// Half a message holds nothing up: a command can be given up, and the guest
// stopped.
func TestHalfAMessage(t *testing.T) {
	t.Parallel() // it waits for longer than the others take
	g, err := boot(t, fakeOptions(t, "half"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := g.Exec(ctx, hypervisor.Command{ID: 1, Argv: []string{"true"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A guest whose QEMU is killed from outside.
func TestKilled(t *testing.T) { bothWays(t, testKilled) }

func testKilled(t *testing.T, o func(way string) Options) {
	g, err := boot(t, o("good"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.child.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	contains(t, ended(t, g), "QEMU ended unexpectedly (killed)")
	if _, err := g.Exec(t.Context(), hypervisor.Command{ID: 1, Argv: []string{"true"}}); err == nil {
		t.Error("a command started")
	}
	if err := g.dropCaches(t.Context()); err != nil {
		t.Errorf("caches of a dead guest: %v", err)
	}
}

// Pause and resume, and a monitor that does not answer.
func TestPause(t *testing.T) { bothWays(t, testPause) }

func testPause(t *testing.T, o func(way string) Options) {
	g, err := boot(t, o("good"))
	if err != nil {
		t.Fatal(err)
	}
	for _, paused := range []string{"true", "false"} {
		do := g.Pause
		if paused == "false" {
			do = g.Resume
		}
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := g.Facts()["paused"]; got != paused {
			t.Errorf("paused: %s, want %s", got, paused)
		}
	}
	g, err = boot(t, o("deaf-monitor"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := g.Pause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// Commands go through; QEMU is nobody in particular, and root is none of its
// groups.
func TestExec(t *testing.T) {
	served := make(chan hypervisor.Transport, 2)
	serve := func(tr hypervisor.Transport) error { served <- tr; return nil }
	g, err := boot(t, fakeOptions(t, "good"),
		hypervisor.Share{HostPath: "/srv/a", GuestPath: "/srv/a", Serve: serve}, hypervisor.Share{HostPath: "/srv/b", GuestPath: "/srv/b", Serve: serve})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tr := <-served
		if tr.Kind != hypervisor.TransportVhost || tr.Sync == nil || tr.Drop == nil {
			t.Errorf("%+v", tr)
		}
		tr.File.Close()
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := g.Exec(t.Context(), hypervisor.Command{ID: 1, Argv: []string{"sh", "-c", "echo $SANDBOX; id -u; exit 3"}, Stdout: w, Stderr: w, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(t.Context())
	w.Close()
	out, _ := io.ReadAll(r)
	uid := os.Getuid()
	if uid == 0 {
		uid = EmulatorUID
	}
	if want := "1\n" + strconv.Itoa(uid) + "\n"; err != nil || st.Code != 3 || string(out) != want {
		t.Errorf("code %d, error %v, output %q, want %q", st.Code, err, out, want)
	}
	var se *hypervisor.StartError
	if _, err := g.Exec(t.Context(), hypervisor.Command{ID: 2, Argv: []string{"no-such-program"}, Dir: "/"}); !errors.As(err, &se) || se.ExitCode != 127 {
		t.Errorf("error %v", err)
	}
	f := g.Facts()
	for k, want := range map[string]string{"kernel": "6.1.0-fake", "acceleration": "none (emulated)", "memory": "1024 MiB", "cpus": "1", "pid": strconv.Itoa(g.child.PID)} {
		if f[k] != want {
			t.Errorf("fact %s is %q, want %q", k, f[k], want)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"too few for a guest":    {VM: hypervisor.VM{MemoryBytes: 1 << 20}},
		"more than this machine": {VM: hypervisor.VM{MemoryBytes: 1 << 50}},
		"a machine has 1 to 64":  {VM: hypervisor.VM{CPUs: 65}},
		"-1 processors":          {VM: hypervisor.VM{CPUs: -1}},
		`no vm.acceleration "x"`: {VM: hypervisor.VM{Accel: "x"}},
		"hvf is what macOS has":  {VM: hypervisor.VM{Accel: "hvf"}}, "whpx is what Windows has": {VM: hypervisor.VM{Accel: "whpx"}},
		"apt install qemu-system": {Arch: "none-such"},
		"no such file":            {VM: hypervisor.VM{Program: "/nowhere/qemu"}},
	} {
		if o.Arch == "none-such" {
			t.Setenv("PATH", t.TempDir())
		}
		err := New(o).Probe(t.Context())
		contains(t, err, want)
	}
}

// What is missing says how to get it, and is marked as missing.
func TestNoImage(t *testing.T) {
	none := errors.New("none was built; run 'sandbox guest build'")
	o := Options{VM: hypervisor.VM{Program: fakeProgram}, Image: func(context.Context) (Image, error) { return Image{}, none }}
	r := New(o)
	if err := r.Probe(t.Context()); !errors.Is(err, none) || !errors.Is(err, hypervisor.ErrUnavailable) {
		t.Errorf("probe: %v", err)
	}
	if _, err := r.Start(t.Context(), hypervisor.Config{UID: -1, GID: -1}); !errors.Is(err, none) {
		t.Errorf("start: %v", err)
	}
	accel, why, err := r.Acceleration(t.Context())
	if accel != "tcg" || why == nil || err != nil {
		t.Errorf("acceleration %q, %v, %v", accel, why, err)
	}
	o.Accel = "kvm"
	if err := New(o).Probe(t.Context()); !errors.Is(err, hypervisor.ErrUnavailable) {
		t.Errorf("asked for KVM: %v", err)
	}
}

func TestShares(t *testing.T) {
	for _, bad := range []string{"/", "/usr", "/etc", "/mnt", "/proc/x", "relative", "/a/../b", "/tmp"} {
		if err := checkShares([]hypervisor.Share{{HostPath: "/x", GuestPath: bad}}); err == nil {
			t.Errorf("%s may be a folder", bad)
		}
	}
	for _, good := range []string{"/root/project", "/tmp/x", "/home/sandbox", "/usr/src/linux", "/mnt/working/0"} {
		if err := checkShares([]hypervisor.Share{{HostPath: good, GuestPath: good}}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	nested := []hypervisor.Share{{HostPath: "/srv/a", GuestPath: "/srv/a"}, {HostPath: "/srv/a/b", GuestPath: "/srv/a/b"}}
	contains(t, checkShares(nested), "one lies in the other")
}

// Secrets in a folder are refused there, by their real place.
func TestRefused(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(home, "other")
	if err := os.MkdirAll(filepath.Join(other, "keys"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(other, "keys"), filepath.Join(home, ".gnupg")); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(home, "a/b/log")
	for _, name := range []string{log + "/version", log + "/lock", log + "/wal", log + "/steps", filepath.Join(home, ".work"+hypervisor.LogSuffix, "x")} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	notes := filepath.Join(home, ".local/state/sandbox", hypervisor.LogNotes)
	if err := errors.Join(os.MkdirAll(notes, 0o700), os.WriteFile(filepath.Join(notes, "1"), []byte(log), 0o600)); err != nil {
		t.Fatal(err)
	}
	cfg := hypervisor.Config{
		Shares: []hypervisor.Share{{HostPath: home}, {HostPath: "/srv"}},
		Jail:   hypervisor.Jail{Hide: []string{filepath.Join(home, "mine"), "/srv/x", "/elsewhere"}, Show: []string{filepath.Join(home, ".aws")}},
	}
	got := refused(cfg, home)
	for _, want := range []string{".ssh", "other/keys", "mine", "a/b/log", ".work" + hypervisor.LogSuffix} {
		if !slices.Contains(got[0], want) {
			t.Errorf("%s is not refused: %q", want, got[0])
		}
	}
	if slices.Contains(got[0], ".aws") || slices.Contains(got[0], ".gnupg") {
		t.Errorf("refused: %q", got[0])
	}
	if !slices.Equal(got[1], []string{"x"}) {
		t.Errorf("refused in the other folder: %q", got[1])
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("TMPDIR", "/tmp/mine")
	t.Setenv("PATH", "/opt/bin:/bin")
	if got := strings.Join(lacking([]string{"HOME=/x", "Path=C:\\x", "SHELL="}), " "); got != "LOGNAME=sandbox PATH="+guestPath+" USER=sandbox" {
		t.Errorf("what Windows' environment lacks: %q", got)
	}
	got := environment(hypervisor.Command{
		Env: []string{"HOME=/home/me", "PATH=/mine", "TMPDIR=/tmp/mine", "XDG_RUNTIME_DIR=/run/user/1", "SSH_AUTH_SOCK=/x", "TERM=old", "A=b=c"},
		TTY: &hypervisor.TTY{Term: "xterm"},
	}, []string{"A=of the session's"})
	want := []string{"HOME=/home/sandbox", "PATH=/mine", "SSH_AUTH_SOCK=/x", "TERM=xterm", "SANDBOX=1", "A=of the session's"} // what leads outside comes only if the caller has named it
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The firmware is taken where QEMU has it, and may be missing.
func TestQuickFirmware(t *testing.T) {
	without, with := t.TempDir(), t.TempDir()
	rom := filepath.Join(with, "qboot.rom")
	if err := os.WriteFile(rom, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(without, "qboot.rom"), 0o755); err != nil { // no file
		t.Fatal(err)
	}
	for dirs, want := range map[string]string{
		without + "\n" + with + "\n": rom, without + "\n": "", "/nowhere\n": "", "qemu: something else\n": "", "": "",
	} {
		if got := quickFirmware(dirs); got != want {
			t.Errorf("%q: %q, expected %q", dirs, got, want)
		}
	}
}

// A guest's console is no place to write to a user's terminal from.
func TestSplitLines(t *testing.T) {
	got := splitLines("a\x1b[2Jb\r\n\n\x07\n  c\u009b1m\xff ü\n")
	if want := []string{"a[2Jb", "c1m ü"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p, before := panicLine("x\n[ 1.0] Kernel panic - not syncing: boom\r\ny"); p != "Kernel panic - not syncing: boom" || before != "x\n" {
		t.Errorf("%q after %q", p, before)
	}
	if p, before := panicLine("x\n"); p != "" || before != "x\n" {
		t.Errorf("%q after %q", p, before)
	}
}
