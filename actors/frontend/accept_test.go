package frontend

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// Too many open files pass, and are told once; a listener that is closed or broken does not come back.
func TestAccept(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	broken := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EINVAL)}
	for _, c := range []struct {
		fails []error
		told  int
		err   error
	}{
		{nil, 0, nil},
		{[]error{full, full}, 1, nil},
		{[]error{full, net.ErrClosed}, 1, net.ErrClosed},
		{[]error{broken}, 0, syscall.EINVAL},
	} {
		calls, told := 0, 0
		got, err := Accept(t.Context(), func() (int, error) {
			if calls++; calls <= len(c.fails) {
				return 0, c.fails[calls-1]
			}
			return 7, nil
		}, func(err error) {
			if told++; !errors.Is(err, syscall.EMFILE) {
				t.Errorf("told of %v", err)
			}
		})
		if !errors.Is(err, c.err) || (got == 7) != (c.err == nil) || told != c.told {
			t.Errorf("%v: %d, %v, told %d times", c.fails, got, err, told)
		}
	}
}

// Who waits for descriptors stops at the end of the context.
func TestAcceptEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Accept(ctx, func() (int, error) { return 0, syscall.ENFILE }, func(error) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
