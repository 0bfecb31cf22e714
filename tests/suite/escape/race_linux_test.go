package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/confine"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// bridges are those that a jail's folder can be reached by.
var bridges = []hypervisor.Bridge{hypervisor.BridgeFUSE, hypervisor.BridgeMediated}

// everywhere runs a test in a jail over each bridge, where the mediated one lies behind a gate, too, and behind Landlock; change
// makes a session be so. They take turns as in overBridges.
func everywhere(t *testing.T, f func(t *testing.T, change func(*api.Config))) {
	turn := require.Turn(t)
	for _, b := range bridges {
		if turn() {
			t.Run(string(b), func(t *testing.T) { f(t, func(c *api.Config) { c.Bridge = b }) })
		}
	}
	if turn() {
		t.Run("gate", func(t *testing.T) {
			f(t, func(c *api.Config) {
				c.Dynamic, c.Bridge, c.Gates = true, hypervisor.BridgeMediated, []string{filepath.Dir(c.Directories[0].Path)}
				c.Safeguards.Timeout = patience
			})
		})
	}
	if turn() {
		t.Run("landlock", func(t *testing.T) {
			f(t, func(c *api.Config) {
				c.Bridge = hypervisor.BridgeMediated
				c.Runtime = confine.New(confine.Options{Umask: 0o022})
			})
		})
	}
}

// overBridges runs a test over each bridge. Of two bridges and two users a commit has two pairs, in which each bridge and each user
// is: one bridge as root, and the other one as the user.
func overBridges(t *testing.T, f func(t *testing.T, b hypervisor.Bridge)) {
	turn := require.Turn(t)
	for _, b := range bridges {
		if turn() {
			t.Run(string(b), func(t *testing.T) { f(t, b) })
		}
	}
}

// swaps is how often each call is made while its directory is exchanged, if SANDBOX_RACES does not say it. The
// exchanges cost the bridges and the undo much; "make soak" looks for what is rare.
const swaps = 1000

// TestMBSwapped: a directory is exchanged all the time with a symlink to one outside, while
// files in it are opened, removed, renamed and linked. Nothing outside changes, and an undo
// brings everything inside back.
func TestMBSwapped(t *testing.T) {
	tries := strconv.Itoa(require.Tries(t, swaps))
	everywhere(t, func(t *testing.T, change func(*api.Config)) {
		outside, gated := "", false
		l := newLab(t, func(l *lab, c *api.Config) {
			change(c)
			gated = len(c.Gates) > 0
			outside = filepath.Join(l.home, "beside")
			for _, dir := range []string{filepath.Join(l.work, "d"), outside} {
				for _, name := range []string{"f", "g"} {
					put(t, filepath.Join(dir, name), "kept")
					must(t, os.Chmod(filepath.Join(dir, name), 0o666))
				}
				must(t, os.Chmod(dir, 0o777))
			}
		})
		if gated { // a question takes longer than a call: who looks there is refused from now on
			c := l.start("cat", outside)
			l.decide(outside, false)
			c.expect("denied", patience)
			c.wait()
		}
		before, witness := treesnap.MustTake(t, l.work), treesnap.MustTake(t, outside)
		for _, what := range []string{"open", "create", "unlink", "rename", "link", "mkdir", "attributes"} {
			t.Log(l.works(program + " attack swap " + what + " " + outside + " " + tries))
			treesnap.AssertEqual(t, witness, treesnap.MustTake(t, outside))
		}
		undoAll(t, l)
		treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work), treesnap.Options{IgnoreLinks: true})
	})
}

// undoAll undoes every step.
func undoAll(t *testing.T, l *lab) {
	t.Helper()
	h, err := l.History(t.Context(), api.HistoryRequest{})
	must(t, err)
	if len(h) > 0 {
		_, err = l.Undo(t.Context(), api.UndoRequest{Count: len(h)})
		must(t, err)
	}
}

// swap makes one call again and again on a path below a directory that another thread exchanges with a
// symlink to the directory outside.
func swap(args []string) error {
	what, outside, tries := args[0], args[1], number(args[2])
	if err := unix.Symlink(outside, "away"); err != nil {
		return err
	}
	_ = unix.Mknod("d/f", unix.S_IFREG|0o644, 0) // an attack before may have removed it
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "away", unix.RENAME_EXCHANGE)
		}
	}()
	succeeded := 0
	for i := range tries {
		if swapped(what, i) == nil {
			succeeded++
		}
	}
	stop.Store(true)
	<-done
	fmt.Printf("%s: %d of %d succeeded\n", what, succeeded, tries)
	if fi, err := os.Lstat("away"); err == nil && fi.IsDir() {
		if err := unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "away", unix.RENAME_EXCHANGE); err != nil {
			return err
		}
	}
	return unix.Unlink("away")
}

