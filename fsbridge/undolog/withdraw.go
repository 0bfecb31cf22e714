package undolog

import (
	"errors"
	"os"
	"path/filepath"
)

// firstMissing is the topmost directory that is to be made for path; empty if there is none.
func firstMissing(path string) (missing string) {
	abs, err := filepath.Abs(path)
	for ; err == nil; abs = filepath.Dir(abs) {
		if _, lerr := os.Lstat(abs); !errors.Is(lerr, os.ErrNotExist) {
			return missing
		}
		missing = abs
	}
	return ""
}

// unmake removes the directory and those above it if [Open] has made them, and calls end, which closes the log. Somebody else may have made and
// filled it at the same time: only what this process has locked, and what has no step in it, is removed with what is in it.
func (l *Log) unmake(end func() error) error {
	dir, err := filepath.Abs(l.o.Dir)
	if err != nil || l.made == "" {
		return end()
	}
	at := dir
	if l.lock >= 0 && withoutSteps(dir) && os.RemoveAll(dir) == nil {
		at = filepath.Dir(dir)
	}
	left := l.unmakeEmpty(at)
	err = end()
	if left != nil { // some file systems of Windows keep a directory as long as it is open
		left = l.unmakeEmpty(dir)
	}
	if left != nil {
		l.log.Debug("not removed again", "path", dir, "err", left) // something else is in it
	}
	return err
}

// unmakeEmpty removes an empty directory and those above it that [Open] has made.
func (l *Log) unmakeEmpty(dir string) (err error) {
	for ; err == nil && len(dir) >= len(l.made); dir = filepath.Dir(dir) {
		err = os.Remove(dir)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// withoutSteps tells whether the log in dir has no step, neither closed nor undone nor open.
func withoutSteps(dir string) bool {
	for _, name := range []string{"steps", "redo", "wal"} {
		list, err := os.ReadDir(filepath.Join(dir, name))
		if len(list) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	return true
}

// Withdraw is Close of a log that was opened for nothing: if [Open] has made its directory, and no
// step is in it, all of that is removed again.
func (l *Log) Withdraw() error {
	if !l.closed.Load() && len(l.stepEntries())+len(l.redoEntries()) == 0 && !l.unrecovered() && l.cur.Load() == nil {
		return l.unmake(l.Close)
	}
	return l.Close()
}
