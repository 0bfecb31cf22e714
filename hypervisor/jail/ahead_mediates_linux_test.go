package jail

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// TestMediates: this kernel is found to be able to mediate, each time that it is asked.
func TestMediates(t *testing.T) {
	for _, mended := range []bool{false, true} {
		for range 20 {
			if err := mediates(mended); err != nil {
				t.Errorf("mended %v: %v", mended, err)
			}
		}
	}
}

// beneathVariable says that a listener is there already.
const beneathVariable = "JAIL_TEST_BENEATH"

// TestMediatesBeneath: beneath a listener of somebody else there is no other.
func TestMediatesBeneath(t *testing.T) {
	if os.Getenv(beneathVariable) != "" {
		err := mediates(true)
		if !errors.Is(err, hypervisor.ErrUnavailable) || !strings.Contains(err.Error(), "another program answers") {
			t.Errorf("%v", err)
		}
		return
	}
	started := make(chan error, 1)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMediatesBeneath$", "-test.v")
	cmd.Env = append(os.Environ(), beneathVariable+"=1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	var listener uintptr
	go func() {
		runtime.LockOSThread() // and never unlocked: the filter stays on the thread, which ends with the goroutine
		allow := filters.Notify()
		prog := unix.SockFprog{Len: uint16(len(allow)), Filter: &allow[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			started <- err
			return
		}
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
		if errno != 0 {
			started <- errno
			return
		}
		listener = fd
		started <- cmd.Start()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	defer unix.Close(int(listener))
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "--- PASS: TestMediatesBeneath") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestProbeOutlived: the process of a probe ends when nobody can answer it any more, as when the supervisor was killed meanwhile.
func TestProbeOutlived(t *testing.T) {
	p := &listenerProbe{}
	err := script.Helper(0, nil, p.write, func(pid int, setup control.FDConn) error {
		if _, err := setup.Write([]byte{0}); err != nil {
			return err
		}
		if _, err := setup.Read(make([]byte, 1)); err != nil {
			return err
		}
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(process)
		files, ok := setup.TakeFDs(1)
		if !ok {
			return errors.New("no listener came")
		}
		if err := files[0].Close(); err != nil {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 60_000)
		if err == nil && n == 0 {
			t.Error("it waits for an answer from nobody")
		}
		return err
	})
	t.Logf("%v", err)
}
