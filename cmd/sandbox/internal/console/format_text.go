package console

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/stepline"
	"github.com/codeagent/sandbox/fsbridge/texts"
)

// Ago is a time relative to now, short enough for a column.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// Took is a duration with three digits or so.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Bytes is a size with a binary unit.
func Bytes(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/(1<<10), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.4g %ciB", v, units[i])
}

// Shown is a name as a terminal may show it: quoted if it holds anything that
// could disturb the terminal or the line, and without its middle if it is very long.
func Shown(s string) string { return texts.Name(s) }

// OneLine is a command for a table: on one line and not too long.
func OneLine(s string, most int) string {
	return Shown(texts.Clip(strings.Join(strings.Fields(s), " "), most))
}

// Commands counts other commands.
func Commands(n int) string {
	if n == 1 {
		return "1 other command"
	}
	return fmt.Sprintf("%d other commands", n)
}

// Paths is "1 path" or "12 paths".
func Paths(n int) string { return stepline.Paths(n) }

// Bar is a part of a bar of so many columns, which stands for 1. What is not nothing is seen.
func Bar(part float64, columns int, ascii bool) string {
	steps := []string{"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"}
	if ascii {
		steps = []string{"#"}
	}
	if !(part > 0) {
		return ""
	}
	fine := len(steps)
	n := min(max(int(math.Round(min(part, 1)*float64(columns*fine))), 1), columns*fine)
	bar := strings.Repeat(steps[fine-1], n/fine)
	if n%fine > 0 {
		bar += steps[n%fine-1]
	}
	return bar
}

// Clip shortens a text to n characters.
func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
