package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestProtectedWrites: nobody allows it, so no name, link, exchange, open file or race puts
// anything where git or a shell outside would run it.
func TestProtectedWrites(t *testing.T) { overBridges(t, protectedWrites) }

func protectedWrites(t *testing.T, b hypervisor.Bridge) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	l := newLab(t, func(l *lab, c *api.Config) {
		c.Bridge, c.Safeguards = b, api.Safeguards{Protect: true, Timeout: time.Millisecond}
		for _, name := range []string{".git/config", ".git/hooks/pre-commit", "sub/.git/config", ".envrc"} {
			put(t, l.work+"/"+name, "good")
		}
	})
	rounds := require.Tries(t, 450) / 3 // in each of three steps
	for step := range 3 {
		if r := l.start(program, "attack", "protected", strconv.Itoa(rounds)).wait(); r.err != nil || r.Outcome != "completed" || r.Status.Code != 0 {
			t.Fatalf("step %d: %+v", step, r)
		}
	}
	var found []string
	must(t, filepath.WalkDir(l.work, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(l.work, path)
		if _, _, ok := approval.Entry(splitPath(rel)); ok {
			text, rerr := os.ReadFile(path)
			if st, serr := os.Lstat(path); serr != nil || st.Mode() != 0o644 {
				rerr = errors.Join(rerr, fmt.Errorf("%s: %v", rel, st.Mode()), serr)
			}
			if err = errors.Join(err, rerr); string(text) != "good" {
				err = errors.Join(err, fmt.Errorf("%s: %q", rel, text))
			}
			found = append(found, rel)
		}
		return err
	}))
	if len(found) != 4 {
		t.Errorf("protected files are %q by now", found)
	}
}

func splitPath(rel string) (names []string) {
	for rel != "." && rel != "/" {
		names = append([]string{filepath.Base(rel)}, names...)
		rel = filepath.Dir(rel)
	}
	return names
}

// writeProtected tries to change what is protected, in several ways at once.
func writeProtected(args []string) error {
	rounds := number(args[0])
	write := func(path string) {
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o755); err == nil {
			_, _ = unix.Write(fd, []byte("evil"))
			_ = unix.Close(fd)
		}
	}
	exchange := func(a, b string) { _ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) }
	ways := []func(){
		func() { write(".git/hooks/post-checkout"); write(".git/hooks/pre-commit"); write(".bashrc") },
		func() {
			write("payload")
			_ = unix.Rename("payload", ".git/config")
			_ = unix.Link("payload", ".git/hooks/x")
		},
		func() {
			_ = unix.Mkdir("evil", 0o755)
			_ = unix.Mkdir("evil/hooks", 0o755)
			write("evil/hooks/x")
			write("evil/config")
		},
		func() {
			exchange("evil", ".git")
			exchange(".git", "evil")
			exchange("evil/hooks", ".git/hooks")
			exchange("payload", ".envrc")
		},
		func() {
			_ = unix.Rename("evil", "sub/.git")
			_ = unix.Symlink("evil", "sub/.envrc")
			_ = unix.Symlink("../evil/hooks", ".git/hooks")
		},
		func() {
			_ = unix.Chmod(".git/hooks/pre-commit", 0o755)
			_ = unix.Truncate(".envrc", 0)
			_ = unix.Unlink(".git/config")
		},
		func() {
			_ = unix.Link(".git/config", "alias")
			write("alias")
			_ = unix.Rename(".git/hooks", "stolen")
			write("stolen/pre-commit")
		},
		func() {
			if fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o755); err == nil {
				_, _ = unix.Write(fd, []byte("evil"))
				_ = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, ".git/hooks/y", unix.AT_SYMLINK_FOLLOW)
				_ = unix.Close(fd)
			}
		},
		func() { // a directory that is another one by the time that something is made in it
			if fd, err := unix.Open("evil", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				_ = unix.Rename("evil", "moved")
				_ = unix.Renameat(fd, "hooks", unix.AT_FDCWD, ".git/hooks")
				_ = unix.Rename("moved", "evil")
				_ = unix.Close(fd)
			}
		},
	}
	var wg sync.WaitGroup
	for _, way := range ways {
		wg.Go(func() {
			for range rounds {
				way()
			}
		})
	}
	wg.Wait()
	return nil
}
