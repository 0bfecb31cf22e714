package undologtest

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Handle is an open file, which outlives its names.
type Handle struct {
	a  *Applier
	n  *node
	fd int
}

// Open opens an existing regular file for reading and writing.
func (a *Applier) Open(path string) (*Handle, error) { return a.OpenFor(path, posix.O_RDWR) }

// OpenFor opens an existing regular file with the given flags; O_TRUNC is the
// caller's to report.
func (a *Applier) OpenFor(path string, flags int) (*Handle, error) {
	var h *Handle
	err := a.at(path, func(dir *node, fd int, name string) error {
		n, st, err := a.child(dir, fd, name)
		if err != nil {
			return err
		}
		f, err := hostfs.OpenVerified(fd, name, st.ID, flags)
		if err != nil {
			return err
		}
		h = a.handle(n, f)
		return nil
	})
	return h, err
}

func (a *Applier) handle(n *node, fd int) *Handle {
	a.mu.Lock()
	defer a.mu.Unlock()
	n.handles = append(n.handles, fd)
	n.writers++
	a.nodes[n.obj.ID] = n
	return &Handle{a: a, n: n, fd: fd}
}

// Tmpfile makes a file without a name in the directory at path.
func (a *Applier) Tmpfile(path string, mode uint32) (*Handle, error) {
	var h *Handle
	err := a.inDir(path, func(dir *node, fd int) error {
		op := &fsbridge.Op{Kind: fsbridge.OpTmpfile, Dir: &dir.obj, DirFD: fd}
		return a.do(op, func() (*fsbridge.Object, error) {
			f, err := hostfs.OpenTmpfile(fd, posix.O_RDWR, mode)
			if err != nil {
				return nil, err
			}
			st, err := hostfs.StatFD(f)
			if err != nil {
				return nil, err
			}
			n := &node{a: a}
			n.obj = fsbridge.Object{ID: st.ID, Type: st.Type(), Place: n}
			h = a.handle(n, f)
			return &n.obj, nil
		})
	})
	return h, err
}

func (a *Applier) inDir(path string, f func(dir *node, fd int) error) error {
	if path == "." {
		return f(a.root, a.Root.FD())
	}
	return a.onNode(path, func(n *node, _ hostfs.Stat, fd int) error { return f(n, fd) })
}

// Link gives the open file the name path.
func (h *Handle) Link(path string) error {
	return h.a.at(path, func(dir *node, fd int, name string) error {
		op := &fsbridge.Op{Kind: fsbridge.OpLink, Node: &h.n.obj, Dir: &dir.obj, Name: name, DirFD: fd}
		err := h.a.do(op, func() (*fsbridge.Object, error) { return nil, hostfs.LinkFD(h.fd, fd, name) })
		if err == nil {
			h.a.rebind(h.n, dir, name)
		}
		return err
	})
}

// WriteAt writes data at off.
func (h *Handle) WriteAt(data []byte, off int64) error {
	op := &fsbridge.Op{Kind: fsbridge.OpWrite, Node: &h.n.obj, Off: off, Len: int64(len(data))}
	return h.a.do(op, func() (*fsbridge.Object, error) { return nil, hostfs.PwriteFull(h.fd, data, off) })
}

// Truncate sets the size.
func (h *Handle) Truncate(size int64) error {
	op := &fsbridge.Op{Kind: fsbridge.OpTruncate, Node: &h.n.obj, Size: size}
	return h.a.do(op, func() (*fsbridge.Object, error) { return nil, hostfs.TruncateFD(h.fd, size) })
}

// Fallocate is fallocate(2).
func (h *Handle) Fallocate(mode uint32, off, length int64) error {
	op := &fsbridge.Op{Kind: fsbridge.OpFallocate, Node: &h.n.obj, Flags: mode, Off: off, Len: length}
	return h.a.do(op, func() (*fsbridge.Object, error) { return nil, posix.Fallocate(h.fd, mode, off, length) })
}

// CopyFrom is copy_file_range(2) into h.
func (h *Handle) CopyFrom(src *Handle, srcOff, off, length int64) error {
	op := &fsbridge.Op{Kind: fsbridge.OpCopyRange, Node: &h.n.obj, Off: off, Len: length}
	return h.a.do(op, func() (*fsbridge.Object, error) {
		_, err := posix.CopyRange(h.fd, off, src.fd, srcOff, int(length))
		if errors.Is(err, posix.EOPNOTSUPP) { // this kernel copies no range
			data := make([]byte, length)
			var n int
			if n, err = posix.Pread(src.fd, data, srcOff); err == nil {
				err = hostfs.PwriteFull(h.fd, data[:n], off)
			}
		}
		return nil, err
	})
}

