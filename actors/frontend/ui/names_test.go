package ui

import (
	"testing"
	"unicode/utf8"
)

// FuzzNames: every path can be told and asked for again, and no two are told alike.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "a", "b\xff", `"b\xff"`, `"`, "\u202e<\x1b\n\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		text := asText(path)
		if !utf8.ValidString(text) {
			t.Fatalf("%q is no text", text)
		}
		if back, err := asPath(text); err != nil || back != path {
			t.Fatalf("%q, told as %q, comes back as %q, %v", path, text, back, err)
		}
		if _, err := asPath(path); err != nil && path[0] != '"' {
			t.Fatal(err)
		}
	})
}
