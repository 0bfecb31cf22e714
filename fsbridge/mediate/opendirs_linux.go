package mediate

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// opendirsMost bounds the directories that are open: git alone makes its objects in 256 of them, in no order.
const opendirsMost = 320

// openDirCache has open directories of the mount for grants, O_PATH, by their inodes. It asks for no names: a file is opened in the inode that a call has found, wherever
// that is by now. (The tree's own cache, in vfs, is of the host's mount, and looks whether each directory is still where its names say.) The zero value is empty.
type openDirCache struct {
	mu   sync.RWMutex // held for reading while one is used
	open map[hostfs.ID]int
}

// Forget closes a directory, if it is open.
func (c *openDirCache) Forget(id hostfs.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

func (c *openDirCache) drop(id hostfs.ID) {
	if fd, ok := c.open[id]; ok {
		delete(c.open, id)
		_ = unix.Close(fd)
	}
}

// Add takes the descriptor fd of the directory id over.
func (c *openDirCache) Add(id hostfs.ID, fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
	for spare := range c.open {
		if len(c.open) < opendirsMost {
			break
		}
		c.drop(spare)
	}
	if c.open == nil {
		c.open = make(map[hostfs.ID]int)
	}
	c.open[id] = fd
}

// Open opens name in the directory id with flags of openat(2), or returns -1.
func (c *openDirCache) Open(id hostfs.ID, name string, flags int) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if dir, ok := c.open[id]; ok {
		if fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0); err == nil {
			return fd
		}
	}
	return -1
}

// Close closes all of them.
func (c *openDirCache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.open {
		c.drop(id)
	}
}
