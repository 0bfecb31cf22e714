package files

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

var (
	// ErrOutside is wrapped by errors about paths that lead out of the folder.
	ErrOutside = errors.New("path is outside the working folder")
	// ErrPath is wrapped by errors about what cannot be a path at all: it holds
	// a NUL byte, or a name that is too long.
	ErrPath = errors.New("not a path")
)

// Clean returns the path relative to root of what a frontend asked for: a path
// relative to root, or an absolute one that lies in root. The result is "." for
// root itself, else one or more names between single slashes, none of them "."
// or "..". Only the text counts, nothing is looked up: "a/../b" is "b", whatever
// a is. Names need not be UTF-8. root is absolute and clean.
//
// It says nothing about symlinks: whoever opens the result must not let one lead
// out of root.
func Clean(p, root string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", fmt.Errorf("%w: %q holds a NUL byte", ErrPath, p)
	}
	rel := path.Clean(p)
	if path.IsAbs(rel) {
		switch below, ok := strings.CutPrefix(rel, strings.TrimSuffix(root, "/")+"/"); {
		case rel == root || ok && below == "":
			rel = "."
		case ok:
			rel = below
		default:
			return "", fmt.Errorf("%w: %q is not in %q", ErrOutside, p, root)
		}
	}
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("%w: %q", ErrOutside, p)
	}
	if _, err := hostfs.SplitPath(rel); err != nil {
		return "", fmt.Errorf("%w: a name in it is longer than %d bytes", ErrPath, hostfs.NameMax)
	}
	return rel, nil
}

// join adds a name to a path, of which "." is the folder itself.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
