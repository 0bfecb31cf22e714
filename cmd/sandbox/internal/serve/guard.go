package serve

import (
	"context"
	"slices"

	"github.com/codeagent/sandbox/actors/api"
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
	var keys []string
	for key, changed := range map[string]bool{
		"safeguards.deletes":         now.DeleteThreshold != want.DeleteThreshold,
		"safeguards.overwrite_bytes": now.OverwriteBytes != want.OverwriteBytes,
		"safeguards.rename_over":     now.RenameOver != want.RenameOver,
		"safeguards.timeout":         now.Timeout != want.Timeout,
		"safeguards.exempt":          !slices.Equal(now.Exempt, want.Exempt),
	} {
		if changed {
			keys = append(keys, key)
		}
	}
	if err := g.locked(keys...); err != nil {
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
	var keys []string
	for key, changed := range map[string]bool{
		"undo.max_bytes":      now.LogBytes != want.LogBytes,
		"undo.max_steps":      now.StepCount != want.StepCount,
		"undo.max_step_bytes": now.StepBytes != want.StepBytes,
		"undo.max_age":        now.Age != want.Age,
	} {
		if changed {
			keys = append(keys, key)
		}
	}
	if err := g.locked(keys...); err != nil {
		return err
	}
	return g.Live.ConfigureLimits(ctx, directory, want)
}
