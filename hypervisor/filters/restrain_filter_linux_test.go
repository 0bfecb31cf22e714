package filters

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// filtering tells this test that it is the process that puts itself beneath the filter.
const filtering = "SANDBOX_TEST_FILTER"

// TestFilter: beneath the supervisor's filter, a call that no supervisor makes is refused in each thread and in what it starts, and the rest goes on.
func TestFilter(t *testing.T) {
	if !Supported {
		return
	}
	if os.Getenv(filtering) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestFilter$")
		cmd.Env = append(os.Environ(), filtering+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	refused := func() error {
		_, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0, 0)
		return errno
	}
	held, threads := make(chan struct{}), make(chan error)
	var begun sync.WaitGroup
	for range 4 {
		begun.Add(1)
		go func() {
			runtime.LockOSThread() // each has a thread, from before the filter
			begun.Done()
			<-held
			threads <- refused()
		}()
	}
	begun.Wait()
	if err := UntracedFilter(Supervisor(false, false)); err != nil {
		t.Fatal(err)
	}
	close(held)
	for range 4 {
		if err := <-threads; !errors.Is(err, unix.EPERM) {
			t.Errorf("perf_event_open: %v", err)
		}
	}
	if out, err := exec.Command("cat", "/proc/self/status").Output(); err != nil || !strings.Contains(string(out), "\nSeccomp:\t2\n") {
		t.Errorf("a child: %v\n%s", err, out)
	}
}
