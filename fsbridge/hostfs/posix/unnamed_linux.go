package posix

import (
	"os"

	"golang.org/x/sys/unix"
)

// Unnamed makes a file in the directory dir of the host, for this program alone. It has no name, if the file system can do that, or none for long, and is gone when it
// is closed.
func Unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	return nameless(dir)
}
