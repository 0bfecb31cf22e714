package actors

import (
	"path/filepath"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
)

// walled are how often the walls have refused something so far, by what it was.
type walled struct {
	network, tracing, listening uint64

	remade []string // what is hidden: programs that missed it have made their own
}

// walled counts, at the kernel and at the bridge: nothing is guessed from what programs write.
func (s *Session) walled() (r walled) {
	r.tracing, r.network, r.listening = s.mediation.Refused()
	if g, ok := s.slot.Guest().(hypervisor.Unwired); ok {
		r.network += g.Unreached()
	}
	if g, ok := s.slot.Guest().(hypervisor.Concealing); ok {
		r.remade = g.Remade()
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
	remade := slices.DeleteFunc(r.remade, func(path string) bool { return slices.Contains(before.remade, path) })
	return append(lines, missed(remade)...)
}

// missed says of hidden places that programs have looked for them, since they have made their own.
func missed(remade []string) (lines []string) {
	for _, path := range remade[:min(len(remade), 3)] {
		allows := "--show " + api.ShellQuote(path) + " shows it"
		switch filepath.Base(path) {
		case ".gnupg":
			allows = "--agent gpg lets programs sign with your keys"
		case ".ssh":
			allows = "--agent ssh lets programs use your keys"
		}
		lines = append(lines, api.ShellQuote(path)+" is hidden, and a program inside missed it and made its own; "+allows)
	}
	return lines
}
