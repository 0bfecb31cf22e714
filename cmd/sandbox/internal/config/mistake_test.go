package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// TestMistakes: every mistake of a text is told with its line, in the order of the lines.
func TestMistakes(t *testing.T) {
	text := "[undo]\nmax_steps = 'x'\n\n[safeguards]\ndelete = 3\ntimeout = '1s'\n"
	err := New().CheckText("f.toml", []byte(text), User)
	var got []string
	for _, m := range Mistakes(err) {
		got = append(got, fmt.Sprint(m.File, ":", m.Line))
	}
	if len(got) != 2 || got[0] != "f.toml:2" || got[1] != "f.toml:5" {
		t.Errorf("%v: %v", got, err)
	}
	err = New().CheckText("f.toml", []byte("[undo]\nmax_steps = = 3\n"), User)
	if m := Mistakes(err); len(m) != 1 || m[0].Line != 2 || m[0].Column == 0 {
		t.Errorf("%+v: %v", m, err)
	}
	if m := Mistakes(errors.New("no place")); len(m) != 1 || m[0].Line != 0 {
		t.Errorf("%+v", m)
	}
	if m := Mistakes(nil); m != nil {
		t.Errorf("%+v", m)
	}
	if err := New().CheckText("f.toml", make([]byte, hostfs.RegularSettings().Bytes+1), User); err == nil {
		t.Error("a text that could not be read again is taken")
	}
}

// TestW5Bounds: what a parser would need long for is refused before it, and that is said on one line, as are many mistakes.
func TestW5Bounds(t *testing.T) {
	for says, text := range map[string]string{
		"f.toml:2: more than 16 tables": "#\na" + strings.Repeat(".a", 49_000) + " = 1\n",
		"f.toml:1001: it has more than": strings.Repeat("[x]\n", 1001),
		"it has more than 100 KiB":      strings.Repeat("#", 100<<10+1),
		"(and 499 more: 'sandbox":       lines(500),
	} {
		for _, level := range []Level{Organisation, User, Project} {
			err := New().CheckText("f.toml", []byte(text), level)
			if err == nil || !strings.Contains(Brief(err), says) || strings.Contains(Brief(err), "\n") {
				t.Errorf("%q: %.200v", says, err)
			}
		}
	}
}

// lines are n keys that are none of ours.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d = 1\n", i)
	}
	return b.String()
}
