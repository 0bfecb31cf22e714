package directory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// LogIn returns where the log of a working folder is in dir, which holds one for each
// folder. An older version made a log right in such a directory: that stays where it is,
// and the log itself says whose it is. dir is refused where others can write to it.
func LogIn(dir, workdir string) (string, error) {
	path, err := resolve(workdir)
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%w: undo directory: %w", api.ErrDirectory, err)
	}
	if err := undolog.CheckDir(abs); err != nil {
		return "", fmt.Errorf("%w: %w", api.ErrDirectory, err)
	}
	if abs, err = resolveMissing(abs); err != nil {
		return "", fmt.Errorf("%w: undo directory: %w", api.ErrDirectory, err)
	}
	if hypervisor.IsLog(abs) {
		return abs, nil
	}
	return filepath.Join(abs, keyed(path)), nil
}

// Kinds of what is kept for a folder in the state directory, beside its log.
const (
	machines  = "machines"
	frontends = "frontends"
)

// MachineDir returns where the persistent machine of a session is kept whose
// first working folder is workdir. Nothing is created.
func MachineDir(workdir string) (string, error) { return stateOf(machines, workdir) }

// FrontendDir returns where a frontend keeps what belongs to the working folder workdir, and nobody
// inside may read. Nothing is created.
func FrontendDir(workdir string) (string, error) { return stateOf(frontends, workdir) }

// stateOf is a directory of ours for a folder, of a kind.
func stateOf(kind, workdir string) (string, error) {
	path, err := resolve(workdir)
	if err != nil {
		return "", err
	}
	state, err := StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, kind, keyed(path)), nil
}

// keyed is a name for what belongs to a folder, which people recognise.
func keyed(path string) string { return keyedIn(path, nameMax) }

// keyedIn is keyed in at most so many bytes.
func keyedIn(path string, size int) string {
	sum := sha256.Sum256([]byte(path))
	end := "-" + hex.EncodeToString(sum[:8])
	return shortened(filepath.Base(path), size-len(end)) + end
}

// StateDir is where this program keeps what outlives it.
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sandbox"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("no home directory")
	}
	return filepath.Join(home, ".local", "state", "sandbox"), nil
}

// existing returns the nearest ancestor of path (or path) that exists.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// Overlap reports whether one folder is or lies in the other, also by another
// mount of the same directory.
func Overlap(a, b string) bool { return inside(a, b) || inside(b, a) }

// inside reports whether path is dir or lies in it, whatever it is called:
// unlike [lexical.Within] it asks the file system.
func inside(path, dir string) bool {
	want, err := os.Stat(dir)
	for p := path; err == nil; p = filepath.Dir(p) {
		if have, err := os.Stat(p); err == nil && os.SameFile(have, want) {
			return true
		}
		if filepath.Dir(p) == p {
			break
		}
	}
	return lexical.Within(path, dir)
}

func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s does not exist; create it or choose another", api.ErrDirectory, path)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", api.ErrDirectory, path, err)
	}
	return abs, nil
}

// resolveMissing resolves the symlinks of the part of path that exists.
func resolveMissing(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	base := existing(abs)
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		return "", err
	}
	return filepath.Join(real, strings.TrimPrefix(abs, base)), nil
}

// Validate checks one working folder and completes it: the result has
// an absolute path without symlinks and an undo directory, of which no part but the last may be one. running are the
// sessions that run. Errors wrap
// [api.ErrDirectory] and say what to do. A folder that another session has open
// itself is no error here: opening its log says who has it.
func Validate(d api.Directory, running []api.SessionInfo) (api.Directory, error) {
	path, err := resolve(d.Path)
	if err != nil {
		return d, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrDirectory, err)
	}
	switch {
	case !st.IsDir():
		return d, fmt.Errorf("%w: %s is not a directory; name the folder that holds it", api.ErrDirectory, path)
	case filepath.Dir(path) == path:
		return d, fmt.Errorf("%w: %s is the root of the file system; choose a folder below it", api.ErrDirectory, path)
	}
	if logs := amongLogs(path); logs != "" {
		return d, fmt.Errorf("%w: %s is in %s, where this program keeps undo logs; choose another folder", api.ErrDirectory, path, logs)
	}
	d.Path = path
	if d.UndoDir == "" {
		if d.UndoDir, err = DefaultUndoDir(path); err != nil {
			return d, err
		}
	}
	all, err := resolveMissing(filepath.Dir(d.UndoDir))
	if err != nil {
		return d, fmt.Errorf("%w: undo directory: %w", api.ErrDirectory, err)
	}
	d.UndoDir = filepath.Join(all, filepath.Base(d.UndoDir)) // a log that is a symlink is refused by whoever opens it, and not followed here
	if lexical.Within(d.UndoDir, path) {
		return d, fmt.Errorf("%w: the undo directory %s is inside %s, where commands could change it; choose another with --undo-dir", api.ErrDirectory, d.UndoDir, path)
	}
	if undo := enclosingUndoDir(path); undo != "" || lexical.Within(path, d.UndoDir) {
		return d, fmt.Errorf("%w: %s is inside the undo directory %s; choose another folder", api.ErrDirectory, path, firstOf(undo, d.UndoDir))
	}
	return d, clashes(path, running)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// enclosingUndoDir returns the undo directory that path is or lies in.
func enclosingUndoDir(path string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if hypervisor.IsLog(dir) {
			return dir
		}
		if filepath.Dir(dir) == dir {
			return ""
		}
	}
}

// amongLogs returns the directory that path is or lies in, and in which this program keeps logs: the state directory, or one that by its name and by what is in it
// is a directory of logs, of whatever user. What holds one further below hides it, and this cannot.
func amongLogs(path string) string {
	if state, err := StateDir(); err == nil {
		if state, err = resolveMissing(state); err == nil && lexical.Within(path, state) {
			return state
		}
	}
	for dir := path; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "sandbox" && holdsLogs(filepath.Join(dir, "undo")) || holdsLogs(dir) {
			return dir
		}
	}
	return ""
}

// holdsLogs reports whether a directory is one of logs.
func holdsLogs(dir string) bool {
	if LogsIn(filepath.Join(dir, "x")) == "" {
		return false
	}
	const looked = 64
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(looked)
	return slices.ContainsFunc(names, func(name string) bool { return hypervisor.IsLog(filepath.Join(dir, name)) })
}

// clashes reports a running session whose folder encloses path or lies in it.
func clashes(path string, running []api.SessionInfo) error {
	for _, r := range running {
		for _, other := range r.Directories {
			switch {
			case other == path:
			case inside(path, other):
				return fmt.Errorf("%w: %s is inside %s, which session %s (process %d) has open; end that session or work in %s", api.ErrDirectory, path, other, r.Session, r.PID, other)
			case inside(other, path):
				return fmt.Errorf("%w: %s contains %s, which session %s (process %d) has open; end that session first", api.ErrDirectory, path, other, r.Session, r.PID)
			}
		}
	}
	return nil
}
