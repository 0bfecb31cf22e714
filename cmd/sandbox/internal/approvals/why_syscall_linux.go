package approvals

import (
	"errors"
	"fmt"
	"os"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// syscall explains what the filter does with a system call, by name or number.
func (c WhyCommands) syscall(cfg api.Config, call string) error {
	s := filters.Settings{Debug: cfg.Debug, Mediated: cfg.Bridge != hypervisor.BridgeFUSE, Containers: cfg.Containers}
	if uid := os.Geteuid(); uid != 0 {
		s.Alone = &filters.IDs{UID: uint32(uid), GID: uint32(os.Getegid())}
	}
	if err := lacking(cfg, "filter"); err != nil {
		return err
	}
	s.Confined = cfg.Runtime.Name() == "landlock"
	switch n := cfg.Network; {
	case !n.Mode.InPod():
	case n.Mode == policy.PodAsk || len(n.Allow)+len(n.Deny) > 0:
		s.Sharing = filters.SharedDatagrams
	default:
		s.Sharing = filters.SharedConnections
	}
	e, err := filters.Explain(call, s)
	if errors.Is(err, filters.ErrNoCall) {
		return console.Usage(err)
	}
	if err != nil {
		return err
	}
	if c.JSON() {
		if err := c.Out.JSON(e); err != nil {
			return err
		}
	} else {
		c.tellCall(e)
	}
	if e.Verdict != filters.Allowed && e.Verdict != filters.Conditional {
		return &console.Error{Code: console.Failed}
	}
	return nil
}

func (c WhyCommands) tellCall(e filters.Call) {
	name := e.Name
	switch {
	case name == "":
		name = fmt.Sprintf("system call %d", e.Number)
	case e.Number >= 0:
		name = fmt.Sprintf("%s (system call %d)", name, e.Number)
	}
	answer := "denied: it fails with " + e.Errno
	switch {
	case e.Verdict == filters.Allowed:
		answer = "allowed"
	case e.Verdict == filters.Conditional && e.Errno == "":
		answer = "allowed; the supervisor or the filter looks at its arguments"
	case e.Verdict == filters.Conditional:
		answer = "depends on its arguments; refused, it fails with " + e.Errno
	}
	fmt.Fprintf(c.Out, "%s: %s\nbecause: %s\n", console.Shown(name), answer, e.Why)
	if e.Family != "" {
		fmt.Fprintf(c.Out, "family: %s\n", e.Family)
	}
	if e.Remedy != "" {
		fmt.Fprintln(c.Out, "to change it: "+e.Remedy)
	}
}
