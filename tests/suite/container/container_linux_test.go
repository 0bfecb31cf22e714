package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	kit "github.com/codeagent/sandbox/tests/kit/container"
)

func work(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox-container-") // TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	project := filepath.Join(dir, "project")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(project, 0o755), os.Chown(dir, uid, uid), os.Chown(project, uid, uid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func spec(t *testing.T, uid int) kit.Spec {
	kit.Require(t)
	return kit.Spec{UID: uid, Work: work(t, uid), Programs: map[string]string{"sandbox": program(t)}}
}

// built is where program has built.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sandbox-container-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = filepath.Join(dir, "sandbox")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the program, once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", built, "./cmd/sandbox")
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// program is the program as it is now.
func program(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return built
}

func users(t *testing.T, f func(t *testing.T, s kit.Spec)) {
	t.Run("user", func(t *testing.T) { f(t, spec(t, 1000)) })
	t.Run("root", func(t *testing.T) { f(t, spec(t, 0)) })
}

// TestRemoveAndUndo: in an ordinary container, a removed project comes back, and it is said
// that this is no jail.
func TestRemoveAndUndo(t *testing.T) {
	users(t, func(t *testing.T, s kit.Spec) {
		out, errs, code := kit.Run(t, s, `cd /work/project && mkdir -p src/deep && echo one >src/deep/one && echo two >two && ln -s two link && chmod 640 two &&
			find . | sort >/work/before && sandbox run -- sh -c 'rm -rf *' && echo "left: $(ls)" && sandbox undo >/dev/null && find . | sort | cmp /work/before && cat src/deep/one two && stat -c %a two`)
		if code != 0 || out != "left: \none\ntwo\n640\n" {
			t.Errorf("status %d, %q, %s", code, out, errs)
		}
		for _, want := range []string{"--isolation landlock is taken", "no network"} {
			if !strings.Contains(errs, want) {
				t.Errorf("stderr without %q: %s", want, errs)
			}
		}
	})
}

// TestJailIsRefused: who asks for the jail does not get anything weaker.
func TestJailIsRefused(t *testing.T) {
	users(t, func(t *testing.T, s kit.Spec) {
		out, errs, code := kit.Run(t, s, `cd /work/project && sandbox run --isolation jail -- echo ran`)
		if code != 125 || strings.Contains(out, "ran") || !strings.Contains(errs, "--isolation landlock") {
			t.Errorf("status %d, %q, %s", code, out, errs)
		}
	})
}

// TestShippedSeccompProfile: with the profile that the project ships, a user's jail starts in
// a container that has no capability and no /dev/fuse.
func TestShippedSeccompProfile(t *testing.T) {
	s := spec(t, 1000)
	s.Seccomp = shipped(t)
	out, errs, code := kit.Run(t, s, `cd /work/project && mkdir -p src && echo one >src/one && sandbox run --isolation jail -- sh -c 'rm -rf *; touch /etc/x || echo "held in"' &&
		echo "left: $(ls)" && sandbox undo >/dev/null && cat src/one`)
	if code != 0 || out != "held in\nleft: \none\n" {
		t.Errorf("status %d, %q, %s", code, out, errs)
	}
}

