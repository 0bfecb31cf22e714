package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestVersionIsThatOfTheChangelog: the newest section of CHANGELOG.md is about what is built.
func TestVersionIsThatOfTheChangelog(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(text)
	if newest == nil || string(newest[1]) != next {
		t.Errorf("CHANGELOG.md begins with %q, and the program is on the way to %s", newest, next)
	}
}
