package directory

import (
	"context"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/messages"
)

// fenceWait bounds how long a read waits for pages that a command has changed in
// memory and not written yet. It then shows what is in the file.
const fenceWait = 200 * time.Millisecond

// readable opens the folder for [Directory.Folder]: hide is what its bridge hides. A folder
// that is open already is closed.
func (d *Directory) readable(hide []string) error {
	f, err := files.New(files.Options{Root: d.Root, Dirs: &d.dirs, Hidden: hide})
	if err != nil {
		return err
	}
	d.mu.Lock()
	old := d.files
	d.files = f
	d.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return nil
}

func (d *Directory) closeFiles() {
	d.mu.Lock()
	f := d.files
	d.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

// Folder is the folder's files, or ErrNoMachine until it is known what to hide: when
// the runtime has started.
func (d *Directory) Folder() (*files.Folder, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil {
		return nil, messages.ErrNoMachine
	}
	return d.files, nil
}

// OpenFiles opens the folder for [Directory.Folder] where no bridge does.
func (d *Directory) OpenFiles() error {
	if _, err := d.Folder(); err == nil {
		return nil
	}
	return d.readable(nil)
}

// Settle has pages written back that commands have changed through memory
// mappings; everything else that they write is there at once.
func (d *Directory) Settle(ctx context.Context) {
	b := d.theBridge()
	if b == nil || d.Hooks != nil && d.Hooks.Holding() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fenceWait)
	defer cancel()
	if err := b.Fence(ctx); err != nil {
		d.env.Logger.Debug("a file is read while its pages are not written back", "component", "files", "path", d.Config.Path, "err", err)
	}
}

// Changed tells caches of paths that we changed beside the bridge.
func (d *Directory) Changed(paths []string) {
	bridge := d.theBridge()
	if bridge == nil {
		return
	}
	err := error(nil)
	if c, ok := bridge.(fsbridge.PathInvalidator); ok {
		err = c.Changed(paths)
	} else {
		err = bridge.Invalidate(fsbridge.Changes{All: true})
	}
	if err != nil {
		d.env.Logger.Warn("caches could not be told of a write", "component", "session", "path", d.Config.Path, "paths", strings.Join(paths, " "), "err", err)
	}
}
