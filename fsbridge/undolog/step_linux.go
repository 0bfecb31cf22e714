package undolog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// openStep is the step that captures go to. Its directory is made at the first
// capture, so that a step that changes nothing costs nothing.
type openStep struct {
	h    *stepHost
	name string // of its directory below wal/
	info StepInfo
	id   StepID
	at   time.Time

	unprotected atomic.Bool
	copied      atomic.Int64 // raw bytes of captured content
	adopted     atomic.Int64 // bytes of retained files

	last atomic.Pointer[openReader]

	mu   sync.Mutex
	rec  journal.Step
	dir  *store.StepDir // nil until the first capture
	w    *journal.Writer
	root *stepObj
	// shared has the stepObj of created inodes by type, save directories.
	shared map[uint32]*stepObj
	objs   map[hostfs.ID]*stepObj
	next   journal.ObjID
	// dirs are the directories with touched bindings, modified the objects
	// whose content or attributes are captured.
	dirs, modified []*stepObj
	strays         []int // descriptors
	batch          batch
	edits          edits
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
)

// stepObj is an inode of the open step in memory. Created inodes that are not
// directories share one stepObj per type. openStep.mu guards the fields.
type stepObj struct {
	id    journal.ObjID // 0: created, and not in the journal
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
type touch struct{ old, cur *stepObj }

func (o *stepObj) is(bits uint8) bool { return o.state&bits != 0 }

// begin opens a step, whose directory will be name below wal/. It touches no file.
func (h *stepHost) begin(name string, id StepID, info StepInfo) *openStep {
	if len(info.Command) > maxCommand {
		info.Command = info.Command[:maxCommand]
	}
	return &openStep{h: h, name: name, info: info, id: id, at: h.now(), next: journal.RootObj}
}

// materialise makes the step's directory and journal. s.mu is held.
func (s *openStep) materialise() (err error) {
	if s.dir != nil {
		return nil
	}
	if err := s.h.store.dropRedo(); err != nil {
		return err
	}
	seq, err := s.h.store.nextSeq()
	if err != nil {
		return err
	}
	s.rec = journal.Step{ID: s.id, Seq: seq, StartedAt: s.at, Type: s.info.Type,
		Command: s.info.Command, Argv: s.info.Argv, Dir: s.info.Dir}
	wal, err := hostfs.OpenDirPathAt(s.h.undo.FD(), "wal")
	if err != nil {
		return err
	}
	defer hostfs.Close(wal)
	if err := hostfs.MkdirAt(wal, s.name, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = hostfs.RemoveAll(context.Background(), wal, s.name, nil)
		}
	}()
	if err := fault.Point("begin.mkdir"); err != nil {
		return err
	}
	dir, err := store.OpenStepDir(wal, s.name)
	if err != nil {
		return err
	}
	w, err := journal.Create(dir.FD, &s.rec, s.h.power)
	if err != nil {
		_ = dir.Close()
		return err
	}
	w.AllowRoom()
	st, err := s.h.root.Stat()
	if err == nil {
		s.root = &stepObj{id: journal.RootObj, typ: unix.S_IFDIR, host: st.ID}
		rec := journal.Object{Obj: journal.RootObj, ID: st.ID, Meta: journal.MetaOf(&st, "")}
		err = w.Append(new(journal.Batch).Object(&rec))
	}
	if err != nil {
		_, _ = w.Close(), dir.Close()
		return err
	}
	s.objs = map[hostfs.ID]*stepObj{st.ID: s.root}
	s.shared = map[uint32]*stepObj{}
	s.next = journal.RootObj + 1
	s.dir, s.w = dir, w
	s.h.retained.enter(s, seq)
	return nil
}

// close releases the descriptors.
func (s *openStep) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepReader(nil)
	for _, fd := range s.strays {
		_ = hostfs.Close(fd)
	}
	s.strays = nil
	s.release()
}

// release closes the step's directory and journal. s.mu is held.
func (s *openStep) release() {
	if s.dir == nil {
		return
	}
	s.h.retained.leave(s)
	_, _ = s.w.Close(), s.dir.Close()
	s.dir, s.w = nil, nil
}

// promote gives the step's directory its final name.
func (s *openStep) promote(res StepResult) (*stepEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return nil, nil
	}
	s.dir.Settle()
	wal, err := hostfs.OpenDirAt(s.h.undo.FD(), "wal")
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(wal)
	if !s.changed() {
		if err := store.RemoveTree(context.Background(), wal, s.name, s.h.stamps.relink, s.h.links); err != nil {
			return nil, err
		}
		s.release()
		return nil, nil
	}
	list := s.affected()
	e := &stepEntry{Entry: store.EntryOf(&s.rec), name: store.FormatStepID(s.id)}
	e.EndedAt, e.ExitCode, e.Status = s.h.now(), res.ExitCode, res.Status
	e.Unprotected = s.unprotected.Load()
	affect(&e.Entry, list)
	e.StoredBytes = s.w.Size() + s.adopted.Load()
	if err := store.WritePaths(s.dir.FD, list); err != nil {
		return nil, err
	}
	if err := store.WriteSummary(s.dir.FD, e.Entry); err != nil {
		return nil, err
	}
	if err := errors.Join(s.w.Trim(), s.syncAll()); err != nil {
		return nil, err
	}
	steps, err := hostfs.OpenDirAt(s.h.undo.FD(), "steps")
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(steps)
	if err := fault.Point("commit.rename"); err != nil {
		return nil, err
	}
	if err := hostfs.RenameAt(wal, s.name, steps, e.name, unix.RENAME_NOREPLACE); err != nil {
		return nil, err
	}
	if s.w.Durable() {
		_, _ = unix.Fsync(steps), unix.Fsync(wal)
	}
	_ = fault.Point("commit.done") // a place to be killed: the step is closed now
	return e, nil
}

// changed tells whether anything was captured that an undo would put back.
func (s *openStep) changed() bool {
	touched := slices.ContainsFunc(s.dirs, func(d *stepObj) bool { return len(d.touched) > 0 })
	return touched || len(s.modified) > 0 || s.unprotected.Load()
}

// syncAll makes the step durable where that is promised.
func (s *openStep) syncAll() error {
	if !s.w.Durable() {
		return nil
	}
	return errors.Join(s.w.Sync(), unix.Syncfs(s.dir.FD))
}
