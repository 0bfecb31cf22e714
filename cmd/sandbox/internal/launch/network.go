package launch

import (
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// network is what commands may reach, if the runtime can see to that: a virtual machine
// and the jail can, and without isolation it is the host's.
func (l *Launcher) network() (n api.Network, err error) {
	c := l.Conf.Network
	n.Mode = policy.Mode(c.Policy)
	asked := l.Conf.Origin("network.policy")[0]
	switch {
	case l.Conf.Isolation == "none" && n.Mode != policy.Open && asked.Level != config.FromDefault:
		return n, exit.Usagef("network policy %s (%s): --isolation none leaves commands the host's network; use --isolation jail, or vm", n.Mode, asked)
	case l.Conf.Isolation == "none" && l.AllowHost:
		return n, exit.Usagef("--allow-host: --isolation none leaves commands the host's network; use --isolation jail, or vm, with --network allowlist")
	case l.Conf.Isolation == "none":
		return api.Network{}, nil
	case n.Mode == policy.Disabled && l.AllowHost:
		return n, exit.Usagef("--allow-host: there is no network; add --network allowlist, or --network ask")
	}
	n.Allow, err = policy.ParseRules(c.Allow)
	return n, err
}
