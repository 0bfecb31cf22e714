package past

import (
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// dirKey is a directory in the folder or in a blob, or one of a layer's blobs.
type dirKey struct {
	of    *thing
	layer *viewLayer
	shard string
}

// opened is the descriptor of a directory that the view keeps open, or has opened now: to open each file by its whole path costs as much as the path is deep. It is
// the view's, and good until the next directory is opened.
func (v *View) opened(k dirKey, open func() (int, error)) (fd int, err error) {
	if fd = v.open.Get(k); fd < 0 {
		if fd, err = open(); err != nil {
			return -1, err
		}
		v.open.Add(k, fd)
	}
	v.open.Put(k)
	return fd, nil
}

// dir is a descriptor (O_PATH) of the directory t, as opened has it.
func (v *View) dir(t *thing) (int, error) {
	if t == v.top {
		return v.root.FD(), nil
	}
	return v.opened(dirKey{of: t}, func() (int, error) { return t.open(posix.O_PATH | posix.O_DIRECTORY) })
}

// blobs is like dir for the directory that the blob of an inode is in.
func (v *View) blobs(s *inode) (int, error) {
	k := dirKey{layer: s.layer, shard: store.ShardName(s.node.Obj)}
	return v.opened(k, func() (int, error) { return s.layer.OpenOwn(s.node) })
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
			if base = v.open.Get(dirKey{of: s.dir}); base >= 0 {
				v.open.Put(dirKey{of: s.dir})
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
