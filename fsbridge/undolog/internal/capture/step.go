package capture

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Step is the step that captures go to. Its directory is made at the first
// capture, so that a step that changes nothing costs nothing.
type Step struct {
	h    *Host
	seen Observer
	name string // of its directory below wal/
	info format.StepInfo
	id   format.StepID
	at   time.Time

	unprotected atomic.Bool
	copied      atomic.Int64 // raw bytes of captured content
	toldNear    atomic.Bool  // that copied is near its limit
	lost        notKept
	left        leftOut

	last atomic.Pointer[openReader]

	mu   sync.Mutex
	rec  format.Step
	dir  *store.StepDir // nil until the first capture
	w    *format.Writer
	root *stepObj
	// shared has the stepObj of created inodes by type, save directories.
	shared map[uint32]*stepObj
	objs   map[hostfs.ID]*stepObj
	next   format.ObjID
	fresh  int // names that were made in directories that were there
	// dirs are the directories with touched bindings, modified the objects
	// whose content or attributes are captured.
	dirs, modified []*stepObj
	aheads         []*ahead
	future         bool  // the undone steps are forgotten
	strays         []int // descriptors
	batch          batch
	ignores        map[hostfs.ID]*ignoreNode
}

// State bits of a stepObj.
const (
	objCreated  uint8 = 1 << iota // did not exist at the step's start
	objRetained                   // the inode is, or is linked, in blobs/
	objFreed                      // completely captured and removed
	objMeta                       // xattrs are captured; all else is in the record
	objContent                    // on the list of modified objects for its content
	objListed                     // on the list of modified objects
	objAhead                      // on the list of objects captured ahead
)

// stepObj is an inode of the open step in memory. Created inodes that are not
// directories share one stepObj per type. Step.mu guards the fields.
type stepObj struct {
	id    format.ObjID // 0: created, and not in the journal
	state uint8
	typ   uint32 // S_IFMT bits
	links int32  // names that are left, as far as we know
	host  hostfs.ID
	// parent and name bind the object at the step's start; atParent and atName
	// now (nil: nowhere, or by another hard link).
	parent, atParent *stepObj
	name, atName     string
	touched          map[string]touch // of a directory
	content          *contentState    // of a regular file
}

// touch is a binding that the step has touched: what was bound at the start
// and what is now. nil is nothing.
type touch struct {
	old, cur *stepObj
	making   int // operations that may bind it and have not been reported to Done
}

func (o *stepObj) is(bits uint8) bool { return o.state&bits != 0 }

// freshNames is after how many names that a step made its store is told of them.
const freshNames = 1024

// maxCommand bounds the command text that a step keeps, in bytes.
const maxCommand = 64 << 10

// Begin opens a step, whose directory will be name below wal/: another one for each
// step that is open. seen is told what the step finds. It touches no file.
func (h *Host) Begin(name string, id format.StepID, info format.StepInfo, seen Observer) *Step {
	if len(info.Command) > maxCommand {
		info.Command = info.Command[:maxCommand]
	}
	return &Step{h: h, seen: seen, name: name, info: info, id: id, at: h.Now(), next: format.RootObj}
}

// otherFuture forgets the undone steps, before the first change. s.mu is held.
func (s *Step) otherFuture() error {
	if s.future {
		return nil
	}
	err := s.h.Store.DropRedo()
	s.future = err == nil
	return err
}

// materialise makes the step's directory and journal. s.mu is held.
func (s *Step) materialise() (err error) {
	if s.dir != nil {
		return nil
	}
	seq, err := s.h.Store.NextSeq()
	if err != nil {
		return err
	}
	s.rec = format.Step{ID: s.id, Seq: seq, StartedAt: s.at, Type: s.info.Type,
		Command: s.info.Command, Argv: s.info.Argv, Dir: s.info.Dir, Folders: s.info.Folders, Group: s.info.Group}
	dir, w, err := s.h.Store.Create(s.name, &s.rec)
	if err != nil {
		return err
	}
	st, err := s.h.Root.Stat()
	if err == nil {
		s.root = &stepObj{id: format.RootObj, typ: posix.S_IFDIR, host: st.ID}
		rec := format.Object{Obj: format.RootObj, ID: dir.Volumes.Disk(st.ID), Meta: format.MetaOf(&st, "")}
		err = w.Append(new(format.Batch).Object(&rec))
	}
	if err != nil {
		_ = s.h.Store.Discard(s.name, dir)
		_, _ = w.Close(), dir.Close()
		return err
	}
	s.objs = map[hostfs.ID]*stepObj{st.ID: s.root}
	s.shared = map[uint32]*stepObj{}
	s.next = format.RootObj + 1
	s.dir, s.w = dir, w
	s.h.Retained.enter(s, seq)
	return nil
}

