package texts

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxBytes = 16 << 10 // of a pattern
	// maxAlternatives bounds what the {alternatives} of a pattern multiply to: each
	// may have to be tried.
	maxAlternatives = 1000
)

// Check returns an error that says what is wrong with a pattern, or nil.
func Check(pattern string) error {
	bad := func(what string) error { return fmt.Errorf("%q: %s", pattern, what) }
	switch {
	case pattern == "":
		return bad("it is empty")
	case len(pattern) > maxBytes:
		return fmt.Errorf("it has more than %d bytes", maxBytes)
	case strings.IndexByte(pattern, 0) >= 0:
		return bad("it holds a NUL byte")
	case !doublestar.ValidatePattern(pattern):
		return bad("a [class] or {alternatives} in it is not closed, or it ends in a backslash")
	}
	product, open := 1, []int{}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if len(open) > 0 {
				open[len(open)-1]++
			}
		case '}':
			if n := len(open) - 1; n >= 0 {
				product *= open[n]
				open = open[:n]
			}
		}
		if product > maxAlternatives {
			return bad("it has too many alternatives")
		}
	}
	return nil
}

// Match reports whether the whole of name matches.
func Match(pattern, name string) bool {
	return doublestar.MatchUnvalidated(noSlash(pattern), name)
}

// MatchPath reports whether a path relative to a folder matches. A pattern
// without a slash matches the last element, in any directory; a slash at the
// beginning of one stands for the folder itself.
func MatchPath(pattern, path string) bool {
	if !strings.Contains(pattern, "/") {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return Match(strings.TrimPrefix(pattern, "/"), path)
}

// Split splits a pattern into the directory in which to begin and the pattern of
// what is there.
func Split(pattern string) (base, rest string) { return doublestar.SplitPattern(pattern) }

// noSlash adds the slash to a pattern's negated classes: the library lets "[!a]"
// match one, no shell does.
func noSlash(pattern string) string {
	if !strings.Contains(pattern, "[!") && !strings.Contains(pattern, "[^") {
		return pattern
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		b.WriteByte(c)
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if next := pattern[i+1:]; strings.HasPrefix(next, "!") || strings.HasPrefix(next, "^") {
				i++
				b.WriteString(next[:1] + "/")
			}
		}
	}
	return b.String()
}
