package mediate

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How often it is looked whether somebody reads a FIFO: each time that the wait has grown by an eighth, but not more, and not less often
// than so.
const (
	fifoSoon  = time.Millisecond
	fifoLater = 40 * time.Millisecond
)

// errRestart is ERESTARTSYS of linux/errno.h: the kernel makes the call again after the signal that the caller has to
// handle, or has it fail with EINTR, as the handler wants. A caller that has none to handle would see the number.
const errRestart = syscall.Errno(512)

// openFIFO opens a FIFO of the folder for writing: the guest itself may open nothing for
// writing there. (For reading, with O_TRUNC: see [call.open]. That waits for nobody.) It is opened in the guest's view, where nothing but a FIFO can be. The
// caller may have to wait for a reader, and signals may come meanwhile.
func (c *call) openFIFO(p *place, flags int) answer {
	how := flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_TRUNC) | unix.O_NONBLOCK
	begin := time.Now()
	for {
		fd, errno := c.openView(p, how)
		if errno != syscall.ENXIO || flags&unix.O_NONBLOCK != 0 {
			if errno != 0 {
				return failed(errno)
			}
			return c.injectFIFO(p, fd, flags)
		}
		c.waits()
		time.Sleep(min(max(time.Since(begin)/8, fifoSoon), fifoLater))
		interrupted := c.interrupted()
		switch {
		case !c.valid():
			return failed(syscall.EINTR)
		case interrupted:
			return failed(errRestart)
		}
	}
}

// interrupted tells whether the caller has a signal to handle.
func (c *call) interrupted() bool {
	data, err := c.status()
	if err != nil {
		return false
	}
	pid, _ := procProcess(data)
	s, ok := procPending(data)
	return ok && s.Interrupt(pid == int(c.n.PID))
}

// openView opens the place in the guest's view, as the workload.
func (c *call) openView(p *place, flags int) (int, syscall.Errno) {
	c.identity.Workload()
	defer c.identity.Starter()
	if p.dir >= 0 {
		return rawOpenAt(p.dir, p.cName(), flags|unix.O_NOFOLLOW)
	}
	return rawOpenAt(atCwd, rawNumbered(c.small[:], "/proc/self/fd/", uint64(p.obj)), flags)
}

func (c *call) injectFIFO(p *place, fd, flags int) answer {
	var i rawInfo // a number may have been used again, for a file
	if rawLook(fd, rawEmpty, &i) != 0 || i.ID != p.is.ID || i.Type() != syscall.S_IFIFO {
		rawClose(fd)
		return failed(syscall.ESTALE)
	}
	if flags&unix.O_NONBLOCK == 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags); err != nil {
			rawClose(fd)
			return failed(syscall.EIO)
		}
	}
	return c.inject(fd, flags)
}