func swapped(what string, i int) error {
	switch what {
	case "open", "create":
		name, flags := "d/f", unix.O_WRONLY|unix.O_TRUNC
		if what == "create" {
			name, flags = fmt.Sprint("d/new", i%10), unix.O_WRONLY|unix.O_CREAT
		}
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		_, _ = unix.Write(fd, []byte("changed"))
		return unix.Close(fd)
	case "unlink":
		if i%2 == 0 {
			return unix.Mknod("d/f", unix.S_IFREG|0o644, 0)
		}
		return unix.Unlink("d/f")
	case "rename":
		if i%2 == 0 {
			return unix.Rename("d/f", "d/h")
		}
		return unix.Rename("d/h", "d/f")
	case "attributes":
		switch i % 4 {
		case 0:
			return unix.Chmod("d/g", uint32(0o600+i%7))
		case 1:
			return unix.Utimes("d/g", nil)
		case 2:
			return unix.Setxattr("d/g", "user.a", []byte{byte(i)}, 0)
		}
		return unix.Truncate("d/g", int64(i))
	case "link":
		if i%2 == 0 {
			return unix.Link("d/g", "d/l")
		}
		return unix.Unlink("d/l")
	}
	if i%2 == 0 {
		return unix.Mkdir("d/m", 0o755)
	}
	return unix.Rmdir("d/m")
}

// TestMBReopened: in an earlier step a process has opened a file for writing, and by that
// descriptor for reading; only the latter it keeps. Later it opens a path for writing that is
// switched between that descriptor and a file outside, and sets attributes by it. Undo brings content and attributes back.
func TestMBReopened(t *testing.T) {
	tries := strconv.Itoa(require.Tries(t, swaps))
	everywhere(t, func(t *testing.T, change func(*api.Config)) {
		l := newLab(t, func(l *lab, c *api.Config) {
			change(c)
			put(t, filepath.Join(l.work, "f"), "kept")
			must(t, unix.Mkfifo(filepath.Join(l.work, "go"), 0o666))
			must(t, unix.Mkfifo(filepath.Join(l.work, "ready"), 0o666))
			for _, name := range []string{"f", "go", "ready"} {
				must(t, os.Chmod(filepath.Join(l.work, name), 0o666))
			}
		})
		before := treesnap.MustTake(t, l.work)
		l.works("touch f; " + program + " attack reopen " + tries + " </dev/null >/dev/null 2>&1 & cat ready")
		t.Log(l.works("echo x >other; echo go >go; cat ready"))
		undoAll(t, l)
		treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work), treesnap.Options{
			IgnoreLinks: true,
			// Behind Landlock FIFOs are on a writable mount: what is sent through them changes their times.
			Exclude: func(path string) bool { return path == "go" || path == "ready" },
		})
	})
}

// reopen keeps a descriptor for reading until it is told to go on, and then tries to change the
// file.
func reopen(args []string) error {
	tries := number(args[0])
	g, err := unix.Open("f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", g), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(g)
	if err := os.WriteFile("ready", []byte("ready\n"), 0); err != nil {
		return err
	}
	if _, err := os.ReadFile("go"); err != nil {
		return err
	}
	dir := os.TempDir()
	path, next, other := dir+"/p", dir+"/next", dir+"/x"
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		return err
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !stop.Load(); i++ {
			_ = unix.Symlink([]string{other, fmt.Sprintf("/proc/self/fd/%d", r)}[i%2], next)
			_ = unix.Rename(next, path)
		}
	}()
	opened := 0
	for range tries {
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0); err == nil {
			opened++
			_, _ = unix.Write(fd, []byte("x"))
			_ = unix.Close(fd)
		}
	}
	set := 0
	for i := range tries / 4 {
		for _, err := range []error{
			unix.Chmod(path, uint32(0o600+i%8)),
			unix.Utimes(path, []unix.Timeval{{Sec: int64(i)}, {Sec: int64(i)}}),
			unix.Setxattr(path, "user.a", []byte{byte(i)}, 0),
			unix.Chown(path, -1, os.Getgid()),
		} {
			if err == nil {
				set++
			}
		}
	}
	stop.Store(true)
	<-done
	return os.WriteFile("ready", fmt.Appendf(nil, "opened %d of %d, set attributes %d times\n", opened, tries, set), 0)
}
