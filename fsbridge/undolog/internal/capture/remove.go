package capture

import (
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// remove journals and performs the removal of so, a pre-existing object that
// is not in the log yet: it is renamed into blobs/, or linked there if it is
// the victim of a rename. Where that cannot be it is captured completely and
// left for the bridge to remove. s.mu is held.
//
// overlayfs without index gives a file of a lower layer with several names another number with each of them that is renamed or linked. Such a
// file is captured, too: who looked for it by its number would not know it in blobs/.
func (s *Step) remove(op *fsbridge.Op, so *stepObj) (performed bool, err error) {
	dirfd, name, obj, st := op.DirFD, op.Name, op.Node, &op.NodeStat
	if op.Kind == fsbridge.OpRename {
		dirfd, name, obj, st = op.NewDirFD, op.NewName, op.Victim, &op.VictimStat
	}
	isDir := so.typ == posix.S_IFDIR
	free := s.h.noAdopt.has(so.host.Dev) || (isDir && op.Kind == fsbridge.OpRename)
	check := -1
	if isDir { // what is freed is taken to have been empty
		check, err = s.openEmpty(dirfd, name, so.host)
		switch {
		case err == nil:
			defer hostfs.Close(check)
		case !free || errors.Is(err, posix.ENOTEMPTY):
			s.cancel()
			return false, err
		}
	}
	if free {
		return false, s.free(so, obj, -1)
	}
	via := -1 // the inode that the name binds, when it may have several
	if !isDir && (st.Ino == 0 || st.Nlink > 1) {
		if via, err = hostfs.OpenVerified(dirfd, name, so.host, posix.O_PATH); err != nil {
			s.cancel()
			return false, err
		}
		defer hostfs.Close(via)
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
		err = s.h.Links.Change(so.host, 1, func() error { return s.linkIn(dirfd, name, so, via) })
	} else if isDir || st.Ino != 0 && st.Nlink < 2 {
		err = s.moveIn(dirfd, name, so, via, check)
	} else {
		err = s.h.Links.Change(so.host, 1, func() error { return s.moveIn(dirfd, name, so, via, check) })
	}
	switch {
	case err == nil:
		so.state |= objRetained
		s.h.Retained.NoteHandles(obj)
		return op.Kind != fsbridge.OpRename, nil
	case errors.Is(err, posix.EXDEV):
		s.h.noAdopt.add(so.host.Dev)
	case errors.Is(err, posix.EMLINK):
	case errors.Is(err, errRenumbered):
		return false, s.free(so, obj, via)
	case isDir && errors.Is(err, posix.EACCES), isDir && errors.Is(err, posix.EPERM): // ".." cannot be rewritten
	case op.Kind == fsbridge.OpRename && errors.Is(err, posix.EPERM): // fs.protected_hardlinks
	default:
		return false, err
	}
	return false, s.free(so, obj, -1)
}

// errRenumbered says that a rename or link has given an inode another number.
var errRenumbered = errors.New("the file system has given the file another number")

// openEmpty opens the directory name below dirfd for reading and returns
// ENOTEMPTY unless it is the inode id and empty.
func (s *Step) openEmpty(dirfd int, name string, id hostfs.ID) (int, error) {
	const flags = posix.O_RDONLY | posix.O_DIRECTORY
	fd, err := hostfs.OpenVerified(dirfd, name, id, flags|posix.O_NOATIME)
	if errors.Is(err, posix.EPERM) { // O_NOATIME is the owner's
		fd, err = hostfs.OpenVerified(dirfd, name, id, flags)
	}
	if errors.Is(err, posix.EACCES) {
		var path int
		if path, err = hostfs.OpenVerified(dirfd, name, id, posix.O_PATH|posix.O_DIRECTORY); err == nil {
			fd, err = hostfs.ReopenLent(path, flags, s.journaled)
			_ = hostfs.Close(path)
		}
	}
	if err != nil {
		return -1, err
	}
	return fd, checkEmpty(fd)
}

func checkEmpty(fd int) error {
	empty, err := hostfs.IsEmptyDir(fd)
	if err == nil && !empty {
		err = posix.ENOTEMPTY
	}
	if err != nil {
		_ = hostfs.Close(fd)
	}
	return err
}

// moveIn renames name below dirfd into blobs/. check is a descriptor of a
// directory whose emptiness must still hold afterwards, or -1, and via see verifyBlob.
func (s *Step) moveIn(dirfd int, name string, so *stepObj, via, check int) error {
	return s.dir.WithBlobDir(so.id, true, func(blobs int) error {
		blob := store.BlobName(so.id)
		if err := fault.Point("retain.before"); err != nil {
			return err
		}
		if err := hostfs.RenameNew(dirfd, name, blobs, blob); err != nil {
			return err
		}
		err := fault.Point("retain.after")
		if err == nil {
			err = s.verifyBlob(blobs, blob, so, via)
		}
		if err == nil && check >= 0 {
			var empty bool
			if empty, err = hostfs.IsEmptyDir(check); err == nil && !empty {
				err = posix.ENOTEMPTY
			}
		}
		if err != nil {
			return errors.Join(err, hostfs.RenameNew(blobs, blob, dirfd, name))
		}
		return nil
	})
}

// linkIn links name below dirfd into blobs/, before the bridge replaces it.
func (s *Step) linkIn(dirfd int, name string, so *stepObj, via int) error {
	return s.dir.WithBlobDir(so.id, true, func(blobs int) error {
		blob := store.BlobName(so.id)
		if err := fault.Point("retain.before"); err != nil {
			return err
		}
		if err := hostfs.LinkAt(dirfd, name, blobs, blob); err != nil {
			return err
		}
		err := fault.Point("retain.after")
		if err == nil {
			err = s.verifyBlob(blobs, blob, so, via)
		}
		if err != nil {
			return errors.Join(err, hostfs.UnlinkAt(blobs, blob))
		}
		return nil
	})
}

// verifyBlob checks that what was moved is what should have been, and counts what it occupies. via is a descriptor of what should have been, or -1.
func (s *Step) verifyBlob(blobs int, blob string, so *stepObj, via int) error {
	st, err := hostfs.StatAt(blobs, blob)
	if err != nil {
		return err
	}
	if st.ID != so.host {
		if now, err := hostfs.StatFD(via); via >= 0 && err == nil && now.ID == st.ID {
			return errRenumbered
		}
		return fmt.Errorf("%w: %w", hostfs.ErrChanged, posix.ESTALE)
	}
	s.dir.Keep(&st)
	return nil
}

// free captures all of so, which cannot be retained, and journals that its
// inode may go. via is a descriptor of it, with O_PATH, or -1. s.mu is held; it is given up while content is copied.
func (s *Step) free(so *stepObj, o *fsbridge.Object, via int) error {
	if err := s.addXattrs(so, o, via); err != nil {
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
			err = s.orLose(so, o, s.captureRest(so, o, via))
		}
		c.mu.Unlock()
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	if so.links > 1 && so.typ != posix.S_IFDIR {
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
	s.h.Retained.noteFreed(s, so.host, so.id)
	return fault.Point("freed")
}

// captureRest journals all content of so that is missing. via is as for free. so.content.mu is held.
func (s *Step) captureRest(so *stepObj, o *fsbridge.Object, via int) error {
	c := so.content
	if c.extents == nil {
		var fd int
		var err error
		if via >= 0 {
			fd, err = hostfs.ReopenLent(via, posix.O_RDONLY, s.w.Sync)
		} else {
			fd, err = s.openReadable(so, o)
		}
		if err != nil {
			return err
		}
		defer hostfs.Close(fd)
		if err := s.h.Contents.Writer(s.w, s.dir, so.id, s.spend).Whole(fd, c.size); err != nil {
			return err
		}
	} else if err := s.captureRange(c.extents.Epoch, so, o, 0, c.size, false); err != nil {
		return err
	}
	c.whole = true
	return nil
}
