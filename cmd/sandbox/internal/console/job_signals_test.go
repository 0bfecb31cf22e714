package console

import (
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
)

// signalled is a command that only takes signals.
type signalled struct {
	hypervisor.Process
	got chan int
}

func newSignalled() *signalled { return &signalled{got: make(chan int, 8)} }

func (s *signalled) Signal(sig int) error {
	s.got <- sig
	return nil
}

// gets waits for a signal.
func (s *signalled) gets(t *testing.T, want syscall.Signal) {
	t.Helper()
	select {
	case got := <-s.got:
		if got != int(want) {
			t.Errorf("the command got signal %d, not %v", got, want)
		}
	case <-time.After(5 * time.Minute):
		t.Fatalf("the command did not get %v", want)
	}
}

// A signal that comes before we hear that the command runs is the command's; a
// second one, or one for a command that does not begin, ends the start.
func TestEarlySignal(t *testing.T) {
	p := newSignalled()
	var j Job
	j.pass(int(syscall.SIGTERM), func() {})
	j.Started(1, p)
	j.pass(int(syscall.SIGINT), func() {})
	p.gets(t, syscall.SIGTERM)
	p.gets(t, syscall.SIGINT)

	var other Job
	cancelled := make(chan struct{}, 2)
	cancel := func() { cancelled <- struct{}{} }
	other.pass(int(syscall.SIGINT), cancel)
	other.pass(int(syscall.SIGINT), cancel) // at once
	for range 2 {
		select {
		case <-cancelled:
		case <-time.After(5 * time.Minute):
			t.Fatal("the start was not cancelled")
		}
	}
}
