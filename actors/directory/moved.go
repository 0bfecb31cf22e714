package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Where a log lies follows from its folder's path. For a folder that was moved, there is a
// note in the state directory for each folder, named by what the folder keeps when it is
// moved: it says where the log is. A note is a hint; the log itself says whose it is.
// Logs outside of the state directory have a note of their own, so that sessions hide them from what runs inside.

const (
	// folderNotes is where the notes for folders are in the state directory.
	folderNotes = "folders"
	// unfinished begins the name that a note has until it is complete.
	unfinished = ".new-"
	// unfinishedTime is longer than anybody takes to complete one.
	unfinishedTime = time.Hour
	// maxNote bounds what is read of a note, in bytes.
	maxNote = 16 << 10
)

// noteLog notes where the log of the folder with that key is, if it has one, and that there is one outside of the state directory, where no guest may read it.
// Where there is no place for notes, nothing is noted.
func noteLog(key, dir string) error {
	state, err := StateDir()
	if err != nil {
		return nil //nolint:nilerr // there is no place
	}
	if key != "" {
		err = note(filepath.Join(state, folderNotes, key), dir)
	}
	if lexical.Within(dir, state) {
		return err
	}
	return errors.Join(err, noteElsewhere(state, dir))
}

// noteElsewhere notes a log outside of the state directory. The first time it does so for those of all notes by folder, too, which are older.
func noteElsewhere(state, dir string) error {
	all := []string{dir}
	notes := filepath.Join(state, hypervisor.LogNotes)
	if _, err := os.Lstat(notes); errors.Is(err, fs.ErrNotExist) {
		old, _ := os.ReadDir(filepath.Join(state, folderNotes))
		for _, e := range old {
			if b, _, err := hostfs.ReadRegular(filepath.Join(state, folderNotes, e.Name()), maxNote, false); err == nil && filepath.IsAbs(string(b)) && !lexical.Within(string(b), state) {
				all = append(all, string(b))
			}
		}
	}
	var err error
	for _, at := range all {
		err = errors.Join(err, note(filepath.Join(notes, keyed(at)), at))
	}
	return err
}

// note makes a note, if it is not there.
func note(path, text string) error {
	if b, _, err := hostfs.ReadRegular(path, maxNote, false); err == nil && string(b) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), unfinished)
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(text)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// sweepNotes removes what a kill has left of notes that it cut.
func sweepNotes() {
	state, err := StateDir()
	if err != nil {
		return
	}
	for _, dir := range []string{folderNotes, hypervisor.LogNotes} {
		dir = filepath.Join(state, dir)
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			if !strings.HasPrefix(e.Name(), unfinished) {
				continue
			}
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > unfinishedTime {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// movedLog finds the log of the folder at path from when that had another path, or was put
// aside, and says where the folder was. Where it can still be reached by the other path, it
// was not moved: then each of the two has a history.
func movedLog(path string) (dir, was string, ok bool) {
	key := undolog.FolderKey(path)
	if key == "" {
		return "", "", false
	}
	state, err := StateDir()
	if err != nil {
		return "", "", false
	}
	b, _, err := hostfs.ReadRegular(filepath.Join(state, folderNotes, key), maxNote, false)
	if err != nil || !filepath.IsAbs(string(b)) || !hypervisor.IsLog(string(b)) {
		return "", "", false
	}
	dir = string(b)
	whose, was, err := undolog.Whose(dir)
	if err != nil || whose != key {
		return "", "", false
	}
	aside := strings.Contains(filepath.Base(dir), undolog.AsideMark)
	return dir, was, aside || undolog.FolderKey(was) != key
}

// HasHistory reports whether there is a log in undoDir, or one that the folder at path
// has had elsewhere.
func HasHistory(path, undoDir string) bool {
	if hypervisor.IsLog(undoDir) {
		return true
	}
	_, _, ok := movedLog(path)
	return ok
}

// takeAlong brings the log of a folder that was moved to where it belongs now.
func (d *Directory) takeAlong(ctx context.Context) error {
	if hypervisor.IsLog(d.Config.UndoDir) {
		return nil
	}
	from, was, ok := movedLog(d.Config.Path)
	if !ok {
		return nil
	}
	err := undolog.Rename(ctx, from, d.Config.UndoDir)
	if locked := new(undolog.LockedError); errors.As(err, &locked) {
		locked.Moved = true
		return fmt.Errorf("this folder was at %s, and session %s has it open by that name: 'sandbox stop %s' ends the session, and then the history comes along: %w", was, locked.Owner.Session, locked.Owner.Session, err)
	}
	if err != nil {
		return fmt.Errorf("the history of this folder, which was at %s, is in %s and cannot be taken along: %w", was, from, err)
	}
	if was != d.Config.Path {
		d.Warn(undolog.Warning{Code: api.WarnMoved, Message: fmt.Sprintf("this folder was at %s; its history has come along", was)})
	}
	return nil
}

// Refuse says that the session has not started: what was made for the folder goes again.
func (d *Directory) Refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aborted = true
}

// closeLog closes the log; that of a session which has not started leaves nothing behind.
func (d *Directory) closeLog() error {
	d.mu.Lock()
	aborted := d.aborted
	d.mu.Unlock()
	if !aborted {
		return d.Log.Close()
	}
	err := d.Log.Withdraw()
	if !hypervisor.IsLog(d.Config.UndoDir) {
		forgetNotes(undolog.FolderKey(d.Config.Path), d.Config.UndoDir)
	}
	return err
}

// NewHistory puts the log aside that lies where the log of the folder d belongs, but is
// another folder's or of another format, and says where it is now. The folder that it is of finds it again.
func NewHistory(ctx context.Context, d api.Directory) (aside string, err error) {
	key, _, err := undolog.Whose(d.UndoDir)
	if err != nil {
		return "", err
	}
	if aside, err = undolog.PutAside(ctx, d.UndoDir); err != nil {
		return "", err
	}
	return aside, noteLog(key, aside)
}
