package capture

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Host is what the open steps of one log share. See the package documentation for
// several of them. Its fields do not change while a step is open.
type Host struct {
	Root  *hostfs.Root // the working folder
	Store Store
	Links *store.Links
	// Contents makes what writes the content of one object.
	Contents *store.Contents
	Retained Retained

	Symlinks  format.SymlinkPolicy
	Gitignore bool
	Limits    func() format.Limits
	Now       func() time.Time
	Log       *slog.Logger
	Warn      func(format.Warning) // called without locks held

	noAdopt devices // whose inodes cannot be renamed into the log
}

// Store is the undo directory, as far as open steps need it. It may be used
// concurrently.
type Store interface {
	// DropRedo forgets the undone steps: a change makes another future.
	DropRedo() error
	// NextSeq returns a sequence number that was never given before.
	NextSeq() (uint64, error)
	// FindRetained looks for an inode among those that closed steps retain. seq is
	// 0 if it is not there.
	FindRetained(id hostfs.ID) (seq uint64, obj format.ObjID, err error)
	// Create makes the directory name below wal/, and the journal in it with its
	// first record. After an error there is nothing.
	Create(name string, first *format.Step) (*store.StepDir, *format.Writer, error)
	// Names says that a step has made so many names, and how many since it said so before: to
	// put it back takes room.
	Names(made, since int)
	// Discard removes the directory name below wal/, which is open as dir.
	Discard(name string, dir *store.StepDir) error
	// Promote completes the directory and gives it the final name that follows
	// from e, in one rename.
	Promote(name string, dir *store.StepDir, w *format.Writer, e *format.Entry, list []format.Affected) error
}

// Observer is told what one step sees at its first touch, so that edits from
// outside are found. Its lock is a leaf: it may be called with Step.mu held.
type Observer interface {
	// Observe takes in what name in dir is, or with a nil st that it binds nothing,
	// before that is journaled.
	Observe(dir Directory, name string, st *hostfs.Stat)
	// End says that the step is over.
	End()
}

// Directory is one that a step has touched.
type Directory interface {
	HostID() hostfs.ID
	Path() string      // now, relative to the working folder; the root is "."
	StartPath() string // when the step began
}

// devices is a set of device numbers. It is read without a lock.
type devices struct {
	set atomic.Pointer[map[uint64]bool]
}

func (d *devices) has(dev uint64) bool {
	set := d.set.Load()
	return set != nil && (*set)[dev]
}

func (d *devices) add(dev uint64) {
	for {
		old := d.set.Load()
		now := map[uint64]bool{dev: true}
		if old != nil {
			maps.Copy(now, *old)
		}
		if d.set.CompareAndSwap(old, &now) {
			return
		}
	}
}

// Retained knows the inodes that steps took over, or let go. mu is a leaf lock,
// save that a record may be appended to a journal under it.
type Retained struct {
	mu sync.RWMutex
	// steps are those that are open and have a directory, with their seqs.
	steps map[*Step]uint64
	// handles are the Objects that were open when they were retained.
	handles map[hostfs.ID]*fsbridge.Object
	// changed are the retained inodes that a step has recorded since the log was
	// opened: they may be open yet, or have been when a compression looked.
	changed map[hostfs.ID]bool
	// freed are the inodes that an open step captured completely and let go.
	freed map[hostfs.ID][]freedInode
}

type freedInode struct {
	step *Step
	obj  format.ObjID
}

// enter says that s has a directory now.
func (r *Retained) enter(s *Step, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps == nil {
		r.steps = map[*Step]uint64{}
	}
	r.steps[s] = seq
}

// leave is called before the directory of s is closed. The closed steps know
// by then what s retained, if it was closed and not rolled back.
func (r *Retained) leave(s *Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.steps, s)
	for id, list := range r.freed {
		list = slices.DeleteFunc(list, func(f freedInode) bool { return f.step == s })
		if r.freed[id] = list; len(list) == 0 {
			delete(r.freed, id)
		}
	}
}

// find looks for the inode id in the directories of the open steps other than s.
func (r *Retained) find(s *Step, id hostfs.ID) (seq uint64, obj format.ObjID, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for other, seq := range r.steps {
		if other == s {
			continue
		}
		if obj, err := other.dir.FindBlob(id); err != nil || obj != format.NoObj {
			return seq, obj, err
		}
	}
	return 0, format.NoObj, nil
}

// NoteHandles remembers an inode in the log that is still open, so that it is not
// compressed under its handles.
func (r *Retained) NoteHandles(o *fsbridge.Object) {
	if o.Place.Handles() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handles == nil {
		r.handles = map[hostfs.ID]*fsbridge.Object{}
	}
	r.handles[o.ID] = o
}

// noteChanged remembers a retained inode that an open step is about to change:
// its records put bytes back into that very inode.
func (r *Retained) noteChanged(id hostfs.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = map[hostfs.ID]bool{}
	}
	r.changed[id] = true
}

// InUse tells whether a bridge still has a handle on the retained inode id, or
// had one and a step changed it.
func (r *Retained) InUse(id hostfs.ID) bool {
	r.mu.RLock()
	o := r.handles[id]
	r.mu.RUnlock()
	if o != nil && o.Place.Handles() > 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handles[id] == o {
		delete(r.handles, id)
	}
	return r.changed[id] // after the handles: nobody comes to it any more
}

// noteFreed says that the number of the inode id, which is obj of s, may be
// another's from now on.
func (r *Retained) noteFreed(s *Step, id hostfs.ID, obj format.ObjID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed == nil {
		r.freed = map[hostfs.ID][]freedInode{}
	}
	r.freed[id] = append(r.freed[id], freedInode{s, obj})
}

// isFreed tells whether s has freed the inode id and nobody was seen to have its
// number since.
func (r *Retained) isFreed(s *Step, id hostfs.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.ContainsFunc(r.freed[id], func(f freedInode) bool { return f.step == s })
}

// reused journals, in every open step that freed the inode id, that a new inode
// has its number.
func (r *Retained) reused(id hostfs.ID) (err error) {
	r.mu.RLock()
	none := len(r.freed) == 0
	r.mu.RUnlock()
	if none {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.freed[id] {
		if aerr := f.step.noteGone(f.obj); aerr != nil {
			err = aerr
		}
	}
	delete(r.freed, id)
	return err
}
