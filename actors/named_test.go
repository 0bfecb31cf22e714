package actors

import (
	"slices"
	"testing"
)

// TestNamedPaths: the paths that a command line may name, as words, within a script, an option or a list.
func TestNamedPaths(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want []string
	}{
		{[]string{"cat", "/a/b", "../x"}, []string{"/w/cat", "/a/b", "/x"}},
		{[]string{"-c", "cat ~/k|wc >'$HOME/o u'; $HOME/p"}, []string{"/w/cat ~/k|wc >'$HOME/o u'; $HOME/p", "/w/cat", "/h/k", "/w/wc", "/h/o", "/w/u", "/h/p"}},
		{[]string{"--key=~/k", "-d", "@/data", "-v/a:${HOME}/b:ro"}, []string{"/h/k", "/data", "/h/b", "/w/ro"}},
		{[]string{"~", "~x/y"}, []string{"/h", "/w/~x/y"}},
		{[]string{string(make([]byte, longestCommand+1)), "/a"}, nil},
	} {
		if got := namedPaths(c.argv, "/w", "/h"); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
	many := make([]string, 2*mostNamed)
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	if got := namedPaths(many, "/w", "/h"); len(got) > mostNamed {
		t.Errorf("%d paths", len(got))
	}
}
