package hypervisor

import (
	"errors"
	"fmt"
	"testing"
)

func TestUnavailableIsMarkedOnce(t *testing.T) {
	missing := errors.New("no FUSE here")
	err := Unavailable(missing)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, missing) {
		t.Errorf("%v is not marked, or has lost its cause", err)
	}
	if outer := fmt.Errorf("jail: %w", err); Unavailable(outer) != outer {
		t.Error("an error that is marked was marked again")
	}
	for _, e := range []error{missing, err} {
		if got := Lacking(e); got != "no FUSE here" {
			t.Errorf("for people it is %q", got)
		}
	}
}
