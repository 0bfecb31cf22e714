package mediate

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
)

// statfs answers statfs and fstatfs: the path is in argument at, or the descriptor dirfd is
// meant if at is negative. A folder that can be changed is not read-only, although its mount
// in the guest is. The kernel says the rest.
func (c *call) statfs(dirfd, at int) answer {
	p := &c.a
	found := false
	if at < 0 {
		found = c.object(p, dirfd, whole)
	} else {
		path, errno := c.pathArg(0, at)
		found = errno == 0 && c.resolve(p, dirfd, path, whole|follow)
	}
	if !found {
		return native
	}
	defer p.close()
	if p.missing() != 0 {
		return native
	}
	fd := p.obj
	if fd < 0 {
		fd = p.dir // the same file system: a mount would have been an object
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return outcome(err)
	}
	st.Flags &^= unix.ST_RDONLY
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	return failed(notify.Write(c.n.PID, c.arg(1), unsafe.Slice((*byte)(unsafe.Pointer(&st)), unsafe.Sizeof(st))))
}
