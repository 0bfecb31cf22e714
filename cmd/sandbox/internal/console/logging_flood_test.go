package console

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestW10FloodOfLines: what is logged without end because of what a program inside does is bounded: each message by itself, with what was left out. What somebody has asked for by the levels debug and trace is written as it is.
func TestW10FloodOfLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := NewLogger(f, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	l = l.With("agent", "ssh").WithGroup("group")
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log := func(level slog.Level, text string, after time.Duration) {
		t.Helper()
		if err := l.Handler().Handle(t.Context(), slog.NewRecord(start.Add(after), level, text, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		log(slog.LevelWarn, "flood", time.Duration(i)*time.Millisecond)
		log(slog.LevelInfo, "told", 0)
		log(slog.LevelDebug, "asked for", 0)
	}
	log(slog.LevelError, "other", 10*time.Second)
	log(slog.LevelWarn, "flood", 59*time.Second)
	log(slog.LevelWarn, "flood", 61*time.Second)
	log(slog.LevelWarn, "flood", 61*time.Second)
	for i := range 2 * mostTexts { // messages are few; if they were not, memory would be bounded all the same
		log(slog.LevelWarn, fmt.Sprint("text ", i), 0)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{
		`"message":"flood"`: mostAlike + 2, `"message":"asked for"`: 10_000, `"message":"told"`: mostTold, `"message":"other"`: 1, `"more_left_out":true`: 3, fmt.Sprintf(`"left_out":%d}`, 10_000-mostAlike+1): 1,
		`"left_out"`: 1, `"message":"text `: mostTexts - 3 + mostAlike,
	} {
		if n := strings.Count(string(text), what); n != want {
			t.Errorf("%d lines have %s, want %d", n, what, want)
		}
	}
}
