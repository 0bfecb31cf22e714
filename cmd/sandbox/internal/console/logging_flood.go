package console

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Bounds of how often one message is written. What a program inside does can be the reason for a line, and it can do it again without end: the log lies where no limit of the session counts.
const (
	mostAlike   = 50  // warnings, or errors, with one message
	mostTold    = 300 // lines of the level info with one message, which serve writes unless it is told another level
	alikeWithin = time.Minute
	mostTexts   = 1000 // messages that are told apart
)

// flooded leaves out lines whose message was written often within a minute. The last one says so, and the next one how many were left out.
type flooded struct {
	slog.Handler
	seen *seen
}

// seen counts messages. It is safe for concurrent use.
type seen struct {
	mu    sync.Mutex
	texts map[string]*alike
}

// alike is what was written of one message since a time.
type alike struct {
	since   time.Time
	written int
	leftOut int
}

func newFlooded(h slog.Handler) slog.Handler {
	return flooded{h, &seen{texts: make(map[string]*alike)}}
}

// Handle implements [slog.Handler].
func (f flooded) Handle(ctx context.Context, r slog.Record) error {
	most := mostAlike
	switch {
	case r.Level < slog.LevelInfo: // somebody has asked for all of it
		return f.Handler.Handle(ctx, r)
	case r.Level < slog.LevelWarn:
		most = mostTold
	}
	before, last, write := f.seen.count(r.Message, most, r.Time)
	if !write {
		return nil
	}
	r = r.Clone()
	if before > 0 {
		r.AddAttrs(slog.Int("left_out", before))
	}
	if last {
		r.AddAttrs(slog.Bool("more_left_out", true))
	}
	return f.Handler.Handle(ctx, r)
}

// count counts a message, which is written most times within a minute. write: it is to be written, before is how many were left out until it, and last says that those that follow soon are left out.
func (s *seen) count(text string, most int, at time.Time) (before int, last, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts[text] == nil && len(s.texts) >= mostTexts {
		text = "" // they count as one
	}
	a := s.texts[text]
	if a == nil {
		a = &alike{since: at}
		s.texts[text] = a
	}
	if at.Sub(a.since) >= alikeWithin {
		before = a.leftOut
		*a = alike{since: at}
	}
	if a.written++; a.written > most {
		a.leftOut++
		return 0, false, false
	}
	return before, a.written == most, true
}

// WithAttrs implements [slog.Handler].
func (f flooded) WithAttrs(attrs []slog.Attr) slog.Handler {
	return flooded{f.Handler.WithAttrs(attrs), f.seen}
}

// WithGroup implements [slog.Handler].
func (f flooded) WithGroup(name string) slog.Handler {
	return flooded{f.Handler.WithGroup(name), f.seen}
}
