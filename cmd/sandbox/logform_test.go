package main

import "testing"

// What was not asked for as a log has the form of the texts between which it stands.
func TestD15OneForm(t *testing.T) {
	for _, c := range []struct {
		command, form string
		asked         bool
		want          string
	}{
		{"run", "auto", false, "text"},
		{"undo", "auto", false, "text"},
		{"run", "auto", true, "auto"},
		{"run", "json", false, "json"},
		{"run", "text", true, "text"},
		{"serve", "auto", false, "auto"},
		{"start", "auto", false, "auto"},
	} {
		if got := logForm(c.command, c.form, c.asked); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
