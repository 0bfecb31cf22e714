package past

import (
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// maxOpen bounds the directories that a view keeps open.
const maxOpen = 32

// openDirs are the directories that a view opened last: to open each file by its whole path costs as much as the path
// is deep.
type openDirs struct {
	fds  map[dirKey]int
	keys [maxOpen]dirKey
	next int
}

// dirKey is a directory in the folder or in a blob, or one of a layer's blobs.
type dirKey struct {
	of    *thing
	layer *viewLayer
	shard string
}

// keep takes fd over, and closes the one that was kept first.
func (o *openDirs) keep(k dirKey, fd int) {
	if o.fds == nil {
		o.fds = map[dirKey]int{}
	}
	if old, ok := o.fds[o.keys[o.next]]; ok {
		_ = hostfs.Close(old)
		delete(o.fds, o.keys[o.next])
	}
	o.fds[k], o.keys[o.next] = fd, k
	o.next = (o.next + 1) % maxOpen
}

func (o *openDirs) close() {
	for _, fd := range o.fds {
		_ = hostfs.Close(fd)
	}
	o.fds = nil
}

// dir is a descriptor (O_PATH) of the directory t. It is the view's, and good until the next directory is opened.
func (v *View) dir(t *thing) (int, error) {
	if t == v.top {
		return v.root.FD(), nil
	}
	k := dirKey{of: t}
	if fd, ok := v.open.fds[k]; ok {
		return fd, nil
	}
	fd, err := t.open(posix.O_PATH | posix.O_DIRECTORY)
	if err == nil {
		v.open.keep(k, fd)
	}
	return fd, err
}

// blobs is like dir for the directory that the blob of an inode is in.
func (v *View) blobs(s *inode) (int, error) {
	k := dirKey{layer: s.layer, shard: store.ShardName(s.node.Obj)}
	if fd, ok := v.open.fds[k]; ok {
		return fd, nil
	}
	fd, err := s.layer.OpenOwn(s.node)
	if err == nil {
		v.open.keep(k, fd)
	}
	return fd, err
}

// from is the nearest directory above s that is open, and the path of s there.
func (s *inode) from() (base int, path string, err error) {
	v := s.v
	var parts []string
	for base = -1; base < 0; {
		switch {
		case s.node != nil:
			parts = append(parts, store.BlobName(s.node.Obj))
			if base, err = v.blobs(s); err != nil {
				return -1, "", err
			}
		case s.dir == nil || s.dir == v.top:
			if s.dir != nil {
				parts = append(parts, s.name)
			}
			base = v.root.FD()
		default:
			parts = append(parts, s.name)
			if fd, ok := v.open.fds[dirKey{of: s.dir}]; ok {
				base = fd
				break
			}
			up, ok := s.dir.source.(*inode)
			if !ok {
				return -1, "", fmt.Errorf("%q: %w", s.name, posix.ENOENT)
			}
			s = up
		}
	}
	slices.Reverse(parts)
	return base, strings.Join(parts, "/"), nil
}
