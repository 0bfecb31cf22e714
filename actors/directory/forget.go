package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// Forget removes all that is kept for the working folder workdir, which nobody is to use again: its log in undoDir with the notes about that, its persistent machine, and what frontends keep. The folder itself stays: it has to be there,
// because it says which notes are its own. It fails with an [undolog.LockedError] while a session has the log open. What is not there is forgotten already.
func Forget(ctx context.Context, workdir, undoDir string) error {
	key := undolog.FolderKey(workdir)
	if err := forgetLog(ctx, undoDir); err != nil {
		return err
	}
	forgetNotes(key, undoDir)
	var all error
	for _, kind := range []string{machines, frontends} {
		dir, err := stateOf(kind, workdir)
		if err == nil {
			err = removeTree(ctx, dir)
		}
		all = errors.Join(all, err)
	}
	return all
}

// forgetLog throws a log away, and the directory that it is in if there is nothing else.
func forgetLog(ctx context.Context, dir string) error {
	if err := undolog.Discard(ctx, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range []string{filepath.Join(dir, "lock"), dir} { // nobody else opens the log of a folder that is to go
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, posix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}

// forgetNotes removes the notes which say that the log of the folder with that key is in dir.
func forgetNotes(key, dir string) {
	state, err := StateDir()
	if err != nil {
		return
	}
	notes := []string{filepath.Join(state, hypervisor.LogNotes, keyed(dir))}
	if key != "" {
		notes = append(notes, filepath.Join(state, folderNotes, key))
	}
	for _, note := range notes {
		if b, _, err := hostfs.ReadRegular(note, maxNote, false); err == nil && string(b) == dir {
			_ = os.Remove(note) // a note is a hint
		}
	}
}

// removeTree removes a directory with all that is in it.
func removeTree(ctx context.Context, path string) error {
	parent, err := hostfs.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return hostfs.RemoveAll(ctx, parent.FD(), filepath.Base(path), nil)
}
