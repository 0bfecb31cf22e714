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
	for _, tid := range []uint32{uint32(tid), 0} { // by its number, and as ourselves
		var was affinity
		if !was.pin(tid) {
			t.Fatal("a thread of our own cannot be kept on a processor")
		}
		if now := allowed(); now.Count() != 1 {
			t.Errorf("allowed on %d processors", now.Count())
		}
		if !was.restore(tid) || allowed() != before {
			t.Error("it is not allowed where it was before")
		}
	}
}

// Some injections in a row have to take long, and then the caller is kept for a while.
func TestNearWhileItPays(t *testing.T) {
	var p Near
	for range 10 {
		p.took(slowInject + 1)
		p.took(slowInject + 1)
		p.took(slowInject)
	}
	if n := p.left.Load(); n != 0 {
		t.Errorf("kept %d times where it seldom takes long", n)
	}
	for range slowInRow {
		p.took(slowInject + 1)
	}
	if n := p.left.Load(); n != stayNear {
		t.Errorf("kept %d times, want %d", n, stayNear)
	}
}
