package main

import (
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// network is what commands may reach, if the runtime can see to that: only a
// virtual machine has a network, the jail none, and without isolation it is the
// host's.
func (a *app) network() (n api.Network, err error) {
	c := a.conf.Network
	n.Mode = policy.Mode(c.Policy)
	asked := a.conf.Origin("network.policy")[0]
	switch {
	case a.conf.Isolation == "vm":
		if n.Mode == policy.Disabled && len(a.keyFlags["allow-host"].Values) > 0 {
			return n, usageError{errors.New("--allow-host: there is no network; add --network allowlist, or --network ask")}
		}
		n.Allow, err = policy.ParseRules(c.Allow)
		return n, err
	case a.conf.Isolation == "none" && n.Mode != policy.Open && asked.Level != config.FromDefault:
		return n, usageError{fmt.Errorf("network policy %s (%s): --isolation none leaves commands the host's network; use --isolation vm", n.Mode, asked)}
	case a.conf.Isolation != "none" && n.Mode != policy.Disabled:
		return n, usageError{fmt.Errorf("network policy %s (%s): the jail has no network; use --isolation vm", n.Mode, asked)}
	case len(a.keyFlags["allow-host"].Values) > 0:
		return n, usageError{errors.New("--allow-host: only a virtual machine has a network; use --isolation vm with --network allowlist, or --network ask")}
	}
	return api.Network{}, nil
}
