package mediate

import (
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// namelessDir opens the file fd once more, on another mount of its file system: by its handle, so it
// need not have a name. It takes CAP_DAC_READ_SEARCH. It returns -1 where that cannot be done.
func namelessDir(mount, fd, flags int) int {
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return -1
	}
	top, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // not O_PATH
	if err != nil {
		return -1
	}
	again, err := unix.OpenByHandleAt(top, h, flags|unix.O_CLOEXEC)
	_ = hostfs.Close(top)
	if err != nil {
		return -1
	}
	want, err := hostfs.StatFD(fd)
	if now, nerr := hostfs.StatFD(again); err != nil || nerr != nil || now.ID != want.ID {
		_ = hostfs.Close(again)
		return -1
	}
	return again
}
