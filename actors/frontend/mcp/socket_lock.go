package mcp

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// lockToken locks the token's file, which no other process has locked, and makes it if it is missing.
func lockToken(path string) (*hostfs.FileLock, error) {
	lock, err := hostfs.LockFile(path, false)
	if err != nil {
		return nil, err
	}
	st, err := lock.Stat()
	if err == nil && int(st.UID) != posix.Geteuid() {
		err = errors.New(path + " is there and is no file of ours")
	}
	named := false
	if err == nil {
		named, err = lock.Is(path)
	}
	if err == nil && !named { // its last owner has removed it in between
		err = errors.New("in use by another process until now: try again")
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}
