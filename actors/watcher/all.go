package watcher

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// WatchAll watches every directory of the folder, and from now on those that are made: nobody
// inside need have looked into one for an edit in it to be told. It leaves out these directories,
// relative to the folder, and what is on another file system. most bounds how many are watched that
// nobody has looked into; 0: nothing does. It returns when it has been everywhere.
func (w *Watcher) WatchAll(leaveOut []string, most int) {
	w.mu.Lock()
	already := w.all
	if !already {
		w.all, w.leaveOut, w.most = true, slices.Clone(leaveOut), most
	}
	w.mu.Unlock()
	if !already {
		w.watchBelow(".")
	}
}

// errClosed ends a walk.
var errClosed = errors.New("watcher: closed")

// watchBelow watches a directory and all below it. What is made in one after it is
// watched is an event.
func (w *Watcher) watchBelow(dir string) {
	root, err := identify(w.o.Root)
	if err != nil {
		return
	}
	failed := 0
	_ = filepath.WalkDir(filepath.Join(w.o.Root, filepath.FromSlash(dir)), func(at string, e fs.DirEntry, err error) error {
		select {
		case <-w.stop:
			return errClosed
		default:
		}
		if err != nil || !e.IsDir() {
			return nil // gone again, or not for us
		}
		rel, err := filepath.Rel(w.o.Root, at)
		if err != nil {
			return err
		}
		id, err := identify(at)
		if err != nil {
			return nil
		}
		if id.Dev != root.Dev || slices.Contains(w.leaveOut, filepath.ToSlash(rel)) {
			return fs.SkipDir
		}
		if w.full() || !w.Watch(rel, id) {
			failed++
		}
		return nil
	})
	select {
	case <-w.stop:
		return
	default:
	}
	if failed > 0 && w.o.Overflow != nil {
		w.o.Overflow("some directories in " + w.o.Root + " cannot be watched: edits from outside there are not announced; undo checks for them")
	}
}

// full tells whether no more directories are to be watched than are.
func (w *Watcher) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most > 0 && w.watches >= w.most
}

// identify returns the number of the file at a path.
func identify(at string) (hostfs.ID, error) {
	fi, err := os.Lstat(at)
	if err != nil {
		return hostfs.ID{}, err
	}
	return idOf(fi), nil
}

// watchMade watches the directories that were made, of a batch, or all anew where it is
// not known which.
func (w *Watcher) watchMade(b batch) {
	if b.lost || b.dropped {
		w.watchBelow(".")
		return
	}
	for _, e := range b.made {
		if dir, ok := e.Dir.Path(); ok {
			w.watchBelow(path.Join(dir, e.Name))
		}
	}
}
