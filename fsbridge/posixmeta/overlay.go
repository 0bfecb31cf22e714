package posixmeta

import (
	"fmt"
	"path"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Overlay is what bridges attach (see [fsbridge.Posix]): names are checked, and
// metadata goes to a [Store], under the step that is open.
type Overlay struct {
	store *Store
	index *Index
	// step returns the step that is open.
	step func() (id int64, ok bool)

	names sync.Mutex // held while a name is made
	mu    sync.Mutex // held while the store is changed; after names
}

var _ fsbridge.Posix = (*Overlay)(nil)

// NewOverlay makes one. step is called between Begin and End of operations only.
func NewOverlay(s *Store, step func() (id int64, ok bool)) *Overlay {
	return &Overlay{store: s, index: NewIndex(0), step: step}
}

// Name implements [fsbridge.Posix].
func (o *Overlay) Name(name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", err, posix.EINVAL)
	}
	return nil
}

// Names implements [fsbridge.Posix].
func (o *Overlay) Names(dir fsbridge.Names, made, removed string, do func() error) error {
	o.names.Lock()
	defer o.names.Unlock()
	key, version := dir.Key(), dir.Version()
	if made != "" && (removed == "" || Fold(made) != Fold(removed)) {
		err := o.index.Check(key, version, dir.List, made)
		if err != nil { // it may have gone in the same tick of the file system's clock
			o.index.Forget(key)
			err = o.index.Check(key, version, dir.List, made)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, posix.EEXIST)
		}
	}
	if err := do(); err != nil {
		return err
	}
	o.index.Changed(key, version, dir.Version(), made, removed)
	return nil
}

// Show implements [fsbridge.Posix].
func (o *Overlay) Show(p string, host fsbridge.PosixAttr) (fsbridge.PosixAttr, error) {
	var e Entry
	if p != "" {
		var err error
		if e, err = o.store.Get(p); err != nil {
			return host, err
		}
	}
	if e.Type != 0 && host.Size != int64(len(e.Target)) {
		e.Type, e.Target = 0, "" // another file has its name now
	}
	a := e.Overlay(path.Base(p), Attr{Mode: host.Mode, UID: host.UID, GID: host.GID, Size: host.Size})
	return fsbridge.PosixAttr{Mode: a.Mode, UID: a.UID, GID: a.GID, Size: a.Size, Target: e.Target}, nil
}

// Set implements [fsbridge.Posix].
func (o *Overlay) Set(p string, c fsbridge.PosixChange) error {
	return o.change(func() error {
		return o.store.Change(p, func(e *Entry) {
			if c.Fresh {
				*e = Entry{}
			}
			if c.HasMode {
				e.HasMode, e.Mode = true, c.Mode&modeMask
			}
			if c.HasOwner {
				e.HasOwner, e.UID, e.GID = true, c.UID, c.GID
			}
			if c.Type != 0 {
				e.Type, e.Target = c.Type, c.Target
			}
		})
	})
}

// Moved implements [fsbridge.Posix].
func (o *Overlay) Moved(from, to string, exchange bool) error {
	return o.change(func() error {
		if exchange {
			return o.store.Exchanged(from, to)
		}
		return o.store.Renamed(from, to)
	})
}

// Removed implements [fsbridge.Posix].
func (o *Overlay) Removed(p string) error {
	return o.change(func() error { return o.store.Removed(p) })
}

// Linked implements [fsbridge.Posix].
func (o *Overlay) Linked(p, link string) error {
	return o.change(func() error { return o.store.Linked(p, link) })
}

// change notes what f changes for the step that is open.
func (o *Overlay) change(f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, ok := o.step()
	if !ok {
		id = 0
	}
	if err := o.store.enter(id); err != nil {
		return err
	}
	return f()
}

// Settle brings the metadata to where the undo log is: see [Store.Settle]. No
// operation is under way.
func (o *Overlay) Settle(open int64, done, undone []int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.index = NewIndex(0) // names were changed behind it
	return o.store.Settle(open, done, undone)
}

// Restore is [Store.Restore].
func (o *Overlay) Restore(p string, newestFirst []int64, as int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.store.Restore(p, newestFirst, as)
}
