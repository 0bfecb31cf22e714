package launch

import (
	"os"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor/network"
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
		return n, console.Usagef("network policy %s (%s): --isolation none leaves commands the host's network; use --isolation jail, or vm", n.Mode, asked)
	case l.Conf.Isolation == "none" && l.AllowHost:
		return n, console.Usagef("--allow-host: --isolation none leaves commands the host's network; use --isolation jail, or vm, with --network allowlist")
	case l.Conf.Isolation == "none" && len(c.Deny) > 0:
		return n, console.Usagef("network.deny (%s): --isolation none leaves commands the host's network; use --isolation jail, or vm", l.Conf.Origin("network.deny")[0])
	case !l.hasCard() && len(c.Publish) > 0:
		return n, console.Usagef("network.publish (%s): with --isolation %s no port can be published; use --isolation jail, or vm", l.Conf.Origin("network.publish")[0], l.Conf.Isolation)
	case len(c.Inject) > 0 && n.Mode == policy.Disabled:
		return n, console.Usagef("network.inject (%s): there is no network; add --network allowlist and --allow-host HOST", l.Conf.Origin("network.inject")[0])
	case len(c.Inject) > 0 && !l.hasCard():
		return n, console.Usagef("network.inject (%s): with --isolation %s no header can be added; use --isolation jail, or vm", l.Conf.Origin("network.inject")[0], l.Conf.Isolation)
	case l.Conf.Isolation == "none":
		return api.Network{}, nil
	case n.Mode == policy.Disabled && l.AllowHost:
		return n, console.Usagef("--allow-host: there is no network; add --network allowlist, or --network ask")
	}
	if n.Allow, err = policy.ParseRules(c.Allow); err != nil {
		return n, err
	}
	if n.Deny, err = policy.ParseRules(c.Deny); err != nil {
		return n, err
	}
	n.Publish, err = policy.ParsePorts(c.Publish)
	return n, err
}

// hasCard tells whether commands have a network of their own.
func (l *Launcher) hasCard() bool {
	return slices.Contains([]string{"jail", "auto", "vm"}, l.Conf.Isolation)
}

// outside is how a guest's network connects: through the proxies that our environment names.
func (l *Launcher) outside() (o network.Options, err error) {
	if policy.Mode(l.Conf.Network.Policy) == policy.Disabled {
		return o, nil
	}
	proxies, err := network.ProxyFromEnvironment(os.Getenv)
	if err != nil {
		return o, console.Usagef("%s", err)
	}
	if proxies != nil {
		o.Upstream = proxies.Dial
	}
	o.Intercept, err = l.injector()
	return o, err
}
