package launch

import (
	"errors"
	"log/slog"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/restrain"
	"github.com/codeagent/sandbox/hypervisor/seccomp"
)

// Restrain makes this process one that is about to serve sessions: it keeps others of its user out, and gives up what it does not need. It comes before anything
// is probed, which threads of their own do.
func Restrain(log *slog.Logger) {
	restrain.Untraced()
	if err := restrain.Capabilities(); err != nil && !errors.Is(err, syscall.ENOTSUP) {
		log.Warn("capabilities that no session needs are kept", "component", "control", "err", err)
	}
}

// FilterCalls keeps this process from system calls that no supervisor makes. A guest that is started beneath the filter would run both its own and this one at each call that is
// not simply allowed, so that it comes after the start; but behind Landlock, where a thread of ours has a filter of its own from then on, it comes before. Without isolation
// commands may do what the user may, so that there is none.
func FilterCalls(cfg api.Config, started bool, log *slog.Logger) {
	name := cfg.Runtime.Name()
	if !seccomp.Supported || name == "none" || started == (name == "landlock") {
		return
	}
	if err := restrain.Filter(seccomp.Supervisor(cfg.Debug)); err != nil {
		log.Warn("the supervisor has no filter for its own system calls", "component", "control", "err", err)
	}
}
