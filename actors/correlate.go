package actors

import (
	"context"
	"log/slog"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/logctx"
)

// correlated makes the session's own logger: its lines tell which step was open
// and, if they are about a step, for which request that was.
func (s *Session) correlated(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(logctx.New(l.Handler(), logctx.Options{Component: "session", Complete: s.complete}))
}

func (s *Session) complete(f logctx.Fields) logctx.Fields {
	if f.Step == 0 {
		f.Step = int64(s.board.Load().Step)
		return f
	}
	if f.RequestID == "" {
		f.RequestID = s.origin(stepID(f.Step)).RequestID
	}
	return f
}

// component is the logger of a part that logs by the session.
func (s *Session) component(name string) *slog.Logger {
	return s.cfg.Logger.With(logctx.KeyComponent, name)
}

// stepOpened publishes that a step is open, and announces that of a command.
func (s *Session) stepOpened(id undolog.StepID, as *step.Open) {
	s.board.StepOpened(id, as.From, as.Info.Command)
	s.logStep(int64(id), as.From)
	if as.Kind == step.Command {
		s.commandStarted(id, as)
	}
}

// stepJoined announces that a command takes part in the open step.
func (s *Session) stepJoined(id undolog.StepID, as *step.Open) {
	s.component("control").InfoContext(about(int64(id), as.From), "step joined", "frontend", as.From.Frontend, "tool", as.From.Tool)
	s.commandStarted(id, as)
}

func (s *Session) commandStarted(id undolog.StepID, as *step.Open) {
	s.bus.Emit(api.Event{Type: api.EventStepStarted, Step: id, Origin: as.From, Message: as.Info.Command, Command: as.Info.Command})
}

// logStep says that a step begins.
func (s *Session) logStep(id int64, from api.Origin) {
	var attrs []any
	if from != (api.Origin{}) {
		attrs = []any{"frontend", from.Frontend, "tool", from.Tool}
	}
	s.component("control").InfoContext(about(id, from), "step started", attrs...)
}

func about(id int64, from api.Origin) context.Context {
	return logctx.With(context.Background(), logctx.Fields{RequestID: from.RequestID, Step: id})
}

// logStepEnd says how it ended.
func (s *Session) logStepEnd(e api.Event) {
	attrs := []any{"outcome", e.Outcome, "affected", e.AffectedCount}
	if e.ExitCode != nil {
		attrs = append(attrs, "exit_code", *e.ExitCode)
	}
	if e.Directory != "" {
		attrs = append(attrs, "path", e.Directory)
	}
	s.component("control").InfoContext(about(int64(e.Step), e.Origin), "step completed", attrs...)
}

// logApplied says what an undo, redo or restore did, and tells who measures it.
func (s *Session) logApplied(ctx context.Context, what string, u api.UndoResult, err error) {
	log := s.component("undo")
	attrs := []any{"path", u.Directory, "steps", len(u.Steps), "paths", u.PathCount, "took_us", u.Took.Microseconds(), "dry_run", u.DryRun, "left", u.LeftCount}
	if err != nil {
		log.InfoContext(ctx, what+" refused or failed", append(attrs, "err", err)...)
		return
	}
	log.InfoContext(ctx, what+" executed", attrs...)
	if s.cfg.Applied != nil && !u.DryRun {
		s.cfg.Applied(what, u.Took)
	}
}
