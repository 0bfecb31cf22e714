package direct

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuse"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/hypervisor/none"
)

// Mounted is a tree on a mount of its own.
type Mounted struct {
	*fuse.Server
	point   string
	closing sync.Once
	err     error
}

// Mount mounts a tree at point, an existing directory, and serves it.
func Mount(point string, o vfs.Options) (*Mounted, error) {
	dev, err := none.Mount(point, false)
	if err != nil {
		return nil, err
	}
	s, err := fuse.ServeFile(dev, o, nil)
	if err != nil {
		none.Unmount(point)
		return nil, err
	}
	return &Mounted{Server: s, point: point}, nil
}

// Close detaches the mount and ends the server. As root the connection is aborted, too:
// whoever waits in it is let go.
func (m *Mounted) Close() error {
	m.closing.Do(func() {
		if os.Geteuid() == 0 {
			m.err = unix.Unmount(m.point, unix.MNT_FORCE|unix.MNT_DETACH)
		} else {
			none.Unmount(m.point)
		}
		m.err = errors.Join(m.err, m.Server.Close())
	})
	return m.err
}
