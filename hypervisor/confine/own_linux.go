package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/inherit"
)

// own is a guest's own directory. It is locked as long as the supervisor lives: what is not locked was
// left by one that was killed, and is removed at the next start.
type own struct {
	path string // free of symlinks
	lock *os.File
}

const (
	ownPrefix = "sandbox-landlock-"
	// noticeDir, in the guest's own directory, is where it is told of rollbacks.
	noticeDir = ".sandbox"
)

// makeOwn makes a directory, and removes those that were left.
func makeOwn() (*own, error) {
	in, _ := inherit.TemporaryDir() // who starts us has said what is wrong with another
	in, err := filepath.EvalSymlinks(in)
	if err != nil {
		return nil, err
	}
	sweep(in)
	for {
		dir, err := os.MkdirTemp(in, ownPrefix)
		if err != nil {
			return nil, err
		}
		lock, err := lockOwn(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody swept it before it was locked
		}
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, noticeDir), 0o700)
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return &own{dir, lock}, nil
	}
}

// lockOwn locks a directory of ours. The error is [fs.ErrNotExist] if it is removed by now.
func lockOwn(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) { // somebody sweeps it
			err = fs.ErrNotExist
		}
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), f.Close())
	}
	var held, named unix.Stat_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &held), unix.Lstat(dir, &named))
	if err == nil && (held.Ino != named.Ino || held.Dev != named.Dev) {
		err = fs.ErrNotExist
	}
	if err == nil && int(held.Uid) != os.Geteuid() {
		err = fs.ErrPermission
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes what was left in a directory. What cannot be removed stays.
func sweep(in string) {
	left, err := filepath.Glob(filepath.Join(in, ownPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		if lock, err := lockOwn(dir); err == nil {
			_ = (&own{dir, lock}).remove()
		}
	}
}

// remove removes the directory. The guest may have left directories there that nobody may
// search.
func (o *own) remove() error {
	defer o.lock.Close() // at last: who sweeps must not find it half removed
	err := os.RemoveAll(o.path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(o.path))
	if err != nil {
		return err
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), filepath.Base(o.path), func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = root.Chmod(path, 0o700) //nolint:gosec // it is removed next
		}
		return nil
	})
	return os.RemoveAll(o.path)
}
