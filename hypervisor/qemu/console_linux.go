package qemu

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
