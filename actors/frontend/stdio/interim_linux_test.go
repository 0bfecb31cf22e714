package stdio_test

import (
	"context"
	"sync"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// interim adds what Session does not have yet.
type interim struct {
	*actors.Session
	mu sync.Mutex
	sg actors.Safeguards
	l  undolog.Limits
}

func (s *interim) Glob(context.Context, actors.GlobRequest) (r actors.GlobResult, e error) { return }
func (s *interim) Grep(context.Context, actors.GrepRequest) (r actors.GrepResult, e error) { return }
func (s *interim) Reset(context.Context) error                                             { return nil }
func (s *interim) Safeguards(context.Context) (actors.Safeguards, error)                   { return s.sg, nil }
func (s *interim) ConfigureSafeguards(_ context.Context, v actors.Safeguards) error {
	s.sg = v
	return nil
}
func (s *interim) Limits(context.Context, string) (undolog.Limits, error) { return s.l, nil }
func (s *interim) ConfigureLimits(_ context.Context, _ string, v undolog.Limits) error {
	s.l = v
	return nil
}
func (s *interim) Warnings(context.Context, string) ([]undolog.Warning, error) { return nil, nil }
