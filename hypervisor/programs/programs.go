package programs

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/codeagent/sandbox/messages/lexical"
)

// Find looks for a program in the directories of path, which is written as PATH is, or, if name has a slash, takes it as a path. It leaves out relative directories and what lies in
// a directory of writable, or leads there. The error wraps [exec.ErrNotFound]. Of a path it says what the file system says, and it says where one lies that was left out.
func Find(name, path string, writable []string) (string, error) {
	var candidates []string
	if strings.ContainsRune(name, filepath.Separator) {
		abs, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		candidates = []string{abs}
	} else {
		for _, dir := range filepath.SplitList(path) {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	leftOut := ""
	var why error
	for _, c := range candidates {
		if !filepath.IsAbs(c) {
			continue
		}
		if _, err := exec.LookPath(c); err != nil {
			why = err
			continue
		}
		if !reached(c, writable) {
			return c, nil
		}
		leftOut = c
	}
	if leftOut != "" {
		return "", fmt.Errorf("%s lies where programs inside can write, and is not started outside: %w elsewhere", leftOut, exec.ErrNotFound)
	}
	if why != nil && strings.ContainsRune(name, filepath.Separator) {
		return "", missing{why}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// missing is the error for a path at which there is no program: it says why, and not that none was found in PATH.
type missing struct{ error }

func (m missing) Unwrap() error      { return m.error }
func (missing) Is(target error) bool { return target == exec.ErrNotFound }

// reached tells whether a path lies in one of some directories, or leads there.
func reached(path string, dirs []string) bool {
	for _, p := range []string{path, resolved(path), filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))} {
		for _, d := range dirs {
			if lexical.Within(p, d) || lexical.Within(p, resolved(d)) {
				return true
			}
		}
	}
	return false
}

func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return filepath.Clean(path)
}
