package config

import (
	"errors"
	"fmt"
	"testing"
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
	if err := New().CheckText("f.toml", make([]byte, maxFileBytes+1), User); err == nil {
		t.Error("a text that could not be read again is taken")
	}
}
