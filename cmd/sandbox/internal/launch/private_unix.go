//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// private makes sure that nobody else can put anything into dir, and that nobody has. If
// somebody has opened the mode of dir, that is put back, and opened is what it was. Only
// a directory of this user is changed, and no link is followed.
func private(dir string) (opened fs.FileMode, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	if err != nil {
		return 0, notPrivate(dir)
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	if int(st.Uid) != os.Getuid() {
		return 0, notPrivate(dir)
	}
	if st.Mode&0o077 != 0 {
		opened = fs.FileMode(st.Mode & 0o777)
		if err := f.Chmod(0o700); err != nil {
			return 0, fmt.Errorf("%w: its mode is %#o, and that cannot be put back: %w", notPrivate(dir), opened, err)
		}
	}
	return opened, allOurs(f)
}

func notPrivate(dir string) error {
	return fmt.Errorf("%s is not a private directory of this user; remove it or set XDG_RUNTIME_DIR", dir)
}

// allOurs fails if there is something of another user in dir: it was put there while the
// mode let them, and will stay when the mode does not any more.
func allOurs(dir *os.File) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("%s: %w", dir.Name(), err)
	}
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && int(st.Uid) != os.Getuid() {
			return fmt.Errorf("%s belongs to another user (%d), who could answer for a session with it; remove it",
				filepath.Join(dir.Name(), name), st.Uid)
		}
	}
	return nil
}
