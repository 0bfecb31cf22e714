package console

import (
	"errors"
	"fmt"
)

// Statuses of the program. A command that ran gives its own instead.
const (
	Failed  = 1   // anything else
	Misuse  = 2   // wrong flags or arguments
	Barrier = 3   // an undo would overwrite edits from outside
	Left    = 4   // an undo was done, but for paths that it has named
	Ours    = 125 // run: the sandbox failed, not the command
)

// Error ends the program with a status. Err is printed unless it is nil.
type Error struct {
	Code int
	Err  error
	// Signal, if it is not 0, has ended a command: the program ends by it, too, where it can. Code is 128+Signal.
	Signal int
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage makes err a mistake in the command line: the status is Misuse.
func Usage(err error) error { return usageError{err} }

// Usagef is [Usage] of what [fmt.Errorf] returns.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// IsUsage reports whether err is a mistake in the command line.
func IsUsage(err error) bool { return errors.As(err, new(usageError)) }
