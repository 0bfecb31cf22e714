package ui

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden is what would let a string of the server become more than text, or what
// the page's Content-Security-Policy refuses.
var forbidden = map[string]*regexp.Regexp{
	".js":   regexp.MustCompile(`(?i)inner` + `HTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function|javascript:|setAttribute\("style"|https?://[^w]`),
	".html": regexp.MustCompile(`(?i)<style|<script(?:\s+[a-z]+(?:="[^"]*")?)*\s*>[^<]|\sstyle=|\son[a-z]+=|https?://|<iframe|<base|<form`),
	".css":  regexp.MustCompile(`(?i)@import|url\(|expression\(`),
	".svg":  regexp.MustCompile(`(?i)<script|\son[a-z]+=|href=`),
}

func TestPageCannotRunStrings(t *testing.T) {
	dir := "../../../actors/frontend/ui/page"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		re := forbidden[ext]
		if re == nil {
			continue
		}
		seen[ext]++
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(data), "\n")
		if len(lines) > 500 {
			t.Errorf("%s has %d lines: 500 are the limit of a file", f.Name(), len(lines))
		}
		for i, line := range lines {
			if m := re.FindString(line); m != "" {
				t.Errorf("%s:%d: %q", f.Name(), i+1, m)
			}
		}
	}
	for ext := range forbidden {
		if seen[ext] == 0 {
			t.Errorf("no file of the page ends in %s", ext)
		}
	}
}
