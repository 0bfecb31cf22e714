package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// levelTrace is below debug: wire-level detail.
const levelTrace = slog.LevelDebug - 4

// newLogger writes JSON lines as docs/logging.md describes them, or coloured
// text when out is a terminal.
func newLogger(out *os.File, level string) (*slog.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	if term.IsTerminal(int(out.Fd())) {
		return slog.New(tint.NewTextHandler(out, &tint.Options{
			Level: l, TimeFormat: time.TimeOnly, NoColor: !wantColour(out),
		})), nil
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{
		Level: l, ReplaceAttr: logNames,
	})), nil
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
