package launch

import (
	"os"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// network is what commands may reach. Without isolation it is the host's.
func (l *Launcher) network() (policy.Network, error) {
	c, none := l.Conf.Network, policy.Network{}
	n := c.Network
	switch {
	case l.Conf.Isolation == "none":
		return none, nil
	case len(c.Inject) > 0 && n.Mode == policy.Disabled:
		return none, console.Usagef("network.inject (%s): there is no network; add --network allowlist and --allow-host HOST", l.Conf.Origin("network.inject")[0])
	case len(c.Inject) > 0 && n.Mode.InPod():
		return none, console.Usagef("network.inject (%s): with --network %s connections are the pod's, and nothing is added to them; use --network allowlist", l.Conf.Origin("network.inject")[0], n.Mode)
	case n.Mode == policy.Disabled && l.AllowHost:
		return none, console.Usagef("--allow-host: there is no network; add --network allowlist, or --network ask")
	}
	if err := n.Check(); err != nil {
		return none, console.Usage(err)
	}
	return n, nil
}

// outside is how a guest's network connects: through the proxies that our environment names.
func (l *Launcher) outside() (o network.Options, err error) {
	if n := l.Conf.Network; n.None() || n.Mode.InPod() {
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
