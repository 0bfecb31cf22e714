package mcp

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile opens the token's file for this process alone: another server has it locked, and is told. What is locked lies beyond the token, since others
// cannot read what is locked.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: 1 << 20})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = errors.New("in use by another process")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// release lets others have the token's file, and removes it unless somebody has: then it cannot be removed.
func (l *Socket) release() {
	_ = l.lock.Close()
	_ = l.server.o.Remove(TokenFile(l.path))
}
