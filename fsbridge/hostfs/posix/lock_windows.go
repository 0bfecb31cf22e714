package posix

import (
	"errors"
	"time"

	"golang.org/x/sys/windows"
)

// Where locks are. Windows keeps everybody else from what is locked, reading included. So a lock is not where the file's bytes are,
// but beyond any file's end: then it keeps out only who asks for the lock, as on Linux.
const (
	locksStart = int64(1) << 62
	flockByte  = locksStart - 1
	lastLock   = int64(1)<<62 - 1 // locks farther on count as one of this byte
)

// lockKind is what flock has given an open file.
type lockKind int

const (
	notLocked lockKind = iota
	sharedLock
	exclusiveLock
)

// Flock locks a whole file for this open file. A directory cannot be locked.
func Flock(fd, how int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := here.withFile(fd, func(u using) error {
			if u.has(O_PATH) {
				return EBADF
			}
			if u.kind == S_IFDIR {
				return EOPNOTSUPP
			}
			u.state.Lock()
			defer u.state.Unlock()
			return u.flock(how &^ LOCK_NB)
		})
		if err != EAGAIN || how&LOCK_NB != 0 {
			return err
		}
		time.Sleep(pause) // to wait in the kernel would have everybody else wait who uses the handle
	}
}

// flock changes the lock of the whole file. As on Linux, to change its kind is to give it back first. f.state is held.
func (f *file) flock(how int) error {
	want := notLocked
	switch how {
	case LOCK_SH:
		want = sharedLock
	case LOCK_EX:
		want = exclusiveLock
	case LOCK_UN:
	default:
		return EINVAL
	}
	if want == f.flocked {
		return nil
	}
	if f.flocked != notLocked {
		if err := f.unlockBytes(flockByte, 1); err != nil {
			return err
		}
		f.flocked = notLocked
	}
	if want == notLocked {
		return nil
	}
	err := f.lockBytes(flockByte, 1, want == exclusiveLock)
	if err == nil {
		f.flocked = want
	}
	return err
}

// relock takes all locks again, with a new handle. f.state is held.
func (f *file) relock() error {
	if f.flocked != notLocked {
		if err := f.lockBytes(flockByte, 1, f.flocked == exclusiveLock); err != nil {
			return err
		}
	}
	for _, s := range f.locked {
		if err := f.lock(s); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) lockBytes(at, n int64, exclusive bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(f.handle, flags, 0, uint32(n), uint32(n>>32), place(at))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return EAGAIN
	}
	return err
}

func (f *file) unlockBytes(at, n int64) error {
	return windows.UnlockFileEx(f.handle, 0, uint32(n), uint32(n>>32), place(at))
}

// lock and unlock do it with one span.
func (f *file) lock(s span) error { return f.lockBytes(s.at(), s.length(), s.exclusive) }

func (f *file) unlock(s span) error { return f.unlockBytes(s.at(), s.length()) }

func (s span) at() int64     { return locksStart + min(s.first, lastLock) }
func (s span) length() int64 { return locksStart + min(s.last, lastLock) - s.at() + 1 }

// SetLock sets a record lock of this open file (F_OFD_SETLK). Where another has it, EAGAIN says so. Windows changes no lock: one that is made
// smaller, or of another kind, is free for a moment, and who is quick has it then.
func SetLock(fd int, l Lock) error {
	return here.withLocks(fd, l, func(u using, s span) error {
		now, err := u.locked.set(u.file, s, l.Type)
		u.locked = now
		return err
	})
}

// withLocks calls f with the part of the file that a lock is about.
func (p *process) withLocks(fd int, l Lock, f func(using, span) error) error {
	return p.withFile(fd, func(u using) error {
		switch {
		case u.has(O_PATH), l.Type == F_RDLCK && !u.readable(), l.Type == F_WRLCK && !u.writable():
			return EBADF
		case l.Type != F_RDLCK && l.Type != F_WRLCK && l.Type != F_UNLCK:
			return EINVAL
		case u.kind == S_IFDIR:
			return EOPNOTSUPP
		}
		s, err := spanOf(l)
		if err != nil {
			return err
		}
		u.state.Lock()
		defer u.state.Unlock()
		return f(u, s)
	})
}

// GetLock returns a lock that is in the way of l, or one of type F_UNLCK. It is found by trying; whose it is, and how far it goes, nobody
// tells. Where this open file has a lock of its own, nothing is seen.
func GetLock(fd int, l Lock) (Lock, error) {
	found := Lock{Type: F_UNLCK, Start: l.Start, Length: l.Length}
	err := here.withLocks(fd, l, func(u using, s span) error {
		if l.Type == F_UNLCK {
			return EINVAL
		}
		for _, gap := range u.locked.gaps(s) {
			err := u.free(gap)
			if err == nil {
				continue
			}
			if err != EAGAIN {
				return err
			}
			found = Lock{Type: F_WRLCK, Start: gap.first, Length: gap.last - gap.first + 1, PID: -1}
			if gap.last == 1<<63-1 {
				found.Length = 0
			}
			if gap.exclusive && u.free(span{gap.first, gap.last, false}) == nil {
				found.Type = F_RDLCK
			}
			return nil
		}
		return nil
	})
	return found, err
}

// free tells whether s can be locked.
func (f *file) free(s span) error {
	if err := f.lock(s); err != nil {
		return err
	}
	return f.unlock(s)
}
