package mediate

import (
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxKept bounds the sockets that are kept. One more takes the place of the oldest.
const maxKept = 256

// keptSockets are copies of the sockets for TCP that we have made for the guest where its descriptors may not be copied (a container's filter has no pidfd_getfd): each until it has connected or has a
// port, since a copy keeps a connection open that the guest has closed. The zero value is ready, and methods are safe for concurrent use. mu is a leaf.
type keptSockets struct {
	mu    sync.Mutex
	known map[uint64]int // descriptors, by inodes
	order []uint64       // inodes, oldest first; some are known no more
}

// keep takes a descriptor over.
func (k *keptSockets) keep(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		rawClose(fd)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = make(map[uint64]int)
	}
	k.known[st.Ino] = fd
	k.order = append(k.order, st.Ino)
	for len(k.order) > maxKept {
		k.forget(k.order[0])
		k.order = k.order[1:]
	}
}

// forget closes a copy. The caller holds mu.
func (k *keptSockets) forget(inode uint64) {
	if fd, ok := k.known[inode]; ok {
		delete(k.known, inode)
		go rawClose(fd)
	}
}

// drop forgets the socket that fd is a copy of.
func (k *keptSockets) drop(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(st.Ino)
}

// copy returns a copy of the socket with that inode, or -1.
func (k *keptSockets) copy(inode uint64) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd, ok := k.known[inode]
	if !ok {
		return -1
	}
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return n
}

// any tells whether sockets were ever kept.
func (k *keptSockets) any() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known != nil
}

func (k *keptSockets) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for inode := range k.known {
		k.forget(inode)
	}
}

// makeSocket answers socket(2) of TCP: the filter sends no other. The caller gets the socket, and we keep a copy.
func (c *call) makeSocket() answer {
	flags := c.flag(1)
	fd, err := unix.Socket(c.fd(0), flags|unix.SOCK_CLOEXEC, c.fd(2))
	if err != nil {
		return outcome(err)
	}
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		rawClose(fd)
		return outcome(err)
	}
	a := c.inject(fd, flags) // SOCK_CLOEXEC is O_CLOEXEC
	if a.errno != 0 {
		rawClose(kept)
		return a
	}
	c.s.kept.keep(kept)
	return a
}

// keptSocket returns a copy of what is kept of the caller's descriptor, or -1.
func (c *call) keptSocket(fd int) int {
	if !c.s.kept.any() {
		return -1
	}
	if c.th == nil {
		th, errno := c.s.threads.Get(c.n.PID)
		if errno != 0 {
			return -1
		}
		c.th = th
	}
	var text [64]byte
	c.identity.Owner(true)
	n, err := unix.Readlinkat(c.th.Proc, "fd/"+strconv.Itoa(fd), text[:])
	c.identity.Owner(false)
	if err != nil {
		return -1
	}
	number, ok := strings.CutPrefix(string(text[:n]), "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	if !ok || err != nil {
		return -1
	}
	return c.s.kept.copy(inode)
}
