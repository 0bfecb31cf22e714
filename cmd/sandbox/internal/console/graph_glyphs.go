package console

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// glyphs are the characters of a picture. Each is one column wide, but for cut.
type glyphs struct {
	kinds map[Kind]string
	// Of a lane: its newest step, one between, its oldest, one alone; and its line beside
	// the steps of others.
	first, middle, last, alone, pass string
	rule                             string // of a barrier, across the lanes
	cut                              string // stands for what there was no room for
}

func unicodeGlyphs() glyphs {
	return glyphs{
		kinds: map[Kind]string{
			KindCommand: "●", KindAPI: "◆", KindAmbient: "○",
			KindBarrier: "✕", KindUndone: "◌", KindMark: "⚑", KindRunning: "▸",
		},
		first: "╭", middle: "├", last: "╰", alone: "╶", pass: "│", rule: "┄", cut: "…",
	}
}

func asciiGlyphs() glyphs {
	return glyphs{
		kinds: map[Kind]string{
			KindCommand: "*", KindAPI: "+", KindAmbient: "o",
			KindBarrier: "x", KindUndone: ".", KindMark: ">", KindRunning: "@",
		},
		first: "/", middle: "|", last: "\\", alone: "-", pass: "|", rule: "-", cut: "...",
	}
}

// ascii writes what is not ASCII as its number.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '…':
			b.WriteString("...")
		case r > '~':
			fmt.Fprintf(&b, "<%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// runeWidth is how many columns r takes, seen alone: terminals differ in what they join.
func runeWidth(r rune) int {
	if r <= '~' {
		return 1
	}
	return max(ansi.StringWidth(string(r)), ansi.StringWidthWc(string(r)))
}

// textWidth is how many columns a clean text takes at most.
func textWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// fit cuts a text that is wider than most. mark is its end then, if there is room for it.
func fit(s string, most int, mark string) string {
	if most <= 0 {
		return ""
	}
	if textWidth(s) <= most {
		return s
	}
	if textWidth(mark) > most {
		mark = ""
	}
	room, end := most-textWidth(mark), 0
	for i, r := range s {
		if room -= runeWidth(r); room < 0 {
			break
		}
		end = i + len(string(r))
	}
	return s[:end] + mark
}
