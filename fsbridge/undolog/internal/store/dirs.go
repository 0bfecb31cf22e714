package store

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// Dirs are descriptors of the directories below an undo directory, which a log keeps
// open: of the open steps, the closed ones, the undone ones, and of what is to be deleted.
type Dirs struct {
	Root                    int // the undo directory's; not closed
	Wal, Steps, Redo, Trash int

	volumes *format.Volumes
}

// OpenDirs opens them below the undo directory root and makes those that are missing.
// Close them, also after an error.
func OpenDirs(root int, v *format.Volumes) (*Dirs, error) {
	d := &Dirs{root, -1, -1, -1, -1, v}
	for name, fd := range d.byName() {
		var err error
		if *fd, err = hostfs.OpenSubdir(root, name, true); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d *Dirs) byName() map[string]*int {
	return map[string]*int{"wal": &d.Wal, "steps": &d.Steps, "redo": &d.Redo, "trash": &d.Trash}
}

// OpenStep opens the step directory name below parent, which is one of these or has
// that name in the undo directory.
func (d *Dirs) OpenStep(parent, name string) (*StepDir, error) {
	if fd, ok := d.byName()[parent]; ok {
		return d.open(*fd, name)
	}
	fd, err := hostfs.OpenDirPathAt(d.Root, parent)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	return d.open(fd, name)
}

func (d *Dirs) open(fd int, name string) (*StepDir, error) {
	s, err := openStepDir(fd, name)
	if err != nil {
		return nil, err
	}
	return s.With(d.volumes), nil
}

// Named returns the descriptor of "wal", "steps", "redo" or "trash".
func (d *Dirs) Named(name string) int { return *d.byName()[name] }

// Close closes the descriptors. Nil has none.
func (d *Dirs) Close() {
	if d == nil {
		return
	}
	for _, fd := range d.byName() {
		if *fd >= 0 {
			_ = hostfs.Close(*fd)
			*fd = -1
		}
	}
}
