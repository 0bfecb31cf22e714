package serve

import (
	"context"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// guarded is a session in which what the organisation has locked cannot be
// changed while it runs either, and commands wait to be allowed if they must.
type guarded struct {
	api.Live
	locked func(keys ...string) error
	// ask is what a person is asked before the command runs; empty: nothing.
	ask func(argv []string) string
}

// Run implements [api.Runner].
func (g guarded) Run(ctx context.Context, r api.RunRequest) (api.RunResult, error) {
	r.Question = g.ask(r.Argv)
	return g.Live.Run(ctx, r)
}

// ConfigureSafeguards implements [api.Manager].
func (g guarded) ConfigureSafeguards(ctx context.Context, want api.Safeguards) error {
	now, err := g.Safeguards(ctx)
	if err != nil {
		return err
	}
	if err := g.locked(config.Changed("safeguards", now, want)...); err != nil {
		return err
	}
	return g.Live.ConfigureSafeguards(ctx, want)
}

// ConfigureLimits implements [api.Manager].
func (g guarded) ConfigureLimits(ctx context.Context, directory string, want undolog.Limits) error {
	now, err := g.Limits(ctx, directory)
	if err != nil {
		return err
	}
	if err := g.locked(config.Changed("undo", now, want)...); err != nil {
		return err
	}
	return g.Live.ConfigureLimits(ctx, directory, want)
}
