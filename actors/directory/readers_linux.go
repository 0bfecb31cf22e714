package directory

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
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

// FilesOfReaders lists the regular files that other processes of this user have open which have one of the pipes open, too.
func FilesOfReaders(pipes []api.FileID) (files []api.FileID) {
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
		var own []api.FileID
		reads := false
		for _, fd := range fds {
			info, err := os.Stat(filepath.Join(dir, fd.Name()))
			switch {
			case err != nil:
			case info.Mode().IsRegular():
				own = append(own, fileID(info))
			case info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0:
				reads = reads || slices.Contains(pipes, fileID(info))
			}
		}
		if reads {
			files = append(files, own...)
		}
	}
	return files
}

func fileID(info os.FileInfo) (id api.FileID) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id = api.FileID{Device: st.Dev, Inode: st.Ino}
	}
	return id
}
