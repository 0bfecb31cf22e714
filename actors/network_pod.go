package actors

import (
	"context"
	"net/netip"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/mediate"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// resolvConf names the DNS servers that programs ask in this program's network namespace.
const resolvConf = "/etc/resolv.conf"

// maxTold bounds the destinations of datagrams that were told of.
const maxTold = 1024

// podNetwork decides about the connections of guests that are in this program's network namespace, and tells of them. What a flow carries, and when it ends, nobody
// sees: so it ends at once. Of datagrams to one address only the first is told of.
type podNetwork struct {
	engine *policy.Engine

	mu   sync.Mutex
	told map[string]bool // by the verdict and where it goes
}

var _ mediate.Network = (*podNetwork)(nil)

// Local implements [mediate.Network].
func (n *podNetwork) Local(a netip.Addr) bool { return n.engine.Local(a) }

// Judge implements [mediate.Network].
func (n *podNetwork) Judge(f mediate.Flow) (allowed, decided bool) {
	v := n.engine.Peek(podTarget(f))
	if v.Action == policy.Undecided {
		return false, false
	}
	n.tell(f, v)
	return v.Allowed(), true
}

// Ask implements [mediate.Network].
func (n *podNetwork) Ask(ctx context.Context, f mediate.Flow) bool {
	v := n.engine.Reach(ctx, podTarget(f), f.PID)
	n.tell(f, v)
	return v.Allowed()
}

func podTarget(f mediate.Flow) policy.Target {
	return policy.Target{Protocol: policy.Protocol(f.Protocol), Address: f.To}
}

func (n *podNetwork) tell(f mediate.Flow, v policy.Verdict) {
	t := podTarget(f)
	if t.Protocol != policy.TCP && n.known(string(v.Action)+" "+string(t.Protocol)+" "+f.To.String()) {
		return
	}
	if v.Allowed() {
		n.engine.Start(t, netip.AddrPort{}, v).End(nil)
	} else {
		n.engine.Denied(t, netip.AddrPort{}, v)
	}
}

// known tells whether it was told of that before; if there is too much, it is told of anew.
func (n *podNetwork) known(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[what] {
		return true
	}
	if n.told == nil || len(n.told) >= maxTold {
		n.told = make(map[string]bool)
	}
	n.told[what] = true
	return false
}
