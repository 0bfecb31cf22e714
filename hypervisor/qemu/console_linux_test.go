package qemu

import (
	"fmt"
	"strings"
	"testing"
)

// TestConsoleIsBounded: what a guest says on its console comes as few short lines without control characters.
func TestConsoleIsBounded(t *testing.T) {
	g := &guest{}
	if lines := g.Console(); len(lines) != 0 {
		t.Errorf("%q", lines)
	}
	for i := range 10 * consoleLines {
		fmt.Fprintf(&g.console, "\x1b[31mline %d\x1b[0m\r\n\n", i)
	}
	fmt.Fprintf(&g.console, "%s\n\x1b]0;title\x07last", strings.Repeat("ä", 2*consoleWidth))
	lines := g.Console()
	if n := len(lines); n != consoleLines || lines[n-1] != "]0;titlelast" || len([]rune(lines[n-2])) != consoleWidth {
		t.Errorf("%d lines, the last %q", n, lines[n-2:])
	}
	for _, l := range lines {
		if strings.ContainsAny(l, "\x1b\x07\r\n") {
			t.Errorf("%q", l)
		}
	}
}
