package console

import (
	"context"
	"log/slog"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Untold is a logger without the warnings about questions that nobody has answered in time, and without those of the undo log: a command in front of the user prints the
// question, and until when it is refused, and what the log warns of ([Job.Event]). The same would stand there twice.
func Untold(l *slog.Logger) *slog.Logger { return slog.New(untold{l.Handler()}) }

// untold leaves out what is told.
type untold struct{ slog.Handler }

// Handle implements [slog.Handler].
func (u untold) Handle(ctx context.Context, r slog.Record) error {
	told := false
	if r.Level == slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool {
			_, ofLog := a.Value.Any().(undolog.WarningCode)
			told = a.Key == "safeguard_id" || ofLog
			return !told
		})
	}
	if told {
		return nil
	}
	return u.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (u untold) WithAttrs(attrs []slog.Attr) slog.Handler { return untold{u.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (u untold) WithGroup(name string) slog.Handler { return untold{u.Handler.WithGroup(name)} }
