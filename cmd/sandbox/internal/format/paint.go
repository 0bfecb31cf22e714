package format

import (
	"os"

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