// Chmod sets the mode through the handle.
func (h *Handle) Chmod(mode uint32) error {
	op := &fsbridge.Op{Kind: fsbridge.OpSetattr, Node: &h.n.obj}
	return h.a.do(op, func() (*fsbridge.Object, error) { return nil, hostfs.ChmodFD(h.fd, mode) })
}

// Close closes the handle.
func (h *Handle) Close() error {
	h.a.mu.Lock()
	for i, fd := range h.n.handles {
		if fd == h.fd {
			h.n.handles = append(h.n.handles[:i], h.n.handles[i+1:]...)
			h.n.writers--
			break
		}
	}
	h.a.mu.Unlock()
	return hostfs.Close(h.fd)
}

// WriteAt writes data at off into the file at path.
func (a *Applier) WriteAt(path string, data []byte, off int64) error {
	return a.withHandle(path, func(h *Handle) error { return h.WriteAt(data, off) })
}

// Truncate sets the size of the file at path.
func (a *Applier) Truncate(path string, size int64) error {
	return a.withHandle(path, func(h *Handle) error { return h.Truncate(size) })
}

func (a *Applier) withHandle(path string, f func(h *Handle) error) error {
	h, err := a.OpenFor(path, posix.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f(h), h.Close())
}

// WriteFile is what a shell's ">" does: open with O_CREAT|O_TRUNC and write.
func (a *Applier) WriteFile(path string, data []byte) error {
	err := a.Create(path, 0o644)
	if errors.Is(err, posix.EEXIST) {
		err = a.Truncate(path, 0)
	}
	if err != nil || len(data) == 0 {
		return err
	}
	return a.WriteAt(path, data, 0)
}

// Chmod sets the mode of path, "." being the root.
func (a *Applier) Chmod(path string, mode uint32) error {
	return a.setattr(path, func(fd int) error { return hostfs.ChmodFD(fd, mode) })
}

// Utimes sets the modification time of path, in nanoseconds since the epoch.
func (a *Applier) Utimes(path string, mtime int64) error {
	return a.setattr(path, func(fd int) error { return hostfs.UtimesFD(fd, hostfs.TimeOmit, mtime) })
}

func (a *Applier) setattr(path string, f func(fd int) error) error {
	return a.onNode(path, func(n *node, st hostfs.Stat, fd int) error {
		op := &fsbridge.Op{Kind: fsbridge.OpSetattr, Node: &n.obj, NodeStat: st}
		return a.do(op, func() (*fsbridge.Object, error) { return nil, f(fd) })
	})
}

// SetXattr sets an attribute of path.
func (a *Applier) SetXattr(path, attr string, value []byte) error {
	return a.xattr(path, fsbridge.OpSetXattr, attr, func(fd int) error { return hostfs.SetXattrFD(fd, attr, value, 0) })
}

// RemoveXattr removes an attribute of path.
func (a *Applier) RemoveXattr(path, attr string) error {
	return a.xattr(path, fsbridge.OpRemoveXattr, attr, func(fd int) error { return hostfs.RemoveXattrFD(fd, attr) })
}

// xattr changes an attribute, if the file system has any: else they are in package posixmeta, of which the log knows nothing.
func (a *Applier) xattr(path string, kind fsbridge.Kind, attr string, f func(fd int) error) error {
	if Plain {
		return nil
	}
	return a.onNode(path, func(n *node, st hostfs.Stat, fd int) error {
		op := &fsbridge.Op{Kind: kind, Node: &n.obj, NodeStat: st, Attr: attr}
		return a.do(op, func() (*fsbridge.Object, error) { return nil, f(fd) })
	})
}

// RemoveAll is rm -rf.
func (a *Applier) RemoveAll(path string) error {
	var names []hostfs.Dirent
	err := a.onNode(path, func(n *node, st hostfs.Stat, fd int) error {
		if !st.IsDir() {
			return posix.ENOTDIR
		}
		d, err := hostfs.ReopenFD(fd, posix.O_RDONLY|posix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer hostfs.Close(d)
		names, err = hostfs.ReadDir(d)
		return err
	})
	if errors.Is(err, posix.ENOTDIR) {
		return a.Unlink(path)
	}
	if err != nil {
		return err
	}
	for _, e := range names {
		child := path + "/" + e.Name
		if path == "." {
			child = e.Name
		}
		if err := a.RemoveAll(child); err != nil {
			return err
		}
	}
	if path == "." {
		return nil
	}
	return a.Rmdir(path)
}

// Object returns the open file's Object.
func (h *Handle) Object() *fsbridge.Object { return &h.n.obj }
