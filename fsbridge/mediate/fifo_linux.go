package mediate

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/rawfs"
)

// How often it is looked whether somebody reads a FIFO: at first, and later.
const (
	fifoSoon  = time.Millisecond
	fifoLater = 20 * time.Millisecond
)

// openFIFO opens a FIFO of the folder for writing: the guest itself may open nothing for
// writing there. It is opened in the guest's view, where nothing but a FIFO can be. The
// caller may have to wait for a reader, and may be killed meanwhile. The overseer lets
// others be answered then.
func (c *call) openFIFO(p *place, flags int) answer {
	how := flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_TRUNC) | unix.O_NONBLOCK
	for wait := fifoSoon; ; wait = min(2*wait, fifoLater) {
		fd, errno := c.openView(p, how)
		if errno != syscall.ENXIO || flags&unix.O_NONBLOCK != 0 {
			if errno != 0 {
				return failed(errno)
			}
			return c.injectFIFO(p, fd, flags)
		}
		time.Sleep(wait)
		if !c.valid() {
			return failed(syscall.EINTR)
		}
	}
}

// openView opens the place in the guest's view, as the workload.
func (c *call) openView(p *place, flags int) (int, syscall.Errno) {
	c.identity.Workload()
	defer c.identity.Starter()
	if p.dir >= 0 {
		return rawfs.OpenAt(p.dir, p.cName(), flags|unix.O_NOFOLLOW)
	}
	return rawfs.OpenAt(atCwd, rawfs.Numbered(c.small[:], "/proc/self/fd/", uint64(p.obj)), flags)
}

func (c *call) injectFIFO(p *place, fd, flags int) answer {
	var i rawfs.Info // a number may have been used again, for a file
	if rawfs.Look(fd, rawfs.Empty, &i) != 0 || i.ID != p.is.ID || i.Type() != syscall.S_IFIFO {
		rawfs.Close(fd)
		return failed(syscall.ESTALE)
	}
	if flags&unix.O_NONBLOCK == 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags); err != nil {
			rawfs.Close(fd)
			return failed(syscall.EIO)
		}
	}
	return c.inject(fd, flags)
}
