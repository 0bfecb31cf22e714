package vfs

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// FsyncDir makes a directory durable.
func (t *Tree) FsyncDir(dir uint64) error {
	if err := t.begin(OpFsyncdir); err != nil {
		return err
	}
	defer t.end()
	n, err := t.dir(dir)
	if err != nil {
		return err
	}
	fd, _, err := t.openDir(n, posix.O_RDONLY)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return posix.Fsync(fd)
}

// ReadDir lists a directory from off on, which is 0 or a DirEntry's Off: it calls add
// until that returns false or about size bytes of the host's list are used up. A
// listing needs no handle.
func (t *Tree) ReadDir(dir, off uint64, size int, add func(DirEntry) bool) error {
	if err := t.begin(OpReaddir); err != nil {
		return err
	}
	defer t.end()
	return t.list(dir, off, size, func(parent *node, d *dirFD, e hostfs.Dirent) bool {
		de := dirEntry(e)
		if t.opts.Posix != nil && de.Type == posix.S_IFREG {
			if st, err := t.look(d, e.Name); err == nil {
				de.Type = t.show(t.known(&st, parent, e.Name), &st).Mode & posix.S_IFMT
			}
		}
		return add(de)
	})
}

// ReadDirPlus is ReadDir that looks up each name, too: found is called with the Entry
// after add has taken it, but for "." and "..", and for what is gone again.
func (t *Tree) ReadDirPlus(dir, off uint64, size int, add func(DirEntry) bool, found func(*Entry)) error {
	if err := t.begin(OpReaddirplus); err != nil {
		return err
	}
	defer t.end()
	var entry Entry
	return t.list(dir, off, size, func(parent *node, d *dirFD, e hostfs.Dirent) bool {
		if !add(dirEntry(e)) {
			return false
		}
		if e.Name == "." || e.Name == ".." {
			return true
		}
		if st, err := t.look(d, e.Name); err == nil {
			entry = t.entry(t.lookup(&st, parent, e.Name, false), &st, t.ttlIn(parent))
			found(&entry)
		}
		return true
	})
}

func dirEntry(e hostfs.Dirent) DirEntry {
	return DirEntry{Name: e.Name, Ino: e.Ino, Off: uint64(e.Off), Type: uint32(e.Type) << 12}
}

// list reads host entries from off on, about size bytes of them or more
// until one was added, and calls add for each until it returns false.
func (t *Tree) list(number, from uint64, size int, add func(*node, *dirFD, hostfs.Dirent) bool) error {
	dir, err := t.dir(number)
	if err != nil {
		return err
	}
	t.announce(dir)
	d, err := t.dirs.acquire(dir)
	if err != nil {
		return err
	}
	defer t.dirs.Release(d)
	if from > 1<<63-1 {
		return posix.EINVAL
	}
	p := t.buffers.Get().(*[]byte)
	defer t.buffers.Put(p)
	buf := (*p)[:min(max(size, 1024), len(*p))]

	for off := int64(from); ; {
		entries, err := d.Read(buf, off)
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

// Readlink returns the text of a symlink.
func (t *Tree) Readlink(node uint64) ([]byte, error) {
	if err := t.begin(OpReadlink); err != nil {
		return nil, err
	}
	defer t.end()
	n := t.node(node)
	switch {
	case n == nil:
		return nil, posix.ESTALE
	case !n.isSymlink():
		target, err := t.shownTarget(n)
		return target, err
	}
	b := n.names.Load()
	if b == nil {
		return nil, posix.ENOENT
	}
	d, err := t.dirs.acquire(b.Parent)
	if err != nil {
		return nil, err
	}
	defer t.dirs.Release(d)
	target, err := hostfs.ReadlinkAt(d.FD, b.Name)
	if err != nil {
		return nil, errStaleDir(err)
	}
	// The kernel keeps the text for this inode: it must be this inode's.
	if st, err := hostfs.StatAt(d.FD, b.Name); err != nil || st.ID != n.obj.ID {
		return nil, posix.ESTALE
	}
	if t.opts.Posix != nil {
		if path, ok := n.path(); !ok || fsbridge.LinkLeadsOut(path, target) {
			return nil, posix.EACCES
		}
	}
	return []byte(target), nil
}
