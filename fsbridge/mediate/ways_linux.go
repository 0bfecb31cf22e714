package mediate

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// mostWays is how many may be between [wayList.Enter] and [wayList.Leave] at once.
const mostWays = 256

// wayList is what lies behind gates. The zero value is empty. Its methods are safe for concurrent use once Take has returned.
type wayList struct {
	ways []way
	away atomic.Int32
}

type way struct {
	path string
	dir  int
	is   rawInfo
}

// Take makes it of directories, O_PATH, which stay open as long as it is used. Their names are their paths inside.
func (l *wayList) Take(dirs []*os.File) error {
	for _, dir := range dirs {
		w := way{path: dir.Name(), dir: int(dir.Fd())}
		if errno := rawLook(w.dir, rawEmpty, &w.is); errno != 0 {
			return fmt.Errorf("the way to %s: %w", w.path, errno)
		}
		l.ways = append(l.ways, w)
	}
	return nil
}

// None reports whether the list is empty.
func (l *wayList) None() bool { return len(l.ways) == 0 }

// Of returns the innermost directory that an absolute path begins with, and what of the path follows: nothing, or a path that is
// relative to it. dir is -1 if there is none.
func (l *wayList) Of(path []byte) (dir int, rest []byte) {
	dir, best := -1, 0
	for i := range l.ways {
		w := &l.ways[i]
		n := len(w.path)
		if n > best && len(path) >= n && string(path[:n]) == w.path && (len(path) == n || path[n] == '/') {
			dir, best, rest = w.dir, n, bytes.TrimLeft(path[n:], "/")
		}
	}
	return dir, rest
}

// At returns the path of the directory that was found to be is; ok is false if it is none of the list.
func (l *wayList) At(is *rawInfo) (path string, ok bool) {
	for i := range l.ways {
		if w := &l.ways[i]; w.is.ID == is.ID && w.is.Mount == is.Mount {
			return w.path, true
		}
	}
	return "", false
}

// Leads reports whether a path, clean and absolute, leads to one of the directories: dir is that directory if it is the path
// itself, else -1.
func (l *wayList) Leads(path string) (dir int, leads bool) {
	for i := range l.ways {
		w := &l.ways[i]
		switch rest, below := strings.CutPrefix(w.path, path); {
		case !below:
		case rest == "":
			return w.dir, true
		case rest[0] == '/':
			leads = true
		}
	}
	return -1, leads
}

// Enter reports whether one more may walk where it could wait for a person's decision. Leave must follow if so.
func (l *wayList) Enter() bool {
	if l.None() {
		return true
	}
	if l.away.Add(1) > mostWays {
		l.away.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter has begun.
func (l *wayList) Leave() {
	if !l.None() {
		l.away.Add(-1)
	}
}
