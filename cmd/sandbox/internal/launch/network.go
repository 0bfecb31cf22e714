package launch

import (
	"os"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// network is what commands may reach. Without isolation it is the host's.
func (l *Launcher) network() (n api.Network, err error) {
	c := l.Conf.Network
	n.Mode = policy.Mode(c.Policy)
	switch {
	case l.Conf.Isolation == "none":
		return api.Network{}, nil
	case len(c.Inject) > 0 && n.Mode == policy.Disabled:
		return n, console.Usagef("network.inject (%s): there is no network; add --network allowlist and --allow-host HOST", l.Conf.Origin("network.inject")[0])
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
