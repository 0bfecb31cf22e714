package fuseproto

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/vfs"
)

func lockOf(l *fuse.FileLock) vfs.FileLock {
	return vfs.FileLock{Type: int16(l.Typ), Start: l.Start, End: l.End, PID: l.Pid}
}

// GetLk answers GETLK.
func (f *FileSystem) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	if !f.locks {
		return fuse.ENOSYS
	}
	found, err := f.tree.TestLock(request(cancel, &in.InHeader), in.NodeId, in.Fh, in.Owner, lockOf(&in.Lk))
	out.Lk = fuse.FileLock{Typ: uint32(found.Type), Start: found.Start, End: found.End, Pid: found.PID}
	return status(err)
}

// SetLk answers SETLK, for flock(2), too.
func (f *FileSystem) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return f.setLock(cancel, in, false)
}

// SetLkw answers SETLKW. The kernel starts a lock again that was interrupted by a signal
// with SA_RESTART.
func (f *FileSystem) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return f.setLock(cancel, in, true)
}

func (f *FileSystem) setLock(cancel <-chan struct{}, in *fuse.LkIn, wait bool) fuse.Status {
	if !f.locks {
		return fuse.ENOSYS
	}
	r, l := request(cancel, &in.InHeader), lockOf(&in.Lk)
	if in.LkFlags&fuse.LK_FLOCK == 0 {
		switch l.Type {
		case unix.F_RDLCK, unix.F_WRLCK, unix.F_UNLCK:
			return status(f.tree.SetLock(r, in.NodeId, in.Fh, in.Owner, l, wait))
		}
		return fuse.EINVAL
	}
	how, known := map[int16]int{unix.F_RDLCK: syscall.LOCK_SH, unix.F_WRLCK: syscall.LOCK_EX, unix.F_UNLCK: syscall.LOCK_UN}[l.Type]
	if !known {
		return fuse.EINVAL
	}
	return status(f.tree.Flock(r, in.NodeId, in.Fh, how, wait))
}
