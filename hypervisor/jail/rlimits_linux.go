package jail

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/nofile"
	"github.com/codeagent/sandbox/hypervisor"
)

// AsStarted returns the limits with no more files that may be open at first than when this program was started: Go raises that limit of every program, also
// of the one that the limits are of.
func AsStarted(l *hypervisor.ProcessLimits) *hypervisor.ProcessLimits {
	if l == nil {
		return nil
	}
	soft, _ := nofile.Started()
	out := &hypervisor.ProcessLimits{Nice: l.Nice, List: slices.Clone(l.List)}
	for i := range out.List {
		if limit := &out.List[i]; limit.Resource == unix.RLIMIT_NOFILE {
			limit.Soft = min(limit.Soft, soft)
		}
	}
	return out
}
