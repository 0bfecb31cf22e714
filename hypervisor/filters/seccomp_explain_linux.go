package filters

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoCall is returned by [Explain] for what is no system call's name or number.
var ErrNoCall = errors.New("seccomp: no such system call")

// Settings choose a filter.
type Settings struct {
	Debug bool // allow tracing
	// Mediated sends the calls that could change a folder to the listener.
	Mediated bool
	// Confined is the filter of a guest without namespaces. It is mediated.
	Confined bool
	// Containers allows namespaces of the workload's own, and mounts in them. It goes neither
	// with Mediated nor with Confined: behind Landlock nobody can mount.
	Containers bool
	// Programs32bit lets programs of 32 bits (i386) run, by the same rules. It does not go with Mediated, whose listener does not know their calls, nor with Confined; and it
	// does nothing where there is no filter for them ([Programs32bit]).
	Programs32bit bool
	// Alone, if not nil, is the only user who has a number inside. The bridge is FUSE: it does not hear of calls that name others.
	Alone *IDs
	// Sharing says how the guest's sockets are looked at if it is in the host's network namespace.
	Sharing Sharing
	// Drivers are those for whose devices ioctl may make more requests, see [Drivers]. Others have no effect.
	Drivers []string
}

// IDs are a user's.
type IDs struct{ UID, GID uint32 }

// Call is what a filter does with a system call.
type Call struct {
	Name string `json:"name,omitempty"` // empty: not in the table
	// Number is that of this architecture, or -1: it does not have the call.
	Number int    `json:"number"`
	Family string `json:"family,omitempty"`
	// Verdict is [Allowed], [Denied] or [Absent] where the settings decide alone, [Conditional]
	// where arguments do, or [Unknown].
	Verdict Verdict `json:"verdict"`
	// Errno is what a refused call fails with; of a conditional one, what it mostly
	// fails with.
	Errno  string `json:"errno,omitempty"`
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

// Explain says what the filter does with a system call, a name or a number of this
// architecture (decimal, or hexadecimal after 0x).
func Explain(call string, s Settings) (Call, error) {
	n, err := lookUp(call)
	if err != nil {
		return Call{}, err
	}
	c := Call{Name: n.name, Number: int(int32(n.nr)), Verdict: Unknown, Errno: unix.ErrnoName(unix.ENOSYS),
		Why: "it is not in the table: nobody has looked at what it reaches. Programs that try a new call have another way"}
	if n.name == "" {
		return c, nil
	}
	f, _ := familyOf(n.name)
	c.Family, c.Why, c.Remedy = f.Name, f.Why, f.Remedy
	if c.Verdict, c.Errno = f.Verdict, ""; c.Number < 0 {
		c.Why = "this architecture does not have it; elsewhere: " + c.Why
		c.Verdict, c.Errno, c.Remedy = Absent, unix.ErrnoName(unix.ENOSYS), ""
		return c, nil
	}
	r := rules(s)
	c.Verdict, c.Errno = r[n.nr].verdict(f.Verdict)
	if c.Verdict == Allowed {
		c.Remedy = ""
	}
	return c, nil
}

// verdict is what a rule does, if the arguments do not matter, else Conditional.
func (r rule) verdict(stated Verdict) (v Verdict, errno string) {
	if r.off != 0 || r.ret == retNotify {
		for _, ret := range []uint32{r.rest, r.ret} {
			if e := errnoOf(ret); e != 0 {
				return Conditional, unix.ErrnoName(e)
			}
		}
		return Conditional, ""
	}
	if r.ret == retAllow {
		return Allowed, ""
	}
	if v = stated; v == Conditional {
		v = Denied
	}
	return v, unix.ErrnoName(errnoOf(r.ret))
}

// errnoOf is the error that a filter's value makes a call fail with, or 0.
func errnoOf(ret uint32) unix.Errno {
	if action := ret & unix.SECCOMP_RET_ACTION_FULL; action != unix.SECCOMP_RET_ERRNO && action != retNotify {
		return 0
	}
	return unix.Errno(ret & unix.SECCOMP_RET_DATA)
}

// noNumber is that of a call which this architecture does not have.
const noNumber = 1<<32 - 1

// lookUp finds a call of the table, or a number that is not in it.
func lookUp(call string) (number, error) {
	if nr, err := strconv.ParseUint(call, 0, 31); err == nil {
		for _, n := range numbers {
			if n.nr == uint32(nr) {
				return n, nil
			}
		}
		return number{nr: uint32(nr)}, nil
	}
	name := strings.ToLower(call)
	if _, ok := familyOf(name); !ok {
		return number{}, fmt.Errorf("%w: %q; give a name as in 'man 2 syscalls', or a number", ErrNoCall, call)
	}
	nr, ok := numberOf(name)
	if !ok {
		nr = noNumber
	}
	return number{name: name, nr: nr}, nil
}

// familyOf finds the row of the table that names the call.
func familyOf(name string) (Family, bool) {
	for _, f := range families {
		if slices.Contains(f.Calls, name) {
			return f, true
		}
	}
	return Family{}, false
}
