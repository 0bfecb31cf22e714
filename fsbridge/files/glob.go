package files

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// checkGlob returns an error that says what is wrong with a pattern.
func checkGlob(pattern string) error {
	if err := texts.Check(pattern); err != nil {
		return fmt.Errorf("%w: %w", ErrPattern, err)
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
	base, rest = texts.Split(rest)
	if rest == "" || rest == "." || rest == ".." {
		base, rest = path.Join(base, rest), "**"
		dirs = false
	}
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return "", "", false, fmt.Errorf("%w: %q: there is a .. behind a wildcard", ErrPattern, pattern)
	}
	return base, rest, dirs, nil
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
	others  bool // what does not match is chosen
}

func newFilter(pattern string) (f filter, err error) {
	if pattern == "" {
		return f, nil
	}
	f.pattern, f.others = strings.CutPrefix(pattern, "!")
	return f, checkGlob(f.pattern)
}

// takes tells whether a path, relative to where the search began, is chosen.
func (f *filter) takes(rel string) bool {
	return f.pattern == "" || texts.MatchPath(f.pattern, rel) != f.others
}
