package qemu

import (
	"slices"
	"strings"
)

// splitLines returns a console's lines as people may see them: without control
// characters, which are the guest's and would act on a terminal, and without
// those that have nothing on them.
func splitLines(text string) []string {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0) && r != '\ufffd' {
			return r
		}
		return -1
	}, text)
	var lines []string
	for l := range strings.Lines(clean) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// panicLine returns what the guest's kernel said when it gave up, or nothing,
// and what stood before that.
func panicLine(text string) (line, before string) {
	const mark = "Kernel panic - not syncing:"
	before, rest, found := strings.Cut(text, mark)
	if !found {
		return "", text
	}
	rest, _, _ = strings.Cut(rest, "\n")
	if lines := splitLines(mark + rest); len(lines) == 1 {
		return lines[0], before[:strings.LastIndexByte(before, '\n')+1]
	}
	return mark, before
}

// lastLines returns the last n lines with something on them.
func lastLines(text string, n int) []string {
	var lines []string
	for _, l := range slices.Backward(splitLines(text)) {
		if lines = append(lines, l); len(lines) == n {
			break
		}
	}
	slices.Reverse(lines)
	return lines
}

// What Console returns at most.
const (
	consoleLines = 40
	consoleWidth = 400 // characters of one line
)

// Console implements [hypervisor.Speaker].
func (g *guest) Console() []string {
	lines := lastLines(g.console.String(), consoleLines)
	for i, l := range lines {
		if runes := []rune(l); len(runes) > consoleWidth {
			lines[i] = string(runes[:consoleWidth-1]) + "…"
		}
	}
	return lines
}
