package image

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoGain: where setuid programs have no effect, an ordinary user is told so before anything is fetched; root needs none.
func TestNoGain(t *testing.T) {
	fakeTools(t, "exit 0")
	result := make(chan [2]error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		result <- [2]error{errors.Join(err, tools(1000)), tools(0)}
	}()
	if got := <-result; !errors.Is(got[0], errNoGain) || got[1] != nil {
		t.Errorf("as a user: %v; as root: %v", got[0], got[1])
	}
}
