package texts

import (
	"strings"
	"testing"
)

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.o", "a/b.o", true},
		{"a/*.o", "a/b.o", true},
		{"a/*.o", "b.o", false},
		{"/*.o", "a/b.o", false},
		{"**/b", "b", true},
		{"a/**", "a/b/c", true},
		{"*.{o,a}", "x/y.a", true},
		{"{a,b/**}/c", "b/x/c", true},
		{"a[!x]c", "a/c", false},
		{"a[^x]c", "abc", true},
		{`a\*`, "a*", true},
		{`a\*`, "ab", false},
		{"**", "a/b", true},
	} {
		if got := MatchPath(c.pattern, c.path); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.path, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, bad := range []string{"", "[a", "{a", `a\`, "a\x00", strings.Repeat("{a,b}", 20), strings.Repeat("a", maxBytes+1)} {
		if Check(bad) == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
	for _, good := range []string{"**/*.{go,c}", "[!a-z]?", `\{`} {
		if err := Check(good); err != nil {
			t.Error(err)
		}
	}
}
