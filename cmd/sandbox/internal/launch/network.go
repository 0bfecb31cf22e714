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
	case len(c.Inject) > 0 && n.Mode.InPod():
		return n, console.Usagef("network.inject (%s): with --network %s connections are the pod's, and nothing is added to them; use --network allowlist", l.Conf.Origin("network.inject")[0], n.Mode)
	case n.Mode == policy.Disabled && l.AllowHost:
		return n, console.Usagef("--allow-host: there is no network; add --network allowlist, or --network ask")
	}
	if n.Allow, err = policy.ParseRules(c.Allow); err != nil {
		return n, err
	}
	if n.Deny, err = policy.ParseRules(c.Deny); err != nil {
		return n, err
	}
	if err := policy.InPod(n.Mode, n.Allow, n.Deny); err != nil {
		return n, console.Usage(err)
	}
	n.Publish, err = policy.ParsePorts(c.Publish)
	return n, err
}

// outside is how a guest's network connects: through the proxies that our environment names.
func (l *Launcher) outside() (o network.Options, err error) {
	if m := policy.Mode(l.Conf.Network.Policy); m == policy.Disabled || m.InPod() {
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
