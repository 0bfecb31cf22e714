package files

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxAlternatives bounds what the {alternatives} of a pattern multiply to: each
// may have to be tried.
const maxAlternatives = 1000

// checkGlob returns an error that says what is wrong with a pattern.
func checkGlob(pattern string) error {
	bad := func(what string) error { return fmt.Errorf("%w: %q: %s", ErrPattern, pattern, what) }
	switch {
	case pattern == "":
		return bad("it is empty")
	case len(pattern) > maxPattern:
		return fmt.Errorf("%w: it has more than %d bytes", ErrPattern, maxPattern)
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

// splitGlob splits a pattern into where to begin and the pattern of what is
// there. Directories are found if dirs is set.
func splitGlob(pattern string) (base, rest string, dirs bool, err error) {
	if err := checkGlob(pattern); err != nil {
		return "", "", false, err
	}
	if rest, dirs = strings.CutSuffix(pattern, "/"); rest == "" {
		return "", "", false, fmt.Errorf("%w: %q is the root of the file system", ErrOutside, pattern)
	}
	base, rest = doublestar.SplitPattern(rest)
	if rest == "" || rest == "." || rest == ".." {
		base, rest = path.Join(base, rest), "**"
		dirs = false
	}
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return "", "", false, fmt.Errorf("%w: %q: there is a .. behind a wildcard", ErrPattern, pattern)
	}
	return base, rest, dirs, nil
}

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

// depthOf returns how far below its base a pattern reaches, 0 for no limit.
func depthOf(rest string) int {
	if strings.Contains(rest, "**") {
		return 0
	}
	return strings.Count(rest, "/") + 1
}

// filter chooses paths by GrepRequest.Glob.
type filter struct {
	pattern string
	names   bool // names are matched, not paths
	others  bool // what does not match is chosen
}

func newFilter(glob string) (f filter, err error) {
	if glob == "" {
		return f, nil
	}
	f.pattern, f.others = strings.CutPrefix(glob, "!")
	if err := checkGlob(f.pattern); err != nil {
		return f, err
	}
	f.pattern = strings.TrimPrefix(f.pattern, "/")
	f.names = !strings.Contains(glob, "/")
	f.pattern = noSlash(f.pattern)
	return f, nil
}

// takes tells whether a path, relative to where the search began, is chosen.
func (f *filter) takes(rel string) bool {
	if f.pattern == "" {
		return true
	}
	if f.names {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	return doublestar.MatchUnvalidated(f.pattern, rel) != f.others
}
