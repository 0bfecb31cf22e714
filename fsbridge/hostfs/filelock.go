package hostfs

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// ErrLocked says that somebody else has the lock of a file.
var ErrLocked = errors.New("in use by another process")

// FileLock is the lock of a file, which keeps out whoever asks for it, and nobody else: the file can be read, written, replaced and removed. It is
// given up by Close, and when the process has ended, however it did.
type FileLock struct {
	fd    int
	close func() error
}

// LockFile locks the file for this process alone, and makes it, private to its user, where there is none. If another has it, also in this process,
// LockFile waits if wait is set; else the error wraps [ErrLocked]. A symlink is an error, and so is what is no regular file. Whoever removes lock
// files asks [FileLock.Is] whether he has locked the one that is there.
func LockFile(path string, wait bool) (*FileLock, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = posix.Open(path, posix.O_RDWR|posix.O_CREAT|posix.O_NOFOLLOW|posix.O_NONBLOCK|posix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, pathErr("lock", path, err)
	}
	st, err := StatFD(fd)
	if err == nil && st.Type() != posix.S_IFREG {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		err = flock(fd, posix.LOCK_EX, wait)
	}
	if err != nil {
		return nil, errors.Join(pathErr("lock", path, err), Close(fd))
	}
	return &FileLock{fd, sync.OnceValue(func() error { return Close(fd) })}, nil
}

// Locked reports whether somebody has the lock of the file, which is not waited for. While it looks, nobody can take the lock: who takes one that others look at waits for it.
func Locked(path string) (bool, error) {
	fd, err := posix.Open(path, posix.O_RDONLY|posix.O_NOFOLLOW|posix.O_NONBLOCK|posix.O_CLOEXEC, 0)
	if err != nil {
		return false, pathErr("open", path, err)
	}
	defer func() { _ = Close(fd) }()
	err = flock(fd, posix.LOCK_SH, false)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	return false, pathErr("lock", path, err)
}

// flock takes a lock of that kind.
func flock(fd, kind int, wait bool) error {
	if !wait {
		kind |= posix.LOCK_NB
	}
	err := retry(func() error { return posix.Flock(fd, kind) })
	if errors.Is(err, posix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// Stat describes the locked file.
func (l *FileLock) Stat() (Stat, error) { return StatFD(l.fd) }

// Is reports whether the file at path is the one that is locked, and not one that has taken its place, or a symlink.
func (l *FileLock) Is(path string) (bool, error) {
	held, err := l.Stat()
	if err != nil {
		return false, err
	}
	dir, err := OpenRoot(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	named, err := StatAt(dir.FD(), filepath.Base(path))
	if errors.Is(err, posix.ENOENT) {
		return false, nil
	}
	return err == nil && named.ID == held.ID, err
}

// Write makes text the file's content, with mode 0600.
func (l *FileLock) Write(text []byte) error {
	return errors.Join(ChmodFD(l.fd, 0o600), pathErr("truncate", "", posix.Ftruncate(l.fd, 0)), PwriteFull(l.fd, text, 0))
}

// Close gives the lock up. It may be called again, by any goroutine, and then returns the same.
func (l *FileLock) Close() error { return l.close() }
