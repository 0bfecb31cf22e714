package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// printJSON writes v and a newline to stdout.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(&a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// orEmpty keeps null out of JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// table writes aligned columns; cells are separated by tabs.
func (a *app) table(fill func(w io.Writer)) error {
	w := tabwriter.NewWriter(&a.out, 0, 8, 2, ' ', 0)
	fill(w)
	return w.Flush()
}

// painter colours text, or does not. Colours go around whole lines or last
// columns only: tabwriter counts their bytes.
type painter struct{ on bool }

func newPainter(out *os.File) painter { return painter{on: wantColour(out)} }

func wantColour(out *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd()))
}

func (p painter) sgr(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) red(s string) string    { return p.sgr("31", s) }
func (p painter) green(s string) string  { return p.sgr("32", s) }
func (p painter) yellow(s string) string { return p.sgr("33", s) }
func (p painter) dim(s string) string    { return p.sgr("2", s) }

// ago is a time relative to now, short enough for a column.
func ago(t, now time.Time) string {
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

// took is a duration with three digits or so.
func took(d time.Duration) string {
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

// bytesText is a size with a binary unit.
func bytesText(n int64) string {
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

// shown is a name as a terminal may show it: quoted if it holds anything that
// could disturb the terminal or the line.
func shown(s string) string {
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// oneLine is a command for a table: on one line and not too long.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	return shown(s)
}

// paths is "1 path" or "12 paths".
func paths(n int) string {
	if n == 1 {
		return "1 path"
	}
	return strconv.Itoa(n) + " paths"
}

// shellQuote is s as a shell word.
func shellQuote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_^", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// changeMark is the letter of a change, as version control shows it.
func changeMark(p undolog.Affected) string {
	switch p.Change {
	case "created":
		return "A"
	case "deleted":
		return "D"
	case "renamed":
		return "R"
	case "metadata":
		return "m"
	}
	return "M"
}

// printPaths lists changed paths, at most the given number of them.
func (a *app) printPaths(list []undolog.Affected, most int) {
	for i, p := range list {
		if most > 0 && i == most {
			fmt.Fprintf(&a.out, "  ... and %d more\n", len(list)-i)
			return
		}
		mark := changeMark(p)
		name := shown(p.Path)
		if p.Type == "dir" {
			name += "/"
		}
		line := mark + " " + name
		switch mark {
		case "A":
			line = a.paint.green(line)
		case "D":
			line = a.paint.red(line)
		}
		fmt.Fprintln(&a.out, "  "+line)
	}
}
