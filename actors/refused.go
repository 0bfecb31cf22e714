package actors

import "github.com/codeagent/sandbox/hypervisor"

// walled are how often the walls have refused something so far, by what it was.
type walled struct{ network, tracing, listening uint64 }

// walled counts, at the kernel and at the bridge: nothing is guessed from what programs write.
func (s *Session) walled() (r walled) {
	r.tracing, r.network, r.listening = s.mediation.Refused()
	if g, ok := s.slot.Guest().(hypervisor.Unwired); ok {
		r.network += g.Unreached()
	}
	return r
}

// since says what was refused since before, and which flag would allow it: a line for each cause. isolation is the session's.
func (r walled) since(before walled, isolation string) (lines []string) {
	if r.network > before.network {
		allows := "--network open allows all, --network allowlist --allow-host NAME one host"
		if isolation == "landlock" {
			allows = "--isolation jail can have one, --isolation landlock cannot"
		}
		lines = append(lines, "there is no network, and a connection or the lookup of a name was refused; "+allows)
	}
	if r.tracing > before.tracing {
		lines = append(lines, "tracing a process was refused (debuggers, strace and leak checkers do that); --debug allows it")
	}
	if r.listening > before.listening {
		allows := "--bridge fuse"
		if isolation == "landlock" {
			allows = "--isolation jail with --bridge fuse"
		}
		lines = append(lines, "a seccomp filter with a listener was refused, because the kernel allows one, which is the mediated bridge's; "+allows+" allows it")
	}
	return lines
}
