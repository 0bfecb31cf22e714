//go:build unix

package mcp

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile opens or makes a private file that no other process has locked.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = claim(f, st, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func claim(f *os.File, st os.FileInfo, path string) error {
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.Mode().IsRegular() || int(sys.Uid) != os.Geteuid() {
		return errors.New(path + " is there and is no file of ours")
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("in use by another process")
		}
		return err
	}
	// Its last owner may have removed it in between.
	if now, err := os.Lstat(path); err != nil || !os.SameFile(st, now) {
		return errors.New("in use by another process until now: try again")
	}
	return nil
}

// release removes the token's file, and then lets others have it.
func (l *Socket) release() {
	_ = l.server.o.Remove(TokenFile(l.path))
	_ = l.lock.Close()
}
