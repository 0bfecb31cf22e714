package fuse

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// apart runs work on a thread that has a table of descriptors of its own, and in it a device of its own for
// the connection (FUSE_DEV_IOC_CLONE).
//
// A notification about a name waits, in a way that no signal ends, for the lock of the directory, which an
// operation there has until we answer it. If we are killed then, the thread that waits lives on, and with it
// whatever is open in its table. Were the device of the requests in it, nobody would ever end them, and the
// operation, the thread, the mount and the locks of the log would be stuck for good. So it is not: the
// kernel closes that device with our other threads, which ends the requests that were read from it; the
// operation fails and gives up the lock; the thread goes on, and dies.
//
// If there is no second device to be had (the first was opened in another namespace of users, on some
// kernels), work gets the first.
func (s *Server) apart(work func(fd int)) {
	runtime.LockOSThread() // for good: the thread ends with its goroutine
	if unix.Gettid() == unix.Getpid() {
		s.offMain(work)
		return
	}
	fd := -1 // where the server is closed
	if conn, err := s.dev.SyscallConn(); err == nil {
		_ = conn.Control(func(dev uintptr) { fd = s.ownTable(int(dev)) })
	}
	work(fd)
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// offMain is apart on the main thread, which must have the table of all others: it is what /proc/self
// leads to. Another thread does it while this one waits.
func (s *Server) offMain(work func(fd int)) {
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.apart(work)
	}()
	<-done
}

// ownTable gives the thread its table, and returns the device in it. The runtime may poll on any thread: what
// it polls with stays.
func (s *Server) ownTable(dev int) int {
	keep, err := polling()
	if err == nil {
		err = unix.Unshare(unix.CLONE_FILES)
	}
	if err != nil {
		s.log.Warn("notifications have no table of descriptors of their own", "err", err)
		if dev, err = unix.FcntlInt(uintptr(dev), unix.F_DUPFD_CLOEXEC, 4); err != nil {
			return -1
		}
		return dev
	}
	own, err := cloned(dev)
	if err != nil {
		s.log.Debug("notifications have no device of their own", "err", err)
		own = dev
	}
	closeOthers(append(keep, 0, 1, 2, own))
	return own
}

// cloned opens a second device for the connection of dev.
func cloned(dev int) (int, error) {
	own, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	const devIocClone = 0x8004e500 // FUSE_DEV_IOC_CLONE: _IOR(229, 0, uint32_t)
	old := uint32(dev)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(own), devIocClone, uintptr(unsafe.Pointer(&old))); errno != 0 {
		_ = unix.Close(own)
		return -1, fmt.Errorf("clone /dev/fuse: %w", errno)
	}
	return own, nil
}

// polling are the descriptors with which the runtime waits for others.
func polling() (fds []int, err error) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		target, err := os.Readlink("/proc/self/fd/" + name.Name())
		if err != nil || !strings.HasPrefix(target, "anon_inode:[event") { // eventpoll and eventfd
			continue
		}
		fd, err := strconv.Atoi(name.Name())
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// closeOthers closes all descriptors of the thread's table but keep.
func closeOthers(keep []int) {
	slices.Sort(keep)
	next := uint(0)
	for _, fd := range keep {
		if uint(fd) > next {
			_ = unix.CloseRange(next, uint(fd)-1, 0)
		}
		next = uint(fd) + 1
	}
	_ = unix.CloseRange(next, ^uint(0)>>32, 0)
}
