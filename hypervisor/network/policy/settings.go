package policy

import (
	"fmt"

	"github.com/codeagent/sandbox/hypervisor/network/window"
)

// Network says what a guest may reach: what [network] of the configuration says, as it is written there. The zero value is nothing at all. Whoever takes it parses
// the rules and ports; [Network.Check] finds what is wrong before that.
type Network struct {
	Mode Mode
	// Allow are rules for what modes allowlist, ask, pod and pod-ask allow without asking, Deny for what no mode, rule or person allows ([ParseRule]).
	Allow, Deny []string
	// Publish are ports of the guest that the host can connect to, in any mode ([ParsePort]). No engine looks at them.
	Publish []string
	// Settings are of the window in which programs listen, or at which they are reached. No engine looks at them.
	window.Settings
}

// None reports whether there is no network at all.
func (n Network) None() bool { return n.Mode == "" || n.Mode == Disabled }

// Check returns what is wrong with the rules, the ports and the window; an error wraps [ErrSyntax], or [window.ErrSettings].
func (n Network) Check() error {
	if _, _, err := n.rules(); err != nil {
		return err
	}
	ports, err := ParsePorts(n.Publish)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if !p.Listen.IsValid() && n.Settings.None() {
			return fmt.Errorf("%w: published port %q: at which port of the host? Write HOST:%s, or have the session choose one: --network-strategy %s", ErrSyntax, p, p, window.RewirePort)
		}
	}
	return n.Settings.Check()
}

// rules are those that allow and that deny, if the mode can keep them.
func (n Network) rules() (allow, deny []Rule, err error) {
	if allow, err = ParseRules(n.Allow); err != nil {
		return nil, nil, err
	}
	if deny, err = ParseRules(n.Deny); err != nil {
		return nil, nil, err
	}
	return allow, deny, n.Mode.keeps(allow, deny)
}
