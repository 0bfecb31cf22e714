package notify

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread that was kept on one processor is allowed afterwards where it was before.
func TestAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	allowed := func() (set unix.CPUSet) {
		t.Helper()
		if err := unix.SchedGetaffinity(tid, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	before := allowed()
	var was affinity
	if !was.pin(uint32(tid)) {
		t.Fatal("a thread of our own cannot be kept on a processor")
	}
	if now := allowed(); now.Count() != 1 {
		t.Errorf("allowed on %d processors", now.Count())
	}
	if !was.restore(uint32(tid)) || allowed() != before {
		t.Error("it is not allowed where it was before")
	}
}
