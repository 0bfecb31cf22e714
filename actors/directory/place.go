package directory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Place is where a folder's log lies or would lie, and why there.
type Place struct {
	Dir string
	Why string
	// Passed are better places, each with what speaks against it.
	Passed []string
}

// candidate is a place that a log may have.
type candidate struct {
	dir  string
	what string
	// same: only if that is on the folder's file system, so that removed files can be kept
	// by a rename.
	same bool
}

// DefaultUndoDir returns where the undo log of a working folder lives when nothing else is
// asked for; see [DefaultPlace].
func DefaultUndoDir(workdir string) (string, error) {
	p, err := DefaultPlace(workdir)
	return p.Dir, err
}

// DefaultPlace finds the place of a folder's log: where there is one, or else the first of
// these that this user has to himself and can write to, and that is not in the folder:
// the user's state directory ($XDG_STATE_HOME/sandbox/undo) if it is on the folder's file
// system, a hidden sibling of the folder, a directory of this user above it or in
// /var/tmp or /tmp; then without regard to the file system the state directory and the others. Nothing is created.
func DefaultPlace(workdir string) (Place, error) {
	path, err := resolve(workdir)
	if err != nil {
		return Place{}, err
	}
	all := candidates(path)
	for _, c := range all {
		if hypervisor.IsLog(c.dir) && private(c.dir) == nil {
			return Place{Dir: c.dir, Why: "it is there"}, nil
		}
	}
	var p Place
	for _, c := range all {
		switch against := unfit(c, path); {
		case against == nil:
			p.Dir, p.Why = c.dir, c.what
			return p, nil
		case !errors.Is(against, errElsewhere):
			p.Passed = append(p.Passed, c.dir+": "+against.Error())
		}
	}
	return p, fmt.Errorf("%w: there is no place for the undo log of %s (%s); name one with --undo-dir", api.ErrDirectory, path, strings.Join(p.Passed, "; "))
}

// candidates are the places for the log of the folder path, the best first.
func candidates(path string) []candidate {
	var same, any []candidate
	add := func(dir, what string) {
		same = append(same, candidate{dir, what + ", on the folder's file system", true})
		any = append(any, candidate{dir, what + ", on another file system than the folder", false})
	}
	if state, err := StateDir(); err == nil {
		add(filepath.Join(state, "undo", keyed(path)), "in the state directory")
	}
	if parent := filepath.Dir(path); parent != path {
		add(filepath.Join(parent, sibling(path)), "beside the folder")
		for dir := parent; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
			if ours(dir) {
				same = append(same, candidate{filepath.Join(dir, aboveName, keyed(path)), "in a directory of this user above the folder", true})
			}
		}
	}
	for _, tmp := range []string{"/var/tmp", "/tmp"} {
		add(filepath.Join(tmp, tmpName(), keyed(path)), "in a directory of this user in "+tmp+", which some systems clear of what is old")
	}
	return append(same, any...)
}

// LogsIn returns the directory that holds logs, and nothing else, in which the log dir is;
// empty if it is in no such one.
func LogsIn(dir string) string {
	all := filepath.Dir(dir)
	switch base := filepath.Base(all); {
	case base == "undo" && filepath.Base(filepath.Dir(all)) == "sandbox", base == aboveName, base == tmpName():
		return all
	}
	return ""
}

// aboveName is the directory of logs in a directory of the user's.
const aboveName = hypervisor.LogSuffix

// tmpName is this user's directory of logs where everybody may have one.
func tmpName() string { return fmt.Sprintf("sandbox-undo-%d", os.Getuid()) }

// sibling is the name of a log beside its folder.
func sibling(path string) string {
	const before, after = ".", hypervisor.LogSuffix
	if name := before + filepath.Base(path) + after; len(name) <= nameMax {
		return name
	}
	return before + keyedIn(path, nameMax-len(before)-len(after)) + after
}

var errElsewhere = errors.New("it is on another file system")

// unfit says what speaks against a place; nil: nothing.
func unfit(c candidate, path string) error {
	base := existing(c.dir)
	if err := private(c.dir); err != nil {
		return err
	}
	switch {
	case lexical.Within(c.dir, path):
		return errors.New("it is inside the folder")
	case lexical.Within(path, c.dir):
		return errors.New("the folder is inside it")
	case c.same && !sameFileSystem(base, path):
		return errElsewhere
	case base == c.dir:
		return nil
	}
	return canMake(base)
}

// private says why a log's directory, or the directory of logs that it is in, is not this
// user's alone, as far as they exist.
func private(dir string) error {
	if all := LogsIn(dir); all != "" {
		if err := undolog.CheckDir(all); err != nil {
			return err
		}
	}
	return undolog.CheckDir(dir)
}

// nameMax is the longest name of a file, in bytes.
const nameMax = 255

// shortened cuts a name to so many bytes, between characters.
func shortened(name string, size int) string {
	if len(name) <= size {
		return name
	}
	for size > 0 && !utf8.RuneStart(name[size]) {
		size--
	}
	return name[:size]
}
