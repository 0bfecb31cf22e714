package hypervisor

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnavailable is returned (wrapped, with what is missing and how to get it)
// when this machine cannot offer the runtime.
var ErrUnavailable = errors.New("hypervisor: runtime not available here")

// ErrNetwork is returned by runtimes that cannot give a guest a network whose
// use is decided about.
var ErrNetwork = errors.New("hypervisor: nothing decides here about the use of the network: use --isolation jail, or vm")

// Unavailable marks an error as [ErrUnavailable], if it is not.
func Unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrUnavailable)
}

// Lacking is the text of an error for people: what is missing, without the words of [ErrUnavailable] behind it.
func Lacking(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+ErrUnavailable.Error())
}

// StartError says why a command did not start.
type StartError struct {
	Argv0 string
	// ExitCode is 127 (not found) or 126 (found but not executable).
	ExitCode int
	// NoDirectory: not the program is at fault but the directory to start it in.
	NoDirectory bool
	Err         error
}

func (e *StartError) Error() string {
	if e.NoDirectory {
		return e.Err.Error()
	}
	return e.Argv0 + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }
