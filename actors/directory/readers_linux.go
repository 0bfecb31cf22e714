package directory

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// writable reports whether the file is open for writing.
func writable(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	mode := unix.O_RDONLY
	err = conn.Control(func(fd uintptr) {
		if have, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err == nil {
			mode = have & unix.O_ACCMODE
		}
	})
	return err == nil && mode != unix.O_RDONLY
}

// filesOfReaders lists the regular files that other processes of this user have open which have one of the pipes open, too.
func filesOfReaders(pipes []os.FileInfo) (files []os.FileInfo) {
	tasks, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		if pid, err := strconv.Atoi(t.Name()); err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", t.Name(), "fd")
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue // it is another user's, or gone
		}
		var own []os.FileInfo
		reads := false
		for _, fd := range fds {
			info, err := os.Stat(filepath.Join(dir, fd.Name()))
			switch {
			case err != nil:
			case info.Mode().IsRegular():
				own = append(own, info)
			case info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0:
				reads = reads || slices.ContainsFunc(pipes, func(p os.FileInfo) bool { return os.SameFile(p, info) })
			}
		}
		if reads {
			files = append(files, own...)
		}
	}
	return files
}
