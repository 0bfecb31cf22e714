package filters

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestOpen: of a process that is not dumpable, as our children are until they execute a program, files in /proc can be opened that are its owner's, by many
// threads at once, and afterwards it is as before.
func TestOpen(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	if !Untraced() {
		t.Fatal("still dumpable")
	}
	name := fmt.Sprintf("/proc/%d/environ", os.Getpid()) // which belongs to root now
	if _, err := os.Open(name); !os.IsPermission(err) {
		t.Fatalf("opening what is root's: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				f, err := OpenUntraced(name, os.O_RDONLY)
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			}
		})
	}
	all.Wait()
	if is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || is != 0 {
		t.Errorf("dumpable afterwards: %d, %v", is, err)
	}
	if _, err := OpenUntraced("/proc/1/environ", os.O_RDONLY); !os.IsPermission(err) {
		t.Errorf("opening another user's: %v", err)
	}
	if out, err := exec.Command("cat", "/proc/self/environ").Output(); err != nil || len(out) == 0 {
		t.Errorf("a program that was executed: %v", err)
	}
}

// TestOwnDescriptors: a process that is not dumpable reaches its own descriptors and mounts by their names in /proc.
func TestOwnDescriptors(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	Untraced()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if to, err := os.Readlink(name); err != nil || to != f.Name() {
		t.Errorf("%s, %v", to, err)
	}
	again, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := io.ReadAll(again); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"/proc/self/fd", "/proc/self/task", "/proc/thread-self/fd"} {
		if _, err := os.ReadDir(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/uid_map", "/proc/self/status", "/proc/self/exe", fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd())} {
		if _, err := os.ReadFile(name); err != nil {
			t.Error(err)
		}
	}
}
