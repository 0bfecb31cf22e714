package console

import (
	"cmp"
	"os"
	"strings"

	"golang.org/x/term"
)

// Painter colours text, or does not. Colours go around whole lines or last
// columns only: tabwriter counts their bytes.
type Painter struct{ on bool }

// NewPainter returns one for what is written to out.
func NewPainter(out *os.File) Painter { return Painter{on: Colour(out)} }

// Colour reports whether out takes colours: it is a terminal, and nobody has
// forbidden them.
func Colour(out *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd()))
}

// UTF8 reports whether the locale of an environment has more characters than ASCII.
func UTF8(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	_, charset, _ := strings.Cut(strings.ToLower(locale), ".")
	charset, _, _ = strings.Cut(charset, "@")
	return charset == "utf-8" || charset == "utf8"
}

// Width is how many characters a line of out holds, 0 if out is no terminal.
func Width(out *os.File) int {
	width, _, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return 0
	}
	return width
}

func (p Painter) sgr(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Red paints what is gone or has failed.
func (p Painter) Red(s string) string { return p.sgr("31", s) }

// Green paints what is new or works.
func (p Painter) Green(s string) string { return p.sgr("32", s) }

// Yellow paints what wants attention.
func (p Painter) Yellow(s string) string { return p.sgr("33", s) }

// Dim paints what matters less.
func (p Painter) Dim(s string) string { return p.sgr("2", s) }
