package console

import (
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// On a terminal only lines, tabs and colours act.
func TestTame(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nc":                               "a\tb\nc",
		"größe\r\n10%\r20%\n":                   "größe\n10%\n20%\n",
		"\x1b[1;31mred\x1b[0m":                  "\x1b[1;31mred\x1b[0m\x1b[0m",
		"\x1b[2Jx\x1b]0;title\a":                "<001B>[2Jx<001B>]0;title<0007>",
		"\x1b[31\x1b[32m":                       "<001B>[31\x1b[32m\x1b[0m",
		"\x1b[" + strings.Repeat("1", 99) + "m": "<001B>[" + strings.Repeat("1", 99) + "m",
		"\u009b2J \u202e \xff \x00":             "<009B>2J <202E> <FF> <0000>",
		"\x1b":                                  "<001B>",
	} {
		if got := Tame(in, true); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := Tame("\x1b[31mred\x1b[0m", false); got != "red" {
		t.Errorf("without colours: %q", got)
	}
}

// Into a file the bytes go as they are; what was left out is said where it was.
func TestStepOutput(t *testing.T) {
	var b strings.Builder
	StepOutput(&b, undolog.CommandOutput{Data: []byte("a\x1b[2Jb"), Bytes: 14, LeftOut: 9, Cut: 1}, false, Painter{})
	StepOutput(&b, undolog.CommandOutput{Data: []byte("a\x1b[2Jb\n"), Bytes: 7}, true, Painter{})
	StepOutput(&b, undolog.CommandOutput{Bytes: 7, LeftOut: 7}, true, Painter{})
	const want = "a\n[... 9 bytes left out ...]\n\x1b[2Jb\na<001B>[2Jb\n[... 7 bytes left out ...]\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
