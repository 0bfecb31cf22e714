package frontend

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Folder is a working folder: its path on the host, absolute and without links,
// and its label, which may be empty.
type Folder struct{ Path, Label string }

// Folders are those of a session, by index.
type Folders []Folder

// FoldersOf lists the folders of a session's status.
func FoldersOf(st api.Status) Folders {
	f := make(Folders, len(st.Directories))
	for i, d := range st.Directories {
		f[i] = Folder{d.Path, d.Label}
	}
	return f
}

// Find returns the index of the folder that a client means: the first for an
// empty name, else the folder of that index, of that label, or at that path,
// which may lead there by links. The error is [messages.ErrNoDirectory].
func (f Folders) Find(name string) (int, error) {
	if name == "" && len(f) > 0 {
		return 0, nil
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(f) {
		return i, nil
	}
	for i, d := range f {
		if name != "" && d.Label == name {
			return i, nil
		}
	}
	if path, err := filepath.Abs(name); err == nil && name != "" {
		path = resolved(path)
		for i, d := range f {
			if d.Path == path {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %s", messages.ErrNoDirectory, Short([]byte(name)))
}

// Path is the path of the folder that Find finds.
func (f Folders) Path(name string) (string, error) {
	i, err := f.Find(name)
	if err != nil {
		return "", err
	}
	return f[i].Path, nil
}

// Dir is where a command runs whose client named a folder and a directory: cwd
// is relative to the folder, or absolute, and lies in the folder or, if none was
// named, in any. Else the error is [api.ErrOutside]. Nothing is protected by
// that, since a command can leave its directory: it is said where it is meant.
func (f Folders) Dir(name, cwd string) (string, error) {
	i, err := f.Find(name)
	if err != nil {
		return "", err
	}
	dir, in := filepath.Join(f[i].Path, cwd), f[i:i+1]
	if filepath.IsAbs(cwd) {
		dir = filepath.Clean(cwd)
		if name == "" {
			in = f
		}
	}
	for _, path := range []string{dir, resolved(dir)} {
		for _, d := range in {
			if lexical.Within(path, d.Path) {
				return path, nil
			}
		}
		if !filepath.IsAbs(cwd) {
			break // links in the folder are the command's business
		}
	}
	return "", fmt.Errorf("%w: cwd %s; use cd in the command to leave the folder", api.ErrOutside, Short([]byte(cwd)))
}

// resolved is the path without links, as far as there is something at it.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}
