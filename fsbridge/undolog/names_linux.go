package undolog

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
)

// captureNames journals the bindings and objects that a namespace operation
// changes, and retains what it removes.
func (s *openStep) captureNames(epoch uint64, op *fsbridge.Op) (performed bool, err error) {
	if performed, err = s.recordNames(op); err != nil {
		return false, err
	}
	if err := s.w.Sync(); err != nil && !performed {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range []*fsbridge.Object{op.Dir, op.NewDir, op.Node, op.Victim} {
		if o == nil {
			continue
		}
		if so := s.objs[o.ID]; so == nil || so.is(objCreated) {
			o.Protect(epoch, fsbridge.ProtCreated)
		}
	}
	return performed, nil
}

func (s *openStep) recordNames(op *fsbridge.Op) (performed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return false, err
	}
	gone, err := s.planNames(op)
	if err != nil {
		s.cancel()
		return false, err
	}
	if gone == nil || gone.is(objCreated|objRetained|objFreed) {
		return false, s.flush()
	}
	return s.remove(op, gone)
}

// planNames adds to the batch what op needs, and returns the object that it
// removes, if any.
func (s *openStep) planNames(op *fsbridge.Op) (gone *stepObj, err error) {
	dir, err := s.directory(op.Dir, op.DirFD)
	if err != nil {
		return nil, err
	}
	var node *stepObj
	if op.Node != nil {
		if op.Kind == fsbridge.OpLink {
			node, err = s.object(op.Node, op.NodeStat)
		} else {
			node, err = s.boundObject(op.Node, op.NodeStat, dir, op.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	switch op.Kind {
	case fsbridge.OpLink:
		s.touch(dir, op.Name, nil)
		s.anchor(dir, op.Name, node)
		return nil, nil
	case fsbridge.OpUnlink, fsbridge.OpRmdir:
		s.touch(dir, op.Name, node)
		return node, nil
	case fsbridge.OpRename:
		return s.planRename(op, dir, node)
	}
	s.touch(dir, op.Name, nil)
	return nil, nil
}

func (s *openStep) planRename(op *fsbridge.Op, dir, node *stepObj) (gone *stepObj, err error) {
	if op.Victim != nil && op.Flags&unix.RENAME_NOREPLACE != 0 {
		return nil, unix.EEXIST
	}
	newDir, err := s.directory(op.NewDir, op.NewDirFD)
	if err != nil {
		return nil, err
	}
	var victim *stepObj
	if op.Victim != nil {
		if victim, err = s.boundObject(op.Victim, op.VictimStat, newDir, op.NewName); err != nil {
			return nil, err
		}
	}
	s.touch(dir, op.Name, node)
	s.touch(newDir, op.NewName, victim)
	s.anchor(newDir, op.NewName, node)
	if op.Flags&unix.RENAME_EXCHANGE != 0 {
		s.anchor(dir, op.Name, victim)
		return nil, nil
	}
	if op.Victim != nil && op.Victim.ID == op.Node.ID { // two names of one inode: nothing happens
		return nil, nil
	}
	return victim, nil
}

// directory is object for a directory that is open as fd.
func (s *openStep) directory(o *fsbridge.Object, fd int) (*stepObj, error) {
	if so := s.lookup(o.ID); so != nil {
		return so, nil
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return nil, err
	}
	if st.ID != o.ID {
		return nil, fmt.Errorf("%w: %w", hostfs.ErrChanged, unix.ESTALE)
	}
	return s.object(o, st)
}

// touch notes that name in dir is about to change; old is what it binds now.
// The first touch in a directory that was there at the start is journaled.
func (s *openStep) touch(dir *stepObj, name string, old *stepObj) {
	if _, ok := dir.touched[name]; ok {
		return
	}
	if dir.touched == nil {
		dir.touched = map[string]touch{}
		s.dirs = append(s.dirs, dir)
	}
	t := touch{old: old, cur: old}
	if dir.is(objCreated) {
		t.old = nil
	} else {
		was := journal.NoObj
		if old != nil {
			was = old.id
		} else {
			s.h.stamps.observe(&s.edits, dir, name, nil)
		}
		s.batch.records.Binding(dir.id, name, was)
	}
	dir.touched[name] = t
	s.batch.touched = append(s.batch.touched, batchTouch{dir, name})
}

// anchor makes sure that a recorded object that moves into a created directory
// can be found there: the directory and the binding are journaled.
func (s *openStep) anchor(dir *stepObj, name string, node *stepObj) {
	if !dir.is(objCreated) || node == nil || node.id == journal.NoObj {
		return
	}
	s.recordCreated(dir)
	s.touch(dir, name, nil)
	s.batch.records.Binding(dir.id, name, journal.NoObj)
}

// recordCreated journals a created directory, the created ones above it, and
// the bindings that lead to it.
func (s *openStep) recordCreated(dir *stepObj) {
	if dir.id != journal.NoObj || dir.atParent == nil {
		return
	}
	up := dir.atParent
	if up.is(objCreated) {
		s.recordCreated(up)
		s.batch.records.Binding(up.id, dir.atName, journal.NoObj)
	}
	dir.id = s.newID()
	r := journal.Object{Obj: dir.id, ID: dir.host, Created: true, Parent: up.id, Name: dir.atName}
	s.batch.records.Object(&r)
	s.batch.created = append(s.batch.created, dir)
}

// remove journals and performs the removal of so, a pre-existing object that
// is not in the log yet: it is renamed into blobs/, or linked there if it is
// the victim of a rename. Where that cannot be it is captured completely and
// left for the bridge to remove. s.mu is held.
func (s *openStep) remove(op *fsbridge.Op, so *stepObj) (performed bool, err error) {
	dirfd, name, obj, st := op.DirFD, op.Name, op.Node, &op.NodeStat
	if op.Kind == fsbridge.OpRename {
		dirfd, name, obj, st = op.NewDirFD, op.NewName, op.Victim, &op.VictimStat
	}
	isDir := so.typ == unix.S_IFDIR
	free := s.h.noAdopt.has(so.host.Dev) || (isDir && op.Kind == fsbridge.OpRename)
	check := -1
	if isDir { // what is freed is taken to have been empty
		check, err = s.openEmpty(dirfd, name, so.host)
		switch {
		case err == nil:
			defer hostfs.Close(check)
		case !free || errors.Is(err, unix.ENOTEMPTY):
			s.cancel()
			return false, err
		}
	}
	if free {
		return false, s.free(so, obj)
	}
	s.batch.records.Retain(so.id)
	if err := s.flush(); err != nil {
		return false, err
	}
	if s.w.Durable() {
		s.mu.Unlock()
		err := s.w.Sync()
		s.mu.Lock()
		if err != nil || so.is(objRetained) { // by another name of it, meanwhile
			return false, err
		}
	}
	if op.Kind == fsbridge.OpRename {
		err = s.h.links.change(so.host, 1, func() error { return s.linkIn(dirfd, name, so) })
	} else if isDir || st.Ino != 0 && st.Nlink < 2 {
		err = s.moveIn(dirfd, name, so, check)
	} else {
		err = s.h.links.change(so.host, 1, func() error { return s.moveIn(dirfd, name, so, check) })
	}
	switch {
	case err == nil:
		so.state |= objRetained
		if so.typ == unix.S_IFREG {
			s.adopted.Add(retainedBytes(so, st))
		}
		s.h.retained.noteHandles(obj)
		return op.Kind != fsbridge.OpRename, nil
	case errors.Is(err, unix.EXDEV):
		s.h.noAdopt.add(so.host.Dev)
	case errors.Is(err, unix.EMLINK):
	case isDir && errors.Is(err, unix.EACCES), isDir && errors.Is(err, unix.EPERM): // ".." cannot be rewritten
	case op.Kind == fsbridge.OpRename && errors.Is(err, unix.EPERM): // fs.protected_hardlinks
	default:
		return false, err
	}
	return false, s.free(so, obj)
}

func retainedBytes(so *stepObj, st *hostfs.Stat) int64 {
	switch {
	case st.Ino != 0:
		return min(st.Size, st.Blocks*512)
	case so.content != nil:
		return so.content.size
	}
	return 0
}

// openEmpty opens the directory name below dirfd for reading and returns
// ENOTEMPTY unless it is the inode id and empty.
func (s *openStep) openEmpty(dirfd int, name string, id hostfs.ID) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	fd, err := hostfs.OpenVerified(dirfd, name, id, flags|unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) { // O_NOATIME is the owner's
		fd, err = hostfs.OpenVerified(dirfd, name, id, flags)
	}
	if errors.Is(err, unix.EACCES) {
		var path int
		if path, err = hostfs.OpenVerified(dirfd, name, id, unix.O_PATH|unix.O_DIRECTORY); err == nil {
			fd, err = hostfs.ReopenLent(path, flags, s.journaled)
			_ = hostfs.Close(path)
		}
	}
	if err != nil {
		return -1, err
	}
	return fd, checkEmpty(fd)
}

// journaled returns when the batch is as safe as is promised: what a record in it
// tells of, such as a mode, may be changed then. s.mu is held.
func (s *openStep) journaled() error { return errors.Join(s.flush(), s.w.Sync()) }

func checkEmpty(fd int) error {
	empty, err := hostfs.IsEmptyDir(fd)
	if err == nil && !empty {
		err = unix.ENOTEMPTY
	}
	if err != nil {
		_ = hostfs.Close(fd)
	}
	return err
}

// moveIn renames name below dirfd into blobs/. check is a descriptor of a
// directory whose emptiness must still hold afterwards, or -1.
func (s *openStep) moveIn(dirfd int, name string, so *stepObj, check int) error {
	return s.dir.withBlobDir(so.id, true, func(blobs int) error {
		if err := fault.Point("retain.before"); err != nil {
			return err
		}
		blob := blobName(so.id)
		if err := hostfs.RenameAt(dirfd, name, blobs, blob, unix.RENAME_NOREPLACE); err != nil {
			return err
		}
		err := fault.Point("retain.after")
		if err == nil {
			err = verifyBlob(blobs, blob, so)
		}
		if err == nil && check >= 0 {
			var empty bool
			if empty, err = hostfs.IsEmptyDir(check); err == nil && !empty {
				err = unix.ENOTEMPTY
			}
		}
		if err != nil {
			return errors.Join(err, hostfs.RenameAt(blobs, blob, dirfd, name, unix.RENAME_NOREPLACE))
		}
		return nil
	})
}

// linkIn links name below dirfd into blobs/, before the bridge replaces it.
func (s *openStep) linkIn(dirfd int, name string, so *stepObj) error {
	return s.dir.withBlobDir(so.id, true, func(blobs int) error {
		if err := fault.Point("retain.before"); err != nil {
			return err
		}
		blob := blobName(so.id)
		if err := hostfs.LinkAt(dirfd, name, blobs, blob); err != nil {
			return err
		}
		err := fault.Point("retain.after")
		if err == nil {
			err = verifyBlob(blobs, blob, so)
		}
		if err != nil {
			return errors.Join(err, hostfs.UnlinkAt(blobs, blob))
		}
		return nil
	})
}

// verifyBlob checks that what was moved is what should have been.
func verifyBlob(blobs int, blob string, so *stepObj) error {
	st, err := hostfs.StatAt(blobs, blob)
	if err != nil {
		return err
	}
	if st.ID != so.host {
		return fmt.Errorf("%w: %w", hostfs.ErrChanged, unix.ESTALE)
	}
	return nil
}

// free captures all of so, which cannot be retained, and journals that its
// inode may go. s.mu is held; it is given up while content is copied.
func (s *openStep) free(so *stepObj, o *fsbridge.Object) error {
	if err := s.addXattrs(so, o, -1); err != nil {
		s.cancel()
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	so.state |= objMeta
	if c := so.content; c != nil {
		s.mu.Unlock()
		c.mu.Lock()
		var err error
		if !c.whole {
			err = s.captureRest(so, o)
		}
		c.mu.Unlock()
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	if so.links > 1 && so.typ != unix.S_IFDIR {
		return nil // it lives on by another name, which we may not know
	}
	if err := s.start(); err != nil {
		return err
	}
	s.batch.records.Freed(so.id)
	if err := s.flush(); err != nil {
		return err
	}
	so.state |= objFreed
	s.h.retained.noteFreed(s, so.host, so.id)
	return fault.Point("freed")
}

// captureRest journals all content of so that is missing. so.content.mu is held.
func (s *openStep) captureRest(so *stepObj, o *fsbridge.Object) error {
	c := so.content
	if c.extents == nil {
		fd, err := s.openReadable(so, o)
		if err != nil {
			return err
		}
		defer hostfs.Close(fd)
		if err := s.h.contents.writer(s.w, s.dir, so.id, s.spend).whole(fd, c.size); err != nil {
			return err
		}
	} else if err := s.captureRange(c.extents.Epoch, so, o, 0, c.size); err != nil {
		return err
	}
	c.whole = true
	return nil
}
