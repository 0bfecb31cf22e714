package fuse

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// OpenDir answers OPENDIR with "never ask again": listing needs no handle, and
// opendir then costs no request at all.
func (t *Tree) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	t.counts[OpOpendir].Add(1)
	return fuse.ENOSYS
}

// ReleaseDir exists for the interface: there are no directory handles.
func (t *Tree) ReleaseDir(in *fuse.ReleaseIn) {}

// FsyncDir answers FSYNCDIR.
func (t *Tree) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	code := t.begin(OpFsyncdir)
	defer t.end()
	if !code.Ok() {
		return code
	}
	n, err := t.dir(in.NodeId)
	if err != nil {
		return status(err)
	}
	fd, _, err := t.openDir(n, unix.O_RDONLY)
	if err != nil {
		return status(err)
	}
	defer hostfs.Close(fd)
	return status(unix.Fsync(fd))
}

// ReadDir answers READDIR. The offset is the host's position in the directory.
func (t *Tree) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	code := t.begin(OpReaddir)
	defer t.end()
	if !code.Ok() {
		return code
	}
	return status(t.list(in, int(in.Size), func(dir *node, d *dirFD, e hostfs.Dirent) bool {
		de := t.dirEntry(e)
		if t.opts.Posix != nil && de.Mode == syscall.S_IFREG {
			if st, err := t.look(d, e.Name); err == nil {
				de.Mode = t.show(t.known(&st, dir, e.Name), &st).Mode & syscall.S_IFMT
			}
		}
		return out.AddDirEntry(de)
	}))
}

// direntsPerPlus is how much smaller the host's entry is than READDIRPLUS's.
const direntsPerPlus = 4

// ReadDirPlus answers READDIRPLUS: each entry with a lookup.
func (t *Tree) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	code := t.begin(OpReaddirplus)
	defer t.end()
	if !code.Ok() {
		return code
	}
	return status(t.list(in, int(in.Size)/direntsPerPlus, func(dir *node, d *dirFD, e hostfs.Dirent) bool {
		eo := out.AddDirLookupEntry(t.dirEntry(e))
		if eo == nil {
			return false
		}
		if e.Name == "." || e.Name == ".." {
			return true
		}
		// An entry that is gone or cannot be described goes without.
		if st, err := t.look(d, e.Name); err == nil {
			t.entry(t.lookup(&st, dir, e.Name, false), &st, t.ttlIn(dir), eo)
			out.FixMode(eo.Mode)
		}
		return true
	}))
}

func (t *Tree) dirEntry(e hostfs.Dirent) fuse.DirEntry {
	return fuse.DirEntry{Name: e.Name, Ino: e.Ino, Off: uint64(e.Off), Mode: uint32(e.Type) << 12}
}

// list reads host entries from in.Offset on, about size bytes of them or more
// until one was added, and calls add for each until it returns false.
func (t *Tree) list(in *fuse.ReadIn, size int, add func(*node, *dirFD, hostfs.Dirent) bool) error {
	dir, err := t.dir(in.NodeId)
	if err != nil {
		return err
	}
	t.announce(dir)
	d, err := t.dirs.acquire(dir)
	if err != nil {
		return err
	}
	defer t.dirs.release(d)
	if in.Offset > 1<<63-1 {
		return syscall.EINVAL
	}
	p := t.buffers.Get().(*[]byte)
	defer t.buffers.Put(p)
	buf := (*p)[:min(max(size, 1024), len(*p))]

	for off := int64(in.Offset); ; {
		entries, err := d.read(buf, off)
		empty := true // which would be the end of the directory
		for _, e := range entries {
			off = e.Off
			if t.hidden.entry(dir, e.Name) {
				continue
			}
			empty = false
			if !add(dir, d, e) {
				break
			}
		}
		if err != nil || !empty || len(entries) == 0 {
			return err
		}
	}
}

// read returns one buffer full of entries from the position off on. The lock
// is not held while they are used.
func (d *dirFD) read(buf []byte, off int64) (entries []hostfs.Dirent, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pos != off {
		if err := hostfs.SeekDir(d.fd, off); err != nil {
			if status(err) == fuse.EBADF { // O_PATH: we may enter but not list
				err = syscall.EACCES
			}
			return nil, err
		}
	}
	d.pos = -1
	more, err := hostfs.ReadAllDirents(d.fd, buf, func(e hostfs.Dirent) bool {
		entries = append(entries, e)
		return true
	})
	if status(err) == fuse.EBADF {
		err = syscall.EACCES
	}
	switch {
	case err != nil:
		return nil, err
	case len(entries) > 0:
		d.pos = entries[len(entries)-1].Off
	case !more:
		d.pos = off
	}
	return entries, nil
}

// Readlink answers READLINK.
func (t *Tree) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	code := t.begin(OpReadlink)
	defer t.end()
	if !code.Ok() {
		return nil, code
	}
	n := t.node(header.NodeId)
	switch {
	case n == nil:
		return nil, errnoStatus(syscall.ESTALE)
	case !n.isSymlink():
		target, err := t.shownTarget(n)
		return target, status(err)
	}
	b := n.names.Load()
	if b == nil {
		return nil, fuse.ENOENT
	}
	d, err := t.dirs.acquire(b.parent)
	if err != nil {
		return nil, status(err)
	}
	defer t.dirs.release(d)
	target, err := hostfs.ReadlinkAt(d.fd, b.name)
	if err != nil {
		return nil, status(stale(err))
	}
	// The kernel keeps the text for this inode: it must be this inode's.
	if st, err := hostfs.StatAt(d.fd, b.name); err != nil || st.ID != n.obj.ID {
		return nil, errnoStatus(syscall.ESTALE)
	}
	if t.opts.Posix != nil && leadsOut(n, target) {
		return nil, fuse.EACCES
	}
	return []byte(target), fuse.OK
}
