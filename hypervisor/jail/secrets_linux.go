package jail

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// systemSecrets are sockets outside /run through which a program could act
// outside the jail. Other files of the system are protected by their owner.
var systemSecrets = []string{
	"/var/run/docker.sock", "/var/snap/lxd/common/lxd/unix.socket", "/var/snap/lxd/common/lxd-user/unix.socket",
	"/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket",
}

// hideList returns what must not be visible, resolved, aliases and further names included. It is in order: a directory comes before what is in it.
// Devices are not in it: who has HISTFILE=/dev/null keeps no history.
func (p *planner) hideList() []hypervisor.Secret {
	var out []hypervisor.Secret
	var names links
	for _, s := range p.candidates() {
		var st unix.Stat_t
		if unix.Stat(s.Path, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFCHR || st.Mode&unix.S_IFMT == unix.S_IFBLK {
			continue
		}
		named := s.Path
		if s.Path = places.ResolveMount(s.Path); slices.Contains(p.show, s.Path) {
			continue
		}
		if named != s.Path {
			s.Source += "; " + named + " leads there"
		}
		out = append(out, s)
		for _, alias := range places.MountAliases(p.mounts, s.Path) {
			out = append(out, hypervisor.Secret{Path: alias, What: s.What, Source: "another mount of " + s.Path})
		}
		names.look(s, &st)
	}
	if len(names.wanted) > 0 {
		out = append(out, p.otherNames(&names, out)...)
	}
	slices.SortStableFunc(out, func(a, b hypervisor.Secret) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b hypervisor.Secret) bool { return a.Path == b.Path })
}

// candidates are what is to be hidden if it is there.
func (p *planner) candidates() (list []hypervisor.Secret) {
	var homes []string
	for _, home := range slices.Compact([]string{p.user.Home, os.Getenv("HOME")}) {
		if filepath.IsAbs(home) {
			homes = append(homes, places.ResolveMount(home))
		}
	}
	list = hypervisor.Secrets(os.Getenv, homes...)
	add := func(what, source string, paths ...string) {
		for _, path := range paths {
			list = append(list, hypervisor.Secret{Path: path, What: what, Source: source})
		}
	}
	list = append(list, hypervisor.Logs(os.Getenv, p.shares, homes...)...)
	add("a daemon's socket", "docs/security.md", systemSecrets...)
	if s := os.Getenv("SSH_AUTH_SOCK"); filepath.IsAbs(s) {
		add("an agent's socket", "ssh-agent(1), SSH_AUTH_SOCK", filepath.Clean(s))
	}
	add("a socket that a program listens on", "unix(7)", p.hostSockets()...)
	add("named by the configuration, or this program's own", "--hide, jail.hide, a rule of the policy; docs/undo-log.md", p.cfg.Hide...)
	return list
}
