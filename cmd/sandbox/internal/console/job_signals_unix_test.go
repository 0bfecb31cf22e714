//go:build unix

package console

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// signalled is a command that only takes signals.
type signalled struct {
	hypervisor.Process
	got []int
}

func (s *signalled) Signal(sig int) error {
	s.got = append(s.got, sig)
	return nil
}

// A signal that comes before we hear that the command runs is the command's; a
// second one, or one for a command that does not begin, ends the start.
func TestEarlySignal(t *testing.T) {
	var p signalled
	var j Job
	j.pass(int(unix.SIGTERM), func() {})
	j.Started(1, &p)
	j.pass(int(unix.SIGUSR1), func() {})
	if !slices.Equal(p.got, []int{int(unix.SIGTERM), int(unix.SIGUSR1)}) {
		t.Errorf("%v", p.got)
	}

	var other Job
	cancelled := make(chan struct{}, 2)
	cancel := func() { cancelled <- struct{}{} }
	other.pass(int(unix.SIGINT), cancel)
	other.pass(int(unix.SIGINT), cancel) // at once
	for range 2 {
		select {
		case <-cancelled:
		case <-time.After(5 * time.Minute):
			t.Fatal("the start was not cancelled")
		}
	}
}
