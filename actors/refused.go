package actors

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/fsbridge/pidfiles"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// walled are how often the walls have refused something so far, by what it was.
type walled struct {
	network, tracing, listening, foreign uint64

	remade []string          // what is hidden: programs that missed it have made their own
	hidden map[string]uint64 // what is hidden in the folders, by path: how often a bridge was asked for it
}

// walled counts, at the kernel and at the bridge: nothing is guessed from what programs write.
func (s *Session) walled() (r walled) {
	r.tracing, r.network, r.listening, r.foreign = s.mediation.Refused()
	if g, ok := s.slot.Guest().(hypervisor.Unwired); ok {
		r.network += g.Unreached()
	}
	if g, ok := s.slot.Guest().(hypervisor.Concealing); ok {
		r.remade = g.Remade()
	}
	r.hidden = make(map[string]uint64)
	for _, d := range s.dirs {
		maps.Copy(r.hidden, d.Refused())
	}
	return r
}

// since says what was refused since before, and which flag would allow it: a line for each cause. isolation is the session's.
func (r walled) since(before walled, isolation string) (lines []string) {
	if r.network > before.network {
		allows := "--network open allows all, --network allowlist --allow-host NAME one host"
		if _, lacks := hypervisor.Lacks(isolation, "network policy"); lacks {
			allows = hypervisor.Instead(isolation, "network policy") + " can have one, --isolation " + isolation + " cannot"
		}
		lines = append(lines, "there is no network, and a connection or the lookup of a name was refused; "+allows)
	}
	if r.tracing > before.tracing {
		lines = append(lines, "tracing a process was refused (debuggers, strace and leak checkers do that); --debug allows it")
	}
	if r.listening > before.listening {
		lines = append(lines, "a seccomp filter with a listener was refused, because the kernel allows one, which is the mediated bridge's; "+hypervisor.Instead(isolation, "own listeners")+" allows it")
	}
	if r.foreign > before.foreign {
		lines = append(lines, "a 32-bit program was refused its system calls; --32bit lets such programs run in a jail, over FUSE")
	}
	remade := slices.DeleteFunc(slices.Clone(r.remade), func(path string) bool { return slices.Contains(before.remade, path) })
	return append(lines, missed(remade)...)
}

// mostHidden is of how many hidden places a command's end tells.
const mostHidden = 3

// worksHere tells whether a process outside works in a folder of the session, and a file there names it by its number: see [pidfiles.Names].
func (s *Session) worksHere(pid int) bool {
	return slices.ContainsFunc(s.cfg.Directories, func(d api.Directory) bool { return pidfiles.Names(d.Path, pid) })
}

// missed says of hidden places that programs have looked for them, since they have made their own.
func missed(remade []string) (lines []string) {
	for _, path := range remade[:min(len(remade), mostHidden)] {
		allows := "--show " + api.ShellQuote(path) + " shows it"
		if keys := keysOutside(path); keys != "" {
			allows = keys
		}
		lines = append(lines, api.ShellQuote(path)+" is hidden, and a program inside missed it and made its own; "+allows)
	}
	return lines
}

// keysOutside says how programs use keys of a hidden place that stay outside; empty if it has none for which there is a way.
func keysOutside(hidden string) string {
	switch filepath.Base(hidden) {
	case ".gnupg":
		return "--agent gpg lets programs sign with your keys"
	case ".ssh":
		return "--agent ssh lets programs use your keys"
	}
	return ""
}

// concealed says of hidden files that the command did not get them: those that a bridge was asked for since before, and those that its words
// name. Outside of the working folders nobody can count: the kernel tells of no look at a name that is not there, nor of an open that it refuses.
func (s *Session) concealed(r api.RunRequest, dir string, before, now walled) (lines []string) {
	told := make(map[string]bool)
	tell := func(path, hidden string, readable bool) {
		if !told[hidden] && len(told) < mostHidden {
			told[hidden] = true
			lines = append(lines, api.ShellQuote(path)+" is hidden inside; "+shows(path, hidden, readable))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now.hidden)) {
		if now.hidden[path] > before.hidden[path] {
			tell(path, path, true)
		}
	}
	g, ok := s.slot.Guest().(hypervisor.Concealing)
	if !ok {
		return lines
	}
	for _, path := range namedPaths(r.Argv, dir, homeOf(r.Env)) {
		hidden, readable := g.Conceals(path)
		if slices.ContainsFunc(s.dirs, func(d *directory.Directory) bool { return lexical.Within(hidden, d.Config.Path) }) {
			path = hidden // in a folder, a part of what is hidden cannot be shown
		}
		if hidden != "" && (!slices.Contains(now.remade, hidden) || slices.Contains(before.remade, hidden)) { // else missed tells
			tell(path, hidden, readable)
		}
	}
	return lines
}

// shows says what would let a command have a path that is, or lies in, a hidden place.
func shows(path, hidden string, readable bool) string {
	if !readable {
		return "shown, it could not be read either, since commands of root are not root"
	}
	allows := "--show " + api.ShellQuote(path) + " shows it"
	if keys := keysOutside(hidden); keys != "" {
		allows += ", " + keys
	}
	return allows
}
