package capture

import (
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

func (s *Step) newID() format.ObjID {
	id := s.next
	s.next++
	return id
}

// lookup returns the state of the inode id, or nil if the step does not know it,
// or knew another that had the number and was freed.
func (s *Step) lookup(id hostfs.ID) *stepObj {
	so := s.objs[id]
	if so != nil && so.is(objFreed) && !s.h.Retained.isFreed(s, id) {
		delete(s.objs, id)
		return nil
	}
	return so
}

// Created tells whether the step made o. It still knows when a bridge has forgotten the
// object meanwhile and made another for the inode. Where o's name says nothing (an unlinked
// file), the answer is false. The caller holds the guard of the epoch. It may be called
// concurrently, and allocates nothing.
func (s *Step) Created(epoch uint64, o *fsbridge.Object) bool {
	if o == nil || isCreated(o, epoch) || s.unprotected.Load() {
		return isCreated(o, epoch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.createdBefore(o) {
		return false
	}
	o.Protect(epoch, fsbridge.ProtCreated)
	return true
}

func (s *Step) createdBefore(o *fsbridge.Object) bool {
	if so := s.lookup(o.ID); so != nil {
		return so.is(objCreated)
	}
	parent, name, ok := o.Place.Binding()
	if !ok {
		return false
	}
	p := s.lookup(parent.ID)
	if p == nil {
		return false
	}
	if t, touched := p.touched[name]; touched {
		return t.cur != nil && t.cur.is(objCreated)
	}
	return p.is(objCreated)
}

// object returns the state of o, recording it and its ancestors if it was
// there at the step's start. st describes it if st.Ino is not 0, and fd is
// then a descriptor of it, or -1. s.mu is held.
func (s *Step) object(o *fsbridge.Object, st hostfs.Stat) (*stepObj, error) {
	if so := s.lookup(o.ID); so != nil {
		return so, nil
	}
	parent, name, ok := o.Place.Binding()
	if !ok {
		return s.orphan(o)
	}
	p, err := s.object(parent, hostfs.Stat{})
	if err != nil {
		return nil, err
	}
	return s.objectAt(o, st, p, name)
}

// boundObject is object for what st says that name binds in p, so that nobody
// has to ask the host again. One of several names may not be that which it had
// when the step began, nor the one that the others are known by.
func (s *Step) boundObject(o *fsbridge.Object, st hostfs.Stat, p *stepObj, name string) (*stepObj, error) {
	if so := s.lookup(o.ID); so != nil {
		return so, nil
	}
	if st.Ino == 0 || st.ID != o.ID || st.Nlink != 1 && o.Type != posix.S_IFDIR {
		return s.object(o, st)
	}
	return s.objectAt(o, st, p, name)
}

// objectAt is object for what is not recorded yet and is bound to name in p.
func (s *Step) objectAt(o *fsbridge.Object, st hostfs.Stat, p *stepObj, name string) (_ *stepObj, err error) {
	if _, touched := p.touched[name]; touched || p.is(objCreated) {
		return s.createdObj(o, p, name), nil
	}
	var target string
	if st.Ino == 0 || st.ID != o.ID || o.Type == posix.S_IFLNK {
		if st, target, err = inspect(o); err != nil {
			return nil, err
		}
	}
	s.seen.Observe(p, name, &st)
	return s.record(&format.Object{ID: o.ID, Parent: p.id, Name: name, Meta: format.MetaOf(&st, target)}, p)
}

// record adds a pre-existing object to the batch and the map.
func (s *Step) record(r *format.Object, parent *stepObj) (*stepObj, error) {
	if s.next >= format.MaxObjects {
		return nil, fmt.Errorf("undolog: too many objects in one step: %w", posix.ENOSPC)
	}
	r.Obj = s.newID()
	so := &stepObj{id: r.Obj, typ: r.Meta.Mode & posix.S_IFMT, host: r.ID,
		links:  int32(min(r.Meta.Nlink, 1<<30)),
		parent: parent, atParent: parent, name: r.Name, atName: r.Name}
	if so.typ == posix.S_IFREG && r.Meta.Size > 0 {
		so.content = &contentState{size: r.Meta.Size}
	}
	s.objs[r.ID] = so
	r.ID = s.dir.Volumes.Disk(r.ID)
	s.batch.records.Object(r)
	s.batch.objs = append(s.batch.objs, so)
	return so, nil
}

// inspect stats o and reads the target of a symlink.
func inspect(o *fsbridge.Object) (hostfs.Stat, string, error) {
	fd, err := o.Place.Open(posix.O_PATH)
	if err != nil {
		return hostfs.Stat{}, "", err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return st, "", err
	}
	if st.ID != o.ID {
		return st, "", fmt.Errorf("%w: %w", hostfs.ErrChanged, posix.ESTALE)
	}
	if !st.IsSymlink() {
		return st, "", nil
	}
	buf := make([]byte, posix.PathMax+1)
	n, err := posix.Readlinkat(fd, "", buf)
	if err != nil {
		return st, "", fmt.Errorf("read symlink: %w", err)
	}
	return st, string(buf[:n]), nil
}

// createdObj returns the state of an inode that the step created at name in p.
func (s *Step) createdObj(o *fsbridge.Object, p *stepObj, name string) *stepObj {
	if o.Type != posix.S_IFDIR {
		return s.sharedObj(o.Type)
	}
	so := &stepObj{state: objCreated, typ: posix.S_IFDIR, host: o.ID,
		parent: p, atParent: p, name: name, atName: name}
	s.objs[o.ID] = so
	return so
}

// sharedObj stands for all created inodes of one type.
func (s *Step) sharedObj(typ uint32) *stepObj {
	so := s.shared[typ]
	if so == nil {
		so = &stepObj{state: objCreated, typ: typ}
		s.shared[typ] = so
	}
	return so
}

// orphan returns the state of an inode without a known name: retained by an
// older step, somewhere in the folder, or out of reach of any undo (a removed
// file that is still open, an O_TMPFILE).
func (s *Step) orphan(o *fsbridge.Object) (*stepObj, error) {
	st, target, err := inspect(o)
	if err != nil {
		return nil, err
	}
	if st.Nlink > 0 {
		seq, obj, err := s.findRetained(o.ID)
		if err != nil {
			return nil, err
		}
		if seq != 0 {
			s.h.Retained.noteChanged(o.ID)
		}
		if seq == 0 || st.Nlink > 1 {
			s.stray(o)
		}
		// Without a blob it is in the folder, but an undo moved it and the bridge has
		// not looked it up since. Whoever applies this will search for it.
		return s.record(&format.Object{ID: o.ID, RetainedSeq: seq, RetainedObj: obj, Meta: format.MetaOf(&st, target)}, nil)
	}
	return s.sharedObj(o.Type), nil
}

// findRetained looks for the inode id in the other open steps and in the closed
// ones: in this order, so that a step that is being closed is not missed.
func (s *Step) findRetained(id hostfs.ID) (seq uint64, obj format.ObjID, err error) {
	if seq, obj, err = s.h.Retained.find(s, id); err != nil || seq != 0 {
		return seq, obj, err
	}
	return s.h.Store.FindRetained(id)
}

// maxStrays bounds the descriptors that a step keeps of strays.
const maxStrays = 64

// stray keeps a descriptor of an inode that the bridge knows no name of, so
// that it can be described when the step is closed.
func (s *Step) stray(o *fsbridge.Object) {
	if len(s.strays) >= maxStrays {
		return // what is not described is not known any more
	}
	if fd, err := o.Place.Open(posix.O_PATH); err == nil {
		s.strays = append(s.strays, fd)
	}
}

// Strays describes, as they are now, inodes that the step changed and that the
// bridge knew no name of. It is for the time between Close and Release.
func (s *Step) Strays() (out []hostfs.Stat, err error) {
	for _, fd := range s.strays {
		if st, err := hostfs.StatFD(fd); err == nil && st.Nlink > 0 {
			out = append(out, st)
		}
	}
	return out, nil
}
