package undolog

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// stepHost is what the open steps of one log share. Several steps may be open on
// one host at once: nothing in it belongs to a certain step. Each of them needs
//
//   - an epoch of its own. The marks on an [fsbridge.Object] hold in one epoch
//     only, and a newer epoch's replace them. A step whose marks were replaced
//     asks Capture once more and finds its records: it is slower, never wrong;
//   - a directory of its own below wal/.
//
// A step gets its sequence number at its first capture. So a step that closes
// later may have the lower number, and the list of closed steps is kept in the
// order of the numbers. What two steps touch each of them captures, as it was at
// its own first touch. To undo both, the one with the higher number first, gives
// back what was there before both if the one with the lower number touched it
// first; nobody sees to that here.
type stepHost struct {
	root *hostfs.Root // the working folder
	undo *hostfs.Root // the undo directory

	store    stepStore
	stamps   stepStamps
	contents *store.Contents
	links    *store.Links
	retained retained
	noAdopt  devices

	symlinks  SymlinkPolicy
	gitignore bool
	power     bool // what is captured survives a power failure
	limits    func() Limits
	now       func() time.Time
	log       *slog.Logger
	warn      func(Warning) // called without locks held
}

// stepStore is what the steps ask of the undo directory.
type stepStore interface {
	// dropRedo forgets the undone steps: a change makes another future.
	dropRedo() error
	nextSeq() (uint64, error)
	// findRetained looks for an inode among those that closed steps retain. seq is
	// 0 if it is not there.
	findRetained(id hostfs.ID) (seq uint64, obj journal.ObjID, err error)
}

// stepStamps is told what a step sees at its first touch, so that edits from
// outside are found. Its lock is a leaf: it may be called with openStep.mu held.
type stepStamps interface {
	// observe takes in what name in dir is, or with a nil st that it binds nothing,
	// before that is journaled. What was edited goes into e.
	observe(e *edits, dir touchedDir, name string, st *hostfs.Stat)
	// relink is called before and after one of several names of an inode is removed
	// from the log.
	relink(st *hostfs.Stat, removed bool) error
}

// touchedDir is a directory that a step has touched.
type touchedDir interface {
	hostID() hostfs.ID
	path() string      // now, relative to the working folder
	startPath() string // when the step began
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

// retained knows the inodes that steps took over, or let go. mu is a leaf lock,
// save that a record may be appended to a journal under it.
type retained struct {
	mu sync.RWMutex
	// steps are those that are open and have a directory, with their seqs.
	steps map[*openStep]uint64
	// handles are the Objects that were open when they were retained.
	handles map[hostfs.ID]*fsbridge.Object
	// changed are the retained inodes that a step has recorded since the log was
	// opened: they may be open yet, or have been when a compression looked.
	changed map[hostfs.ID]bool
	// freed are the inodes that an open step captured completely and let go.
	freed map[hostfs.ID][]freedInode
}

type freedInode struct {
	step *openStep
	obj  journal.ObjID
}

// enter says that s has a directory now.
func (r *retained) enter(s *openStep, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps == nil {
		r.steps = map[*openStep]uint64{}
	}
	r.steps[s] = seq
}

// leave is called before the directory of s is closed. The closed steps know
// by then what s retained, if it was closed and not rolled back.
func (r *retained) leave(s *openStep) {
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
func (r *retained) find(s *openStep, id hostfs.ID) (seq uint64, obj journal.ObjID, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for other, seq := range r.steps {
		if other == s {
			continue
		}
		if obj, err := other.dir.FindBlob(id); err != nil || obj != journal.NoObj {
			return seq, obj, err
		}
	}
	return 0, journal.NoObj, nil
}

// noteHandles remembers an inode in the log that is still open, so that it is not
// compressed under its handles.
func (r *retained) noteHandles(o *fsbridge.Object) {
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
func (r *retained) noteChanged(id hostfs.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = map[hostfs.ID]bool{}
	}
	r.changed[id] = true
}

// inUse tells whether a bridge still has a handle on the retained inode id, or
// had one and a step changed it.
func (r *retained) inUse(id hostfs.ID) bool {
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
func (r *retained) noteFreed(s *openStep, id hostfs.ID, obj journal.ObjID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed == nil {
		r.freed = map[hostfs.ID][]freedInode{}
	}
	r.freed[id] = append(r.freed[id], freedInode{s, obj})
}

// isFreed tells whether s has freed the inode id and nobody was seen to have its
// number since.
func (r *retained) isFreed(s *openStep, id hostfs.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.ContainsFunc(r.freed[id], func(f freedInode) bool { return f.step == s })
}

// reused journals, in every open step that freed the inode id, that a new inode
// has its number.
func (r *retained) reused(id hostfs.ID) (err error) {
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
