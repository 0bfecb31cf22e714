//go:build faults

package fault

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Var is the environment variable that arms one fault point of a binary
// built with the tag "faults":
//
//	kill:<point>:<n>        SIGKILL ourselves at the n-th passage (n >= 1)
//	err:<point>:<n>:<errno> fail the n-th passage with ENOSPC, EIO ...
//	err:<point>:<n>+:<errno> fail the n-th and all later ones
//	(a point of * is every one)
//	trace:<file>            append the name of each point that is passed
const Var = "SANDBOX_FAULT"

var errnos = map[string]posix.Errno{
	"ENOSPC": posix.ENOSPC, "EIO": posix.EIO, "EDQUOT": posix.EDQUOT,
	"EXDEV": posix.EXDEV, "EPERM": posix.EPERM, "EMLINK": posix.EMLINK,
}

type armedFault struct {
	point string
	left  atomic.Int64
	all   bool
	errno posix.Errno // 0: kill
	trace *os.File    // not nil: only tell
}

var armed atomic.Pointer[armedFault]

// Arm arms a fault as [Var] does; "" disarms.
func Arm(spec string) error {
	if spec == "" {
		armed.Store(nil)
		return nil
	}
	if path, ok := strings.CutPrefix(spec, "trace:"); ok {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			armed.Store(&armedFault{trace: f})
		}
		return err
	}
	f := strings.Split(spec, ":")
	if len(f) < 3 || (f[0] == "kill") != (len(f) == 3) || (f[0] == "err") != (len(f) == 4) {
		return fmt.Errorf("%s: %q is not kill:<point>:<n> or err:<point>:<n>[+]:<errno>", Var, spec)
	}
	a := &armedFault{point: f[1]}
	count, all := strings.CutSuffix(f[2], "+")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%s: bad count in %q", Var, spec)
	}
	a.left.Store(n)
	a.all = all
	if f[0] == "err" {
		if a.errno = errnos[f[3]]; a.errno == 0 {
			return fmt.Errorf("%s: unknown errno in %q", Var, spec)
		}
	}
	armed.Store(a)
	return nil
}

// WorkAhead is false, so that the fault points are passed in the same order every time.
const WorkAhead = false

// Check arms what the environment asks for.
func Check() error {
	if spec := os.Getenv(Var); spec != "" && armed.Load() == nil {
		return Arm(spec)
	}
	return nil
}

// Point fails or kills the process if this point is armed and it is its
// turn.
func Point(name string) error {
	a := armed.Load()
	if a != nil && a.trace != nil {
		_, _ = a.trace.WriteString(name + "\n")
		return nil
	}
	if a == nil || a.point != name && a.point != "*" {
		return nil
	}
	if left := a.left.Add(-1); left > 0 || (left < 0 && !a.all) {
		return nil
	}
	if a.errno == 0 {
		kill()
		select {}
	}
	return injected{a.errno}
}

// injected is an error of a point.
type injected struct{ errno posix.Errno }

func (i injected) Error() string { return i.errno.Error() }
func (i injected) Unwrap() error { return i.errno }

// Injected tells whether err is of a [Point]: it stands for an interruption of the whole, not for what the
// file system says of one path.
func Injected(err error) bool {
	var i injected
	return errors.As(err, &i)
}
