package filters

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Supervisor is the filter of the process that serves a session. Unlike the others it is a list of what is denied: what nothing inside may call either, so that a guest that is started
// beneath it gets the same answers as before. The supervisor's own work, and what it executes, need none of it. debug says that programs inside may trace one another,
// and programs32bit that there may be such of 32 bits.
func Supervisor(debug, programs32bit bool) []unix.SockFilter {
	other := rule{ret: retNosys}.program()
	if programs32bit && Programs32bit {
		code := []unix.SockFilter{{Code: bpfLoad, K: offNr}}
		for _, nr := range denied32bit(SupervisorDenied(debug)) {
			code = append(code, unix.SockFilter{Code: bpfJeq, K: nr, Jf: 1}, unix.SockFilter{Code: bpfRet, K: retPerm})
		}
		other = i386(append(code, unix.SockFilter{Code: bpfRet, K: retAllow}))
	}
	p := enter(other)
	for _, name := range SupervisorDenied(debug) {
		if nr, ok := numberOf(name); ok {
			p = append(p, unix.SockFilter{Code: bpfJeq, K: nr, Jf: 1}, unix.SockFilter{Code: bpfRet, K: retPerm})
		}
	}
	return append(p, unix.SockFilter{Code: bpfRet, K: retAllow})
}

// supervisorCalls are denied calls of the table that the supervisor makes: it finds a directory that has no name any more.
var supervisorCalls = []string{"open_by_handle_at"}

// SupervisorDenied are the names of the calls that [Supervisor] denies: those that the table denies, and tracing.
func SupervisorDenied(debug bool) (out []string) {
	for _, f := range families {
		if f.Verdict == Denied {
			out = append(out, f.Calls...)
		}
	}
	if !debug {
		out = append(out, "ptrace", "process_madvise", "kcmp") // it reads and writes callers' memory, and copies their descriptors, by other calls
	}
	return slices.DeleteFunc(out, func(name string) bool { return slices.Contains(supervisorCalls, name) })
}