// ID is the step's id.
func (s *Step) ID() format.StepID { return s.id }

// Seq is the step's sequence number, 0 before its first capture. The caller knows
// that nobody captures meanwhile.
func (s *Step) Seq() uint64 { return s.rec.Seq }

// Journal is the step's journal, nil before its first capture. The caller knows
// that nobody captures meanwhile.
func (s *Step) Journal() *format.Writer { return s.w }

// TouchedName tells whether the step has touched what name binds in the directory dir. It is unsure where the
// step keeps nothing, and in a directory that it made: what is made there is known when that is done. It may be called at
// any time.
func (s *Step) TouchedName(dir hostfs.ID, name string) (touched, unsure bool) {
	if s.unprotected.Load() {
		return false, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.objs[dir]
	if d == nil {
		return false, false
	}
	_, touched = d.touched[name]
	return touched, d.is(objCreated)
}

// TouchedInode tells whether the step has touched the inode id: a file by any of its names, a directory only if the
// directory itself was, not when a name in it was. It may be called at any time.
func (s *Step) TouchedInode(id hostfs.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objs[id]
	return o != nil && (o.typ != posix.S_IFDIR || o.is(objMeta|objListed|objCreated))
}

// Release gives up the step's descriptors and tells the Observer that it is over.
// What it captured stays where it is: below wal/ after a crash or for a rollback.
func (s *Step) Release() {
	defer s.seen.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepReader(nil)
	for _, fd := range s.strays {
		_ = hostfs.Close(fd)
	}
	s.strays = nil
	s.forgetAheads()
	s.release()
}

// release closes the step's directory and journal. s.mu is held.
func (s *Step) release() {
	if s.dir == nil {
		return
	}
	s.h.Retained.leave(s)
	_, _ = s.w.Close(), s.dir.Close()
	s.dir, s.w = nil, nil
}

// Close gives the step's directory its final name and returns its history entry,
// or nil if the step changed nothing and leaves nothing. Nobody captures into the
// step any more. After an error it is still open. [Step.Release] it in any case.
func (s *Step) Close(res format.StepResult) (*format.Entry, error) {
	s.warnLeftOut()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return nil, nil
	}
	if s.settle(); !s.changed() {
		if err := s.h.Store.Discard(s.name, s.dir); err != nil {
			return nil, err
		}
		s.release()
		return nil, nil
	}
	if err := s.otherFuture(); err != nil {
		return nil, err
	}
	list := s.affected()
	e := &format.Entry{Seq: s.rec.Seq, StepID: s.rec.ID, Type: s.rec.Type, Command: s.rec.Command,
		Argv: s.rec.Argv, Dir: s.rec.Dir, Folders: s.rec.Folders, StartedAt: s.rec.StartedAt, EndedAt: s.h.Now(),
		ExitCode: res.ExitCode, Status: res.Status, Unprotected: s.unprotected.Load(),
		NotKept: s.lost.paths, NotKeptCount: s.lost.count,
		Commands: res.Commands, CommandCount: res.CommandCount,
		Group: cmp.Or(s.rec.Group, res.Group)}
	e.Affect(list)
	if err := s.h.Store.Promote(s.name, s.dir, s.w, e, list); err != nil {
		return nil, err
	}
	return e, nil
}

// Changed tells whether the step has changed anything, and forgets the undone steps if so: what was only foreseen has not.
// Nobody captures into the step any more.
func (s *Step) Changed() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return false, nil
	}
	if s.settle(); !s.changed() {
		return false, nil
	}
	return true, s.otherFuture()
}

// changed tells whether anything was captured that an undo would put back.
func (s *Step) changed() bool {
	touched := slices.ContainsFunc(s.dirs, func(d *stepObj) bool { return len(d.touched) > 0 })
	return touched || len(s.modified) > 0 || s.unprotected.Load()
}
