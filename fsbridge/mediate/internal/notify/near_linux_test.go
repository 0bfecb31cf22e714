package notify

import (
	"runtime"
	"testing"
	"time"

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

// A thread of ours stays for one caller, and leaves when another calls, or when the last injection was some time ago.
func TestStay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	var s Stay
	check := func(stays bool) {
		t.Helper()
		var now unix.CPUSet
		if err := unix.SchedGetaffinity(0, &now); err != nil {
			t.Fatal(err)
		}
		if s.stays != stays || stays && now.Count() != 1 || !stays && now != before {
			t.Errorf("stays: %v, on %d processors of %d; want %v", s.stays, now.Count(), before.Count(), stays)
		}
	}
	s.Received(1, time.Now())
	s.Leave()
	check(false)
	s.here(1)
	check(true)
	s.Received(1, s.since.Add(mayStay))
	s.here(1)
	check(true)
	s.Received(2, s.since)
	check(false)
	s.here(2)
	s.Received(2, s.since.Add(mayStay+1))
	check(false)
	s.here(2)
	s.Leave()
	check(false)
}
