package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail"
)

// TestMediatedReopen: a descriptor on the host's mount cannot be opened for writing by
// its name in /proc, whoever asks for what; the guest's own places work as ever.
func TestMediatedReopen(t *testing.T) {
	var a answering
	j := start(t, a.mediated(t))
	for _, dir := range []string{j.dir, inDev(t)} {
		notReopened(t, j, filepath.Join(dir, "f"))
	}
	j.sh(ownPlaces)
}

// ownPlaces is what programs do in places that are the guest's own.
const ownPlaces = `set -e
	echo x >/dev/null; ! test -O /proc/self/fd/2 || echo x >/dev/stderr
	mkdir /tmp/a /tmp/b; echo x >/tmp/a/f; mv /tmp/a/f /tmp/b/; ln /tmp/b/f /tmp/a/g; mv /tmp/a /tmp/b/c
	mkfifo /tmp/p; cat /tmp/p & echo y >/tmp/p; wait
	exec 3>/tmp/h; echo z >/proc/self/fd/3; echo z >/dev/shm/f; : >/tmp/h
	echo 0 >/proc/self/oom_score_adj; echo x >/run/sandbox/f; ln -s f /tmp/l; rm -r /tmp/b
	mkdir /var/tmp/d; mv /var/tmp/d /var/tmp/e; rmdir /var/tmp/e`

// TestLandlockPlaces: behind Landlock of any version, or of none, programs do what they did in each
// place that they can write.
func TestLandlockPlaces(t *testing.T) {
	for _, version := range []int{0, 1, filters.LandlockRenames, filters.LandlockTruncate, 5, filters.LandlockScopes, 100} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			kernel, _ := filters.LandlockVersion()
			home := ownHome(t)
			file := put(t, home, "rw/one/file", "host")
			put(t, home, "rw/two/a/f", "host")
			put(t, home, "over/a/f", "host")
			rt := jail.New(jail.Options{GuestBinary: guestBinary, Umask: 0o022, Landlock: func() int { return min(version, kernel) }})
			j := startOn(t, rt, withPlaces(hypervisor.Places{
				Store: filepath.Join(t.TempDir(), "store"), Home: true,
				Writable: []string{file, home + "/rw/two"}, Overlay: []string{home + "/over"},
			}))
			j.sh(ownPlaces)
			j.sh("set -e; echo x >" + file + "; exec 3<>/dev/ptmx; mkdir d e; echo x >d/f; mv d/f e/g; ln e/g d/h; mkfifo e/p; truncate -s 0 e/g; rm -r d e")
			for _, dir := range []string{home + "/rw/two", home + "/over", "~"} {
				j.sh("set -e; cd " + dir + "; mkdir -p a b; echo x >a/f; mv a/f b/g; ln b/g a/h; truncate -s 0 b/g; ln -s g b/l; rm b/g; rm -r b")
			}
			same(t, file, "x\n")
			same(t, home+"/over/a/f", "host")
			j.refused("echo x >"+home+"/rw/two/../new/f", "")
			// A new domain below ours, and signals to each other.
			j.sh("sleep 1000 & kill $! && ! wait $!")
		})
	}
}

// TestLandlockOutput: what this program's own output goes to can be opened by its name inside, as scripts do.
func TestLandlockOutput(t *testing.T) {
	file := filepath.Join(inDev(t), "log")
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = log
	defer func() { os.Stderr = stderr }()
	j := start(t, nil)
	os.Stderr = stderr
	p, err := j.Exec(t.Context(), hypervisor.Command{ID: j.nextID(), Argv: []string{"sh", "-c", "echo said >/dev/stderr"}, Dir: "/", Stderr: log})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(t.Context()); err != nil || st.Code != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	same(t, file, "said\n")
}

// inDev is a new directory below the host's /dev, where its devices are.
func inDev(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "sandbox-test-")
	if err != nil {
		t.Logf("nothing can be made in /dev/shm: %v", err)
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// notReopened fails if a guest that was started with file as its standard input changes it.
func notReopened(t *testing.T, j *jailed, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, script := range []string{"echo x >>/proc/self/fd/0", "echo x >/dev/stdin", "exec 3<>/dev/fd/0", "truncate -s 0 /proc/self/fd/0"} {
		p, err := j.Exec(t.Context(), hypervisor.Command{ID: j.nextID(), Argv: []string{"sh", "-c", script}, Dir: "/", Stdin: in})
		if err != nil {
			t.Fatal(err)
		}
		if st, err := p.Wait(t.Context()); err != nil || st.Code == 0 {
			t.Errorf("%s: %+v, %v", script, st, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestMediatedWritableFile: what may be written beside the folders may be a single file.
func TestMediatedWritableFile(t *testing.T) {
	file := put(t, ownHome(t), "one/file", "host")
	var a answering
	mediated := a.mediated(t)
	j := start(t, func(c *hypervisor.Config) {
		mediated(c)
		c.Places.Writable = []string{file}
	})
	j.sh("echo x >" + file)
	j.refused("echo x >"+file+".new", "")
	same(t, file, "x\n")
}

// TestExplainPipe: of a named pipe of the host it is said whether it can be written to, and so it is.
func TestExplainPipe(t *testing.T) {
	home := ownHome(t)
	pipe := filepath.Join(home, "pipe")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	give(t, pipe)
	version, err := filters.LandlockVersion()
	for _, containers := range []bool{false, true} {
		s, xerr := jail.Explain(hypervisor.Config{UID: -1, GID: -1, Jail: hypervisor.Jail{Containers: containers}}, pipe)
		if xerr != nil {
			t.Fatal(xerr)
		}
		if want := containers || version < filters.LandlockRenames; s.Write != want || !strings.Contains(s.Why, "named pipe") {
			t.Errorf("containers %v, Landlock %d (%v): %+v", containers, version, err, s)
		}
		j := start(t, func(c *hypervisor.Config) { c.Containers = containers })
		_, st, err := j.run("sh", "-c", "exec 3<>"+pipe)
		if err != nil || (st.Code == 0) != s.Write {
			t.Errorf("containers %v: %+v, %v", containers, st, err)
		}
		if on := strings.HasPrefix(j.Facts()["landlock"], "on"); on == s.Write {
			t.Errorf("containers %v: %q", containers, j.Facts()["landlock"])
		}
	}
}
