package jail_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestD13Device: a device that was asked for is there and answers its requests; without asking it is not there. If commands may not open it, nothing starts.
func TestD13Device(t *testing.T) {
	const path, clone = "/dev/fuse", 0x8004e500
	python := systemPython(t)
	ask := fmt.Sprintf(`%s -c '
import fcntl, os
try:
    fcntl.ioctl(os.open("%s", os.O_RDWR), %d, b"\xff\xff\xff\xff")
except OSError as e:
    print(e.errno)
try:
    fcntl.ioctl(os.open("/dev/null", os.O_RDWR), 0x5423, b"\0\0\0\0")
except OSError as e:
    print(e.errno)'`, python, path, clone)
	want := func(j *jailed, first unix.Errno) {
		t.Helper()
		if out := j.sh(ask); out != fmt.Sprintf("%d\n%d", first, unix.ENOTTY) {
			t.Errorf("%s, want %d first", out, first)
		}
	}
	want(start(t, nil), unix.ENOENT)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 && st.Mode&0o006 == 0 {
		for _, name := range []string{path, "fuse"} {
			refusedStart(t, hypervisor.Config{UID: -1, GID: -1, Jail: hypervisor.Jail{Devices: []string{name}}}, "may neither read nor write it")
		}
		return
	}
	for _, name := range []string{path, "fuse"} {
		want(start(t, func(c *hypervisor.Config) { c.Devices = []string{name} }), unix.EINVAL)
	}
}
