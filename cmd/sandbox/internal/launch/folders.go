package launch

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Folders says which working folders are meant: those that --working-dir names,
// or the configured ones, or the current directory. For commands that look at
// one folder's history (search) it is of the configured ones the one we are in,
// and instead of the current directory the nearest above it that has a history.
func (l *Launcher) Folders(search bool) ([]config.Directory, error) {
	given := l.Dirs
	if len(given) > 0 {
		var dirs []config.Directory
		for _, g := range given {
			d, err := l.parseFolder(g)
			if err != nil {
				return nil, console.Usage(err)
			}
			dirs = append(dirs, d)
		}
		return dirs, nil
	}
	configured := l.Conf.Directory
	switch {
	case len(configured) > 0 && !search:
		return configured, nil
	case len(configured) > 0:
		if d, ok := currentOf(configured); ok {
			return []config.Directory{d}, nil
		}
		if dir := l.nearestWithHistory(); dir != "" {
			return []config.Directory{{Path: dir}}, nil
		}
		return configured[:1], nil
	case search:
		if dir := l.nearestWithHistory(); dir != "" {
			return []config.Directory{{Path: dir}}, nil
		}
	}
	return []config.Directory{{Path: "."}}, nil
}

// currentOf returns the folder that the current directory lies in.
func currentOf(dirs []config.Directory) (config.Directory, bool) {
	wd, err := os.Getwd()
	if err != nil {
		return config.Directory{}, false
	}
	if wd, err = filepath.EvalSymlinks(wd); err != nil {
		return config.Directory{}, false
	}
	for _, d := range dirs {
		if lexical.Within(wd, d.Path) {
			return d, true
		}
	}
	return config.Directory{}, false
}

// parseFolder reads [LABEL=]PATH[:ro|:rw], or a label alone. A path is never
// taken for a label if it is there, and ./a=b is a path in any case.
func (l *Launcher) parseFolder(s string) (config.Directory, error) {
	path, readOnly := strings.CutSuffix(s, ":ro")
	if !readOnly {
		path = strings.TrimSuffix(path, ":rw")
	}
	d := config.Directory{Path: path, ReadOnly: readOnly}
	if label, rest, ok := strings.Cut(path, "="); ok && label != "" && config.CheckLabel(label) == nil {
		d.Label, d.Path = label, rest
	} else if known, ok, err := l.labelled(path); err != nil {
		return d, err
	} else if ok {
		known.ReadOnly = known.ReadOnly || readOnly
		return known, nil
	}
	if d.Path == "" {
		return d, fmt.Errorf("--working-dir %q names no folder", s)
	}
	return d, nil
}

// labelled finds a folder by the label it has in the configuration or in a
// running session.
func (l *Launcher) labelled(name string) (config.Directory, bool, error) {
	if name == "" || config.CheckLabel(name) != nil {
		return config.Directory{}, false, nil
	}
	if _, err := os.Lstat(name); err == nil {
		return config.Directory{}, false, nil
	}
	i := slices.IndexFunc(l.Conf.Directory, func(d config.Directory) bool { return d.Label == name })
	if i >= 0 {
		return l.Conf.Directory[i], true, nil
	}
	running, err := l.Sessions()
	if err != nil {
		return config.Directory{}, false, nil // nothing runs where there is no place for it
	}
	var found []string
	for _, s := range running {
		for i, label := range s.Labels {
			if label == name && !slices.Contains(found, s.Directories[i]) {
				found = append(found, s.Directories[i])
			}
		}
	}
	switch len(found) {
	case 0:
		return config.Directory{}, false, nil
	case 1:
		return config.Directory{Path: found[0], Label: name}, true, nil
	}
	return config.Directory{}, false, fmt.Errorf("the label %q is that of several folders: %s; name one by its path", name, strings.Join(found, ", "))
}

// Directories checks the working folders and completes them.
func (l *Launcher) Directories(search bool) ([]api.Directory, error) {
	given, err := l.Folders(search)
	if err != nil {
		return nil, err
	}
	return l.Validate(given)
}

// Named returns whether a session with these folders is meant: it has one of those that were named,
// or none was.
func (l *Launcher) Named() (func(folders []string) bool, error) {
	if len(l.Dirs) == 0 {
		return func([]string) bool { return true }, nil
	}
	dirs, err := l.Directories(true)
	if err != nil {
		return nil, err
	}
	return func(folders []string) bool {
		return slices.ContainsFunc(folders, func(f string) bool {
			return slices.ContainsFunc(dirs, func(d api.Directory) bool { return SameFolder(d.Path, f) })
		})
	}, nil
}

// Validate checks folders and completes them: where their logs are, what they are
// called.
func (l *Launcher) Validate(given []config.Directory) ([]api.Directory, error) {
	var dirs []api.Directory
	for _, g := range given {
		undoDir, err := l.undoDir(g)
		if err != nil {
			return nil, err
		}
		d, err := actors.ValidateDirectory(api.Directory{Path: g.Path, Label: g.Label, ReadOnly: g.ReadOnly, UndoDir: undoDir}, "")
		if err != nil {
			return nil, err
		}
		if g.Label != "" && slices.ContainsFunc(dirs, func(o api.Directory) bool { return o.Label == g.Label }) {
			return nil, console.Usagef("two working folders are labelled %q", g.Label)
		}
		dirs = append(dirs, d)
	}
	return dirs, nil
}

// undoDir is where the log of a folder is if somebody or the configuration says; else empty.
func (l *Launcher) undoDir(folder config.Directory) (string, error) {
	logs := cmp.Or(folder.UndoDir, l.Conf.Undo.Dir)
	if logs == "" {
		return "", nil
	}
	return actors.LogIn(logs, folder.Path)
}

// FolderWithHistory is the first working folder: the one that is asked for, or the nearest
// above the current directory that has a history.
func (l *Launcher) FolderWithHistory() (api.Directory, error) {
	dirs, err := l.Directories(true)
	if err != nil {
		return api.Directory{}, err
	}
	return dirs[0], nil
}

// nearestWithHistory walks up from the current directory, as version control
// does; empty if there is none.
func (l *Launcher) nearestWithHistory() string {
	wd, err := os.Getwd()
	if err != nil {
		return ""
	}
	for dir := wd; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		undo, err := l.undoDir(config.Directory{Path: dir})
		if err == nil && undo == "" {
			undo, err = actors.DefaultUndoDir(dir)
		}
		if err != nil || l.Conf.Undo.Dir != "" && SameFolder(undo, l.Conf.Undo.Dir) { // one log for all: it says nothing
			return ""
		}
		if actors.HasHistory(dir, undo) {
			return dir
		}
	}
	return ""
}

// SameFolder reports whether two paths lead to one folder.
func SameFolder(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
