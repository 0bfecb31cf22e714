package capture

import (
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// captureMeta journals the attributes of o.
func (s *Step) captureMeta(epoch uint64, o *fsbridge.Object) error {
	so, err := s.recordMeta(o, false)
	if err != nil {
		return err
	}
	if err := s.w.Sync(); err != nil {
		return err
	}
	if so == nil {
		o.Protect(epoch, fsbridge.ProtCreated)
	} else {
		o.Protect(epoch, fsbridge.ProtMeta)
	}
	return nil
}

// recordMeta journals o and its attributes. It returns nil for an object that
// the step created. ahead says that nothing is changed yet.
func (s *Step) recordMeta(o *fsbridge.Object, ahead bool) (*stepObj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := s.start
	if ahead {
		begin = s.startBatch
	}
	if err := begin(); err != nil {
		return nil, err
	}
	so, err := s.object(o, hostfs.Stat{})
	if err == nil && !so.is(objCreated) {
		err = s.addXattrs(so, o, -1)
	}
	if err != nil {
		s.cancel()
		return nil, err
	}
	if err := s.flush(); err != nil || so.is(objCreated) {
		return nil, err
	}
	so.state |= objMeta
	if !ahead {
		s.list(so)
	}
	return so, nil
}

// list puts so on the list of modified objects.
func (s *Step) list(so *stepObj) {
	if !so.is(objListed) {
		so.state |= objListed
		s.modified = append(s.modified, so)
	}
}

// addXattrs adds so's xattrs record to the batch unless it is in the journal.
// fd is a descriptor of the inode or -1. s.mu is held.
func (s *Step) addXattrs(so *stepObj, o *fsbridge.Object, fd int) error {
	if so.is(objMeta) {
		return nil
	}
	if fd < 0 {
		var err error
		if fd, err = s.openObject(so, o, posix.O_PATH); err != nil {
			return err
		}
		defer hostfs.Close(fd)
	}
	xs, err := s.xattrsOf(fd, so.typ)
	if err != nil {
		return err
	}
	s.batch.records.Xattrs(so.id, xs)
	return nil
}

func (s *Step) xattrsOf(fd int, typ uint32) ([]hostfs.Xattr, error) {
	if typ == posix.S_IFLNK { // none that we could set back
		return nil, nil
	}
	xs, err := unlent(func() ([]hostfs.Xattr, error) { return hostfs.AttributesFD(fd, typ, s.journaled) }) // its mode
	if err != nil {
		return nil, err
	}
	total := 0
	for _, x := range xs {
		total += len(x.Name) + len(x.Value) + 16
	}
	if total > format.MaxRecord/2 {
		return nil, fmt.Errorf("extended attributes of %d bytes: %w", total, posix.E2BIG)
	}
	return xs, nil
}

// unlent calls read with root's own rights: a thread that serves a workload has given up those by which a list of attributes is
// whole (layer.HeldBack), and has its goroutine to itself. Others have none to lose.
func unlent(read func() ([]hostfs.Xattr, error)) (list []hostfs.Xattr, err error) {
	if posix.Geteuid() != 0 {
		return read()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		list, err = read()
	}()
	<-done
	return list, err
}

// openObject opens the inode of so, which the bridge knows as o. A retained
// inode that the bridge cannot reach any more is opened in blobs/.
func (s *Step) openObject(so *stepObj, o *fsbridge.Object, flags int) (int, error) {
	fd, err := o.Place.Open(flags)
	if err == nil || !so.is(objRetained) || errors.Is(err, posix.EACCES) {
		return fd, err
	}
	berr := s.dir.WithBlobDir(so.id, false, func(dir int) (err error) {
		fd, err = hostfs.OpenVerified(dir, store.BlobName(so.id), so.host, flags)
		return err
	})
	if berr != nil {
		return -1, err
	}
	return fd, nil
}

// openReadable opens so for reading. Where our own file denies it to us, it
// makes it readable for that moment.
func (s *Step) openReadable(so *stepObj, o *fsbridge.Object) (int, error) {
	fd, err := s.openObject(so, o, posix.O_RDONLY)
	if !errors.Is(err, posix.EACCES) {
		return fd, err
	}
	path, perr := s.openObject(so, o, posix.O_PATH)
	if perr != nil {
		return -1, perr
	}
	defer hostfs.Close(path)
	return hostfs.ReopenLent(path, posix.O_RDONLY, s.w.Sync) // its mode is in the journal
}
