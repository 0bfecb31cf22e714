package doctor

import (
	"context"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
)

// elsewhere is what there is to say on other systems than Linux: that it is an experiment, and whether machines can be started.
func (h Host) elsewhere(ctx context.Context, goos string) []Finding {
	list := []Finding{{
		Name: "platform", State: "warn",
		Detail: "on " + goos + " this is experimental: it has never run on a real machine. Commands run in a virtual machine (--isolation vm), and the folder is served to it by 9P",
		Advice: "docs/" + map[string]string{"darwin": "macos", "windows": "windows"}[goos] + ".md says what has been tried, and how",
	}}
	rt, err := h.Machine()
	if err == nil {
		list = append(list, acceleration(ctx, rt))
		err = rt.Probe(ctx)
	}
	machine := Finding{Name: "virtual machine", State: "ok", Detail: "can be started"}
	if err != nil {
		machine.State = "fail"
		machine.Detail, machine.Advice, _ = strings.Cut(hypervisor.Lacking(err), "; ")
	}
	return append(list, machine)
}

// acceleration tells whether machines are emulated.
func acceleration(ctx context.Context, rt Machine) Finding {
	f := Finding{Name: "acceleration", State: "ok"}
	name, why, err := rt.Acceleration(ctx)
	switch {
	case err != nil:
		f.State, f.Detail = "warn", "not tried: there is no QEMU that works"
	case name != "tcg":
		f.Detail = strings.ToUpper(name) + " works: virtual machines are accelerated"
	case why == nil:
		f.State, f.Detail = "warn", "not used: vm.acceleration is tcg"
	default:
		f.State = "warn"
		f.Detail, f.Advice, _ = strings.Cut(why.Error(), "; ")
		f.Detail += ": virtual machines are emulated, which is slow"
	}
	return f
}
