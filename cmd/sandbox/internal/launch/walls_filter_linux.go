package launch

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// Restrain makes this process one that is about to serve sessions: it keeps others of its user out, and gives up what it does not need. It comes before anything
// is probed, which threads of their own do.
func Restrain(log *slog.Logger) {
	filters.Untraced()
	if err := filters.Capabilities(); err != nil && !errors.Is(err, syscall.ENOTSUP) {
		log.Warn("capabilities that no session needs are kept", "component", "control", "err", err)
	}
}

// filtered is this process's own filter of system calls: which one it is beneath, and for which isolation's sake.
type filtered struct {
	by    string // a runtime's name; empty: there is none
	debug bool   // it lets tracing through
	// it lets programs of 32 bits through
	programs32bit bool
}

// lets returns an error if the filter is in the way of what commands of a session may do: they inherit it.
func (f *filtered) lets(cfg api.Config) error {
	switch name := cfg.Runtime.Name(); {
	case f.by == "":
		return nil
	case name == "none":
		return fmt.Errorf("commands without isolation would inherit the filter of system calls that this program has put itself beneath for isolation %s: start another one for them: %w", f.by, hypervisor.ErrUnavailable)
	case cfg.Debug && !f.debug:
		return fmt.Errorf("a session without --debug was served here, and this program has put itself, and what it starts, beneath a filter that denies tracing: start another one: %w", hypervisor.ErrUnavailable)
	case cfg.Programs32bit && !f.programs32bit:
		return fmt.Errorf("a session without --32bit was served here, and this program has put itself, and what it starts, beneath a filter that knows calls of 64 bits alone: start another one: %w", hypervisor.ErrUnavailable)
	}
	return nil
}

// settled reports whether the filter is as a session needs it, and nothing is to be loaded.
func (f *filtered) settled(cfg api.Config) bool {
	return !filters.Supported || cfg.Runtime.Name() == "none" || f.by != "" && f.debug == cfg.Debug && f.programs32bit == cfg.Programs32bit
}

// load keeps this process from system calls that no supervisor makes. A guest that is started beneath the filter would run both its own and this one at each call that is
// not simply allowed, so that it comes after the start; but behind Landlock, where a thread of ours has a filter of its own from then on, it comes before. Without isolation
// commands may do what the user may, so that there is none.
func (f *filtered) load(cfg api.Config, started bool, log *slog.Logger) {
	name := cfg.Runtime.Name()
	if started == (name == "landlock") || f.settled(cfg) {
		return
	}
	if err := filters.UntracedFilter(filters.Supervisor(cfg.Debug, cfg.Programs32bit)); err != nil {
		log.Warn("the supervisor has no filter for its own system calls", "component", "control", "err", err)
		return
	}
	f.by, f.debug, f.programs32bit = name, cfg.Debug, cfg.Programs32bit
}
