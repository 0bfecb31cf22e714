package policy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// InPod tells whether a mode's guests are in the network namespace of this program.
func (m Mode) InPod() bool { return m == Pod || m == PodAsk }

// decides is the mode by which an engine with these rules decides.
func (m Mode) decides(rules []Rule) Mode {
	switch {
	case m == PodAsk:
		return Ask
	case m != Pod:
		return m
	case len(rules) > 0:
		return Allowlist
	}
	return Open
}

// keeps returns an error, which wraps [ErrSyntax], if one of the rules cannot be kept in the mode: where the pod's own resolver answers, nobody
// knows which addresses a name has.
func (m Mode) keeps(lists ...[]Rule) error {
	if !m.InPod() {
		return nil
	}
	for _, r := range slices.Concat(lists...) {
		if r.domain != "" {
			return fmt.Errorf("%w: network rule %q: --network %s knows addresses and no names, because programs look them up at the pod's own resolver: name an address or a range, "+
				"have a NetworkPolicy or a proxy of the cluster decide about names, or use --network allowlist where there is /dev/net/tun", ErrSyntax, r.text, m)
		}
	}
	return nil
}

// protects begins the Rule of what is denied because it is protected. In a pod without rules none is advised: the first one would make a list of them.
func (e *Engine) protects() string {
	if e.o.Mode == Pod && e.decides == Open {
		return "protected in a pod: "
	}
	return byProtection
}

// byResolver is the Rule of what [Options].Resolvers allows.
const byResolver = "the pod's resolver"

// resolverPort is where DNS servers listen.
const resolverPort = 53

// resolves tells whether a flow goes to a DNS server of the pod.
func (e *Engine) resolves(t Target, a netip.Addr) bool {
	return t.Address.Port() == resolverPort && t.Protocol != ICMP && slices.Contains(e.o.Resolvers, a)
}

// Datagrams tells whether rules, or a person, decide about single datagrams: where a guest is in our own network namespace, they are looked at then.
func (e *Engine) Datagrams() bool { return e.decides != Open || len(e.deny) > 0 }

// Local tells whether an address leads to this network namespace itself: its loopback, an address of its own, or no address at all.
func (e *Engine) Local(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refreshOwn(e.o.Now())
	return e.own[a]
}

// Reach is [Engine.Connect] for a process of this machine, as the host numbers it: its socket need not have an address yet.
func (e *Engine) Reach(ctx context.Context, t Target, pid int) Verdict {
	v := e.Peek(t)
	if v.Action != Undecided {
		return v
	}
	return e.ask(ctx, Question{Target: t, PID: pid})
}

// maxNameservers bounds what is read of a resolv.conf: C libraries ask three.
const maxNameservers = 16

// Nameservers reads the DNS servers that a resolv.conf names. Where it names none, C libraries ask this machine.
func Nameservers(conf string) (list []netip.Addr) {
	for line := range strings.Lines(conf) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || len(list) == maxNameservers {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			list = append(list, a.Unmap().WithZone(""))
		}
	}
	if len(list) == 0 {
		list = append(list, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return list
}