// TestHeldIn: what a workload behind Landlock may not do, and what it may.
func TestHeldIn(t *testing.T) {
	users(t, func(t *testing.T, s kit.Spec) {
		for path, content := range map[string]string{"outside": "outside\n", "secret/key": "a secret\n"} {
			path = filepath.Join(s.Work, path)
			for _, err := range []error{
				os.MkdirAll(filepath.Dir(path), 0o755), os.Chown(filepath.Dir(path), s.UID, s.UID),
				os.WriteFile(path, []byte(content), 0o644), os.Chown(path, s.UID, s.UID),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Env = []string{"OUTER=$$"}
		out, errs, code := kit.Run(t, s, `cd /work/project && echo f >f && export OUTER=$$ && sandbox run --isolation landlock --hide /work/secret -- sh -c '
no() { if "$@" >/dev/null 2>&1; then echo "it may: $*"; fi; }
may() { "$@" >/dev/null 2>&1 || echo "it may not: $*"; }
no sh -c "echo x >/work/outside"; no chmod 600 /work/outside; no touch -d 2001-01-01 /work/outside; no mv /work/outside /work/elsewhere
no rm /work/outside; no ln /work/outside linked; no ln /work/outside $TMPDIR/linked; no mkdir /work/dir; no touch /tmp/x; no truncate -s 0 /work/outside
no cat /work/secret/key; no cat /proc/$OUTER/environ; no readlink /proc/$OUTER/fd/0; no readlink /proc/$OUTER/cwd; no cat /proc/$OUTER/maps; no kill -0 $OUTER; no kill -9 $OUTER; no kill -9 $PPID
no prlimit --pid $OUTER --nofile=1; no unshare -r true; no mount -t tmpfs none /mnt; no ipcmk -Q
no chattr +i f; no sh -c "echo x >/proc/self/oom_score_adj"
may cat /work/outside; may touch f; may chmod 600 f; may rm f; may mkdir d; may mv d e; may touch $TMPDIR/x; may chmod 700 $TMPDIR/x; may mv $TMPDIR/x $TMPDIR/y
may cp /work/outside copied; may mv copied $TMPDIR/copied; may sh -c "echo >/dev/null"; may sh -c ": | cat | cat"; may cat /proc/self/status /dev/null
( umask 027; touch masked; mkdir maskeddir ); echo "$(stat -c %a masked maskeddir | tr "\\n" " ")"
'; cat /work/outside; stat -c "%a %Y" /work/outside; ls /tmp`)
		info, err := os.Stat(filepath.Join(s.Work, "outside"))
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("640 750 \noutside\n644 %d\n", info.ModTime().Unix())
		if s.UID != 0 { // who has no XDG_RUNTIME_DIR registers there
			want += "sandbox-1000\n"
		}
		if code != 0 || out != want {
			t.Errorf("status %d, %q, want %q; %s", code, out, want, errs)
		}
	})
}

// TestNothingStays: processes that a command leaves behind end with the session, also when it
// is killed.
func TestNothingStays(t *testing.T) {
	users(t, func(t *testing.T, s kit.Spec) {
		out, errs, _ := kit.Run(t, s, `cd /work/project
sandbox run --isolation landlock -- sh -c 'for i in 1 2 3; do setsid sh -c "setsid tail -f /dev/null & tail -f /dev/null" & done; true'
echo "left: $(pgrep -c -x tail)"
sandbox run --isolation landlock -- sh -c 'setsid tail -f /dev/null & setsid tail -f /dev/null & echo started >started; tail -f /dev/null' &
until [ -s started ]; do sleep 0.02; done
kill -9 $!
while pgrep -r R,S,D -x tail >/dev/null; do sleep 0.02; done
echo gone`)
		if out != "left: 0\ngone\n" {
			t.Errorf("%q, %s", out, errs)
		}
	})
}

// TestDoctorInContainer: it names the cause, says what serves instead and what is weaker, and
// does not call that a failure.
func TestDoctorInContainer(t *testing.T) {
	s := spec(t, 1000)
	for _, c := range []struct {
		name string
		s    func(s *kit.Spec)
		want []string
	}{
		{"default", func(*kit.Spec) {}, []string{"a seccomp filter refuses it", "--isolation auto takes here", "there is no network"}},
		{"no device rule", func(s *kit.Spec) { s.FUSE = true }, []string{"the device cgroup of this container refuses it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s
			c.s(&s)
			out, errs, code := kit.Run(t, s, `cd /work/project && sandbox doctor`)
			if code != 0 {
				t.Errorf("status %d: %s", code, errs)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("without %q:\n%s", want, out)
				}
			}
		})
	}
}
