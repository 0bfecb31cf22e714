package why

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
	"github.com/codeagent/sandbox/hypervisor"
)

// sight is what is said of a path as JSON.
type sight struct {
	hypervisor.Sight
	Policy []said `json:"policy,omitempty"`
}

// said is what the policy's rules say of one operation.
type said struct {
	Operation approval.Operation `json:"operation"`
	approval.Decision
}

// rules are what the policy says of a path: of one operation, or of all that a rule is about.
// A symlink is followed, as far as it leads somewhere: rules are about what is reached.
func (c Commands) rules(cfg api.Config, path, op string) (found []said) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	book := c.Policy(cfg.Directories[0].Path)
	for _, o := range []approval.Operation{approval.Read, approval.Write, approval.Exec} {
		if op != "" && op != string(o) {
			continue
		}
		if d := book.Decide(approval.Query{Operation: o, Path: path}); d.Action != approval.None {
			found = append(found, said{o, d})
		}
	}
	return found
}

func (c Commands) tellRules(found []said) {
	for _, v := range found {
		fmt.Fprintf(c.Out, "policy: %s is %s by %s\n", v.Operation, map[approval.Action]string{
			approval.Allow: "allowed", approval.Deny: "denied", approval.Ask: "asked",
		}[v.Action], format.Shown(v.Why))
		fmt.Fprintln(c.Out, "  to change it: "+format.Shown(v.Remedy))
		for _, r := range v.Beside {
			fmt.Fprintln(c.Out, "  weaker: "+format.Shown(r.Explain()))
		}
	}
}

// hostByRules replaces that a person would be asked by what a rule says of the question: of a
// name, with all its ports, or of an address.
func (c Commands) hostByRules(cfg api.Config, a *answer) {
	host := a.Host
	if addr, err := netip.ParseAddr(host); err == nil {
		host = "tcp/" + netip.AddrPortFrom(addr, a.Port).String()
	}
	d := c.Policy(cfg.Directories[0].Path).Decide(approval.Query{Operation: approval.Connect, Host: host})
	if d.Action != approval.None {
		a.Action, a.Why, a.Remedy = string(d.Action), d.Why, d.Remedy
	}
}
