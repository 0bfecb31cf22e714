package mediate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// renamed bounds a rename of a directory in an overlay. What is above that fails with EXDEV, as it does without us.
var renamed = relocateLimits{Names: 100_000, Depth: 100, Bytes: 1 << 30}

// findOverlays finds the mounts of the guest's overlays. What is not there, or is no overlay, is none: its renames are the kernel's.
func (s *Server) findOverlays(g *Guest) error {
	for _, path := range g.Overlays {
		fd, err := unix.Openat2(int(g.Root.Fd()), strings.TrimPrefix(path, "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			continue
		}
		var i rawInfo
		errno := rawLook(fd, rawEmpty, &i)
		st, err := hostfs.Statfs(fd)
		rawClose(fd)
		if errno != 0 {
			err = errno
		}
		if err != nil {
			return fmt.Errorf("mediate: the overlay %s: %w", path, err)
		}
		if st.Type == unix.OVERLAYFS_SUPER_MAGIC {
			s.overlays = append(s.overlays, i.Mount)
		}
	}
	return nil
}

func (s *Server) inOverlay(p *place) bool {
	return p.folder == nil && p.dir >= 0 && slices.Contains(s.overlays, p.in.Mount)
}

// renamable reports whether we may have to rename p, the old name: what is in a folder, and a directory in an overlay. All else is
// the kernel's.
func (c *call) renamable(p *place) bool {
	if p.folder != nil {
		return !p.folder.readOnly
	}
	var i rawInfo
	return c.s.inOverlay(p) && c.look(p, &i) == 0 && i.Type() == syscall.S_IFDIR && i.Mount == p.in.Mount
}

// beyond is how the new name of a rename is resolved whose old name is p.
func (p *place) beyond() (how int) {
	if p.folder == nil {
		how = anywhere
	}
	return how
}

// renameOverlaid renames a directory in an overlay of the guest's, which the kernel does not if the host has it: see package mediate. All
// of it is done as the workload, who may do the same. On what something is mounted is left to the kernel: it knows the caller's mounts.
func (c *call) renameOverlaid(p, q *place, flags uint32) answer {
	var i rawInfo
	if !c.s.inOverlay(q) || q.in.Mount != p.in.Mount || flags&^unix.RENAME_NOREPLACE != 0 || c.look(q, &i) == 0 && i.Mount != q.in.Mount {
		return native
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	c.identity.Workload()
	defer c.identity.Starter()
	from, to := relocateEntry{Dir: p.dir, Name: p.text()}, relocateEntry{Dir: q.dir, Name: q.text()}
	err := hostfs.RenameAt(from.Dir, from.Name, to.Dir, to.Name, flags)
	if errors.Is(err, syscall.EXDEV) {
		c.waits()
		c.s.relocating.Lock() // one at a time: what runs inside could have all processors busy with it
		defer c.s.relocating.Unlock()
		err = relocateDirectory(from, to, flags != 0, renamed, c.valid)
	}
	return outcome(err)
}
