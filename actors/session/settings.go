package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// maxTimeout is how long a decision may be allowed to take.
const maxTimeout = 24 * time.Hour

// CheckSafeguards completes settings. The error is [api.ErrSetting], wrapped.
func CheckSafeguards(g api.Safeguards) (api.Safeguards, error) {
	if g.Timeout == 0 {
		g.Timeout = messages.DecisionTime
	}
	switch {
	case g.DeleteThreshold < 0 || g.OverwriteBytes < 0:
		return g, fmt.Errorf("%w: a safeguard's threshold is negative; 0 switches it off", api.ErrSetting)
	case g.Timeout < 0 || g.Timeout > maxTimeout:
		return g, fmt.Errorf("%w: a decision may take up to %v, not %v", api.ErrSetting, maxTimeout, g.Timeout)
	}
	for _, p := range g.Exempt {
		if texts.Check(p) != nil {
			return g, fmt.Errorf("%w: exempt pattern %q: syntax error in pattern", api.ErrSetting, p)
		}
	}
	g.Exempt = slices.Clone(g.Exempt)
	return g, nil
}
