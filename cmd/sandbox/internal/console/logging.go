package console

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages/logctx"
)

// levelTrace is below debug: wire-level detail.
const levelTrace = slog.LevelDebug - 4

// NewLogger returns a logger that writes JSON lines as docs/logging.md describes them, or
// text. The form is json, text or auto: text when out is a terminal. An empty level
// is warn; one that is unknown is an error.
func NewLogger(out *os.File, level, form string) (*slog.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	if form == "text" || form != "json" && term.IsTerminal(int(out.Fd())) {
		return correlated(tint.NewTextHandler(out, &tint.Options{
			Level: l, TimeFormat: time.TimeOnly, NoColor: !Colour(out), ReplaceAttr: harmless,
		})), nil
	}
	return correlated(slog.NewJSONHandler(out, &slog.HandlerOptions{
		Level: l, ReplaceAttr: logNames,
	})), nil
}

// correlated makes lines tell the request and the step of their context, and
// one component at least. There is no end of lines for a program inside to have written.
func correlated(h slog.Handler) *slog.Logger {
	return slog.New(newFlooded(logctx.New(h, logctx.Options{Component: "cli"})))
}

// harmless keeps names and texts from elsewhere from acting on the terminal:
// tint passes escape sequences on, and makes some of the text \x1b.
func harmless(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case slog.Level, time.Time, int64, uint64, float64, bool, time.Duration:
	case string:
		a.Value = slog.StringValue(inert(v))
	default:
		a.Value = slog.StringValue(inert(fmt.Sprint(v)))
	}
	return a
}

// inert writes out what is not printable.
func inert(s string) string {
	return texts.Inert(strings.ReplaceAll(s, `\x1b`, `\x1B`))
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "":
		return slog.LevelWarn, nil
	case "trace":
		return levelTrace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("unknown log level %q: use error, warn, info, debug or trace", s)
}

// logNames gives slog's own fields the names and forms of docs/logging.md.
func logNames(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String("timestamp", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000000Z"))
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		level, ok := a.Value.Any().(slog.Level)
		if !ok {
			return a
		}
		name := strings.ToLower(level.String())
		if level < slog.LevelDebug {
			name = "trace"
		}
		return slog.String("level", name)
	}
	return a
}
