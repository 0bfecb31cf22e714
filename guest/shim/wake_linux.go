package shim

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// maxWakes bounds the requests to wake that are under way: what touches a file waits while the bridge
// holds a call for the same file.
const maxWakes = 16

// wake has files touched, without blocking the channel.
func (s *Server) wake(m *control.Message) {
	done := &control.Message{Type: control.TypeDone, Request: m.Request}
	if s.waking.Add(1) > maxWakes {
		s.waking.Add(-1)
		done.Error = "too many files are being touched"
		_ = s.link.Send(done) // the reader notices a broken channel
		return
	}
	go func() {
		if err := touchBelow(string(m.Cwd), m.TimeNS, m.Argv); err != nil {
			done.Error = err.Error()
		}
		s.waking.Add(-1)
		_ = s.link.Send(done) // the reader notices a broken channel
	}()
}

// touchBelow sets the modification times of files below a directory, if a bridge serves that, which then
// sets nothing. Neither links nor other mounts are followed: what the bridge does not serve is left
// alone. In place of a file that is gone its directory is touched.
func touchBelow(dir string, mtime int64, paths []control.Text) error {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil || fs.Type != unix.FUSE_SUPER_MAGIC {
		return err // something lies over it
	}
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	for _, p := range paths {
		path := filepath.Join(".", string(p))
		fd, err := unix.Openat2(root, path, how)
		if errors.Is(err, unix.ENOENT) { // it was removed, which is a change of its directory
			fd, err = unix.Openat2(root, filepath.Dir(path), how)
		}
		if errors.Is(err, unix.ENOSYS) {
			return err
		}
		if err != nil {
			continue // also its directory is gone, or something lies over it
		}
		_ = unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH) // another's file may not be touched
		_ = unix.Close(fd)
	}
	return nil
}
