package capture

import (
	"crypto/sha256"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// ahead is an object whose content was captured before anybody is known to have written
// to it ([fsbridge.Op].Ahead). Whether somebody has is seen when the step ends.
type ahead struct {
	so   *stepObj
	o    *fsbridge.Object
	stat hostfs.Stat // when it was captured
	// sum is the content's hash, nil if the times tell of every change.
	sum *[sha256.Size]byte
	// sure says that neither can tell: it counts as changed.
	sure bool
	// fd, O_PATH, is of a file without a name, which the bridge may not reach any more
	// when nobody has it open; else -1.
	fd int
}

const (
	// maxSum is the largest file, in bytes, that is hashed.
	maxSum = 8 << 20
	// tick is how long two changes of a file may have the same time.
	tick = 20 * time.Millisecond
)

// foresee captures all of o, to which somebody may write from now on. A standing one
// may be mapped, with pages that are changed without a trace.
func (s *Step) foresee(epoch uint64, op *fsbridge.Op) error {
	off, length := destroyed(op)
	o := op.Node
	so, err := s.recordMeta(o, true)
	if err != nil {
		return err
	}
	if so != nil {
		if err := s.expect(so, o, op.Standing); err != nil {
			return err
		}
	}
	return s.captureObject(epoch, so, o, off, length, true)
}

// expect notes what so is like, unless that was done or does not matter any more.
func (s *Step) expect(so *stepObj, o *fsbridge.Object, standing bool) error {
	s.mu.Lock()
	known := so.is(objAhead | objContent)
	so.state |= objAhead
	s.mu.Unlock()
	if known {
		return nil
	}
	fd, err := s.openReadable(so, o)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	a := &ahead{so: so, o: o, fd: -1}
	if a.stat, err = hostfs.StatFD(fd); err != nil {
		return err
	}
	young := s.h.Now().UnixNano()-max(a.stat.Mtime, a.stat.Ctime) < int64(tick)
	tells := hostfs.TimesTell(fd)
	switch {
	case !standing && !young && tells:
	case a.stat.Size <= maxSum:
		if a.sum, err = sumOf(fd); err != nil {
			return err
		}
	case !young && tells:
		err = hostfs.WriteBack(fd) // a page that is written to afterwards is noticed
		a.sure = err != nil
	default:
		a.sure = true
	}
	if so.parent == nil {
		if a.fd, err = s.openObject(so, o, posix.O_PATH); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aheads = append(s.aheads, a)
	return nil
}

// sumOf hashes the file behind fd.
func sumOf(fd int) (*[sha256.Size]byte, error) {
	h := sha256.New()
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := hostfs.PreadFull(fd, buf, off)
		if err != nil {
			return nil, err
		}
		_, _ = h.Write(buf[:n])
		if off += int64(n); n < len(buf) || off > maxSum {
			sum := [sha256.Size]byte(h.Sum(nil))
			return &sum, nil
		}
	}
}

// settle puts what was changed since it was captured ahead on the list of the modified
// objects. s.mu is held.
func (s *Step) settle() {
	for _, a := range s.aheads {
		switch content, meta := a.changed(s); {
		case content:
			a.so.state |= objContent
			s.list(a.so)
		case meta:
			s.list(a.so)
		}
	}
	s.forgetAheads()
}

// forgetAheads closes what is held. s.mu is held.
func (s *Step) forgetAheads() {
	for _, a := range s.aheads {
		if a.fd >= 0 {
			_ = hostfs.Close(a.fd)
		}
	}
	s.aheads = nil
}

// changed tells whether the content or the attributes are other than they were. What
// cannot be looked at is.
func (a *ahead) changed(s *Step) (content, meta bool) {
	if a.so.is(objContent) {
		return true, false
	}
	now, err := a.now(s)
	if err == nil && now.Nlink == 0 { // nobody can get it back
		return false, false
	}
	if err != nil || a.sure || now.Mtime != a.stat.Mtime || now.Size != a.stat.Size {
		return true, false
	}
	if a.sum != nil {
		if sum, err := s.sumNow(a); err != nil || *sum != *a.sum {
			return true, false
		}
	}
	same := now.Mode == a.stat.Mode && now.UID == a.stat.UID && now.GID == a.stat.GID
	return false, !same || now.Ctime != a.stat.Ctime && now.Nlink == a.stat.Nlink
}

// now describes the object.
func (a *ahead) now(s *Step) (hostfs.Stat, error) {
	if a.fd >= 0 {
		return hostfs.StatFD(a.fd)
	}
	fd, err := s.openObject(a.so, a.o, posix.O_PATH)
	if err != nil {
		return hostfs.Stat{}, err
	}
	defer hostfs.Close(fd)
	return hostfs.StatFD(fd)
}

func (s *Step) sumNow(a *ahead) (sum *[sha256.Size]byte, err error) {
	var fd int
	if a.fd >= 0 {
		fd, err = hostfs.ReopenLent(a.fd, posix.O_RDONLY, s.w.Sync)
	} else {
		fd, err = s.openReadable(a.so, a.o)
	}
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	return sumOf(fd)
}
