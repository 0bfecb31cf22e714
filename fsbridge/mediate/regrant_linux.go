package mediate

import (
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// instead opens name in the directory dir, whose inode is in, on the folder's mount for grants. Whoever
// calls it has looked whether the workload may. It is nil where there is no such mount, and for what is only
// emptied: that takes the host's.
func (c *call) instead(f *Folder, dir uint64, in hostfs.ID, name string, flags int) func(flags int) int {
	if f.grants == nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil
	}
	return func(flags int) int {
		return c.identity.Raised(1<<unix.CAP_DAC_OVERRIDE, func() int { return f.openGrant(dir, in, name, flags) })
	}
}

// regrant opens the granted file again on the folder's mount for grants, and closes g.FD. It
// is name in the directory dir, whose inode is in. The rights were checked when it was opened, and
// a new file need not have any. If the file was moved in the meantime, g.FD will do.
func (c *call) regrant(f *Folder, g vfs.Granted, dir uint64, in hostfs.ID, name string, flags int) int {
	how := flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_TRUNC|unix.O_CLOEXEC) | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd := c.instead(f, dir, in, name, flags)(how)
	if fd < 0 {
		return g.FD
	}
	now, errno := rawIDOf(fd)
	var err error
	if errno == 0 && now == g.ID && flags&unix.O_NONBLOCK == 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	}
	if errno != 0 || now != g.ID || err != nil {
		rawClose(fd)
		return g.FD
	}
	rawClose(g.FD)
	return fd
}

// regrantNameless is regrant for a file that has no name yet: by its handle, where the file system has
// them and we may use them.
func (c *call) regrantNameless(f *Folder, g vfs.Granted, flags int) int {
	fd := c.identity.Raised(1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_DAC_READ_SEARCH, func() int {
		return namelessDir(int(f.grants.Fd()), g.FD, flags&^(unix.O_TMPFILE|unix.O_EXCL))
	})
	if fd < 0 {
		return g.FD
	}
	rawClose(g.FD)
	return fd
}

// openGrant opens name in a directory of the mount for grants, or returns -1.
func (f *Folder) openGrant(dir uint64, in hostfs.ID, name string, flags int) int {
	if in == f.rootID {
		fd, err := unix.Openat(int(f.grants.Fd()), name, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1
		}
		return fd
	}
	if fd := f.dirs.Open(in, name, flags); fd >= 0 {
		return fd
	}
	path, ok := "", false
	if f.tree.In(dir, func(fd int) error { path, ok = f.pathOf(fd); return nil }) != nil || !ok {
		return -1
	}
	top, err := unix.Openat2(int(f.grants.Fd()), path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return -1
	}
	if now, errno := rawIDOf(top); errno != 0 || now != in {
		rawClose(top)
		return -1
	}
	f.dirs.Add(in, top)
	return f.dirs.Open(in, name, flags)
}
