package jail

import (
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// forbidExec binds what may not be executed over itself, on mounts that nothing is executed or
// mapped as code from. Where that cannot be, a note says so: another mount of the view
// would be covered, or what is there can be written, so that a copy would do.
func (p *planner) forbidExec() {
	for _, named := range p.cfg.NoExec {
		if !exists(named) {
			continue
		}
		path := places.ResolveMount(named)
		for _, path := range append([]string{path}, places.MountAliases(p.mounts, path)...) {
			if slices.ContainsFunc(p.out, func(m mount) bool { return m.op == opNoExec && lexical.Within(path, m.path) }) {
				continue
			}
			within := func(m mount) bool { return lexical.Within(m.path, path) || lexical.Within(path, m.path) }
			if path == "/" || slices.ContainsFunc(p.out, within) || p.isCovered(path) {
				p.notes = append(p.notes, fmt.Sprintf("the policy's rule about executing %s does not hold inside: it is in, or around, a place that the view makes itself", named))
				continue
			}
			p.add(mount{op: opNoExec, path: path, source: path})
		}
	}
}
