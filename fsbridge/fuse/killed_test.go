//go:build linux

package fuse

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

const killedEnv = "SANDBOX_TEST_KILLED"

// TestKilledWhileTelling: a server that is killed while it tells the kernel of a name, and so waits for
// the lock of the directory, leaves nobody stuck: neither the operation that has the lock, nor itself.
func TestKilledWhileTelling(t *testing.T) {
	require.Mount(t)
	if base := os.Getenv(killedEnv); base != "" {
		serveUntilKilled(t, base)
		return
	}
	base := t.TempDir()
	for _, d := range []string{"host", "mnt"} {
		check(t, os.Mkdir(filepath.Join(base, d), 0o755))
	}
	mnt := filepath.Join(base, "mnt")
	server := exec.Command("/proc/self/exe", "-test.run=^TestKilledWhileTelling$")
	server.Env = append(os.Environ(), killedEnv+"="+base)
	out, err := server.StdoutPipe()
	check(t, err)
	check(t, server.Start())
	t.Cleanup(func() {
		if os.Geteuid() == 0 { // should somebody be stuck: aborts the connection
			_ = unix.Unmount(mnt, unix.MNT_FORCE|unix.MNT_DETACH)
		} else {
			none.Unmount(mnt)
		}
	})
	said := bufio.NewScanner(out)
	hear := func(want string) {
		t.Helper()
		for said.Scan() {
			if said.Text() == want {
				return
			}
		}
		t.Fatalf("the server did not say %q", want)
	}
	hear("ready")
	touch := exec.Command("touch", filepath.Join(mnt, "made"))
	check(t, touch.Start())
	hear("waits")
	check(t, server.Process.Kill())
	within(t, "the operation", func() { _ = touch.Wait() })
	within(t, "the server", func() { _ = server.Wait() })
}

// serveUntilKilled holds the creation of a file and then tells of another name beside it.
func serveUntilKilled(t *testing.T, base string) {
	held := make(chan struct{})
	m := &mounted{host: filepath.Join(base, "host"), mnt: filepath.Join(base, "mnt")}
	m.remount(t, func(o *vfs.Options) {
		watchedAll(o)
		o.Hooks = &recorder{gate: func(op *fsbridge.Op) error {
			if op.Kind == fsbridge.OpCreate {
				close(held)
				select {}
			}
			return nil
		}}
	})
	if _, err := os.Stat(filepath.Join(m.mnt, "new")); !os.IsNotExist(err) {
		t.Fatal(err)
	}
	fmt.Println("ready")
	<-held
	check(t, os.WriteFile(filepath.Join(m.host, "new"), nil, 0o644))
	go func() { _ = m.Changed([]string{"new"}) }()
	actortest.Eventually(t, "a thread waits for the directory", waitsForName)
	fmt.Println("waits")
	select {}
}

// waitsForName tells whether a thread of this process waits to tell the kernel of a name.
func waitsForName() bool {
	threads, _ := filepath.Glob("/proc/self/task/*/wchan")
	for _, file := range threads {
		if where, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(where), "fuse_reverse_inval") {
			return true
		}
	}
	return false
}
