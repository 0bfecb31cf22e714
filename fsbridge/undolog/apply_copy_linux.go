package undolog

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Where the undo directory is on another file system than the folder (or a
// part of it), nothing can be renamed between them and moving is copying.

// moveByCopy moves a file or a tree out of the folder.
func (e *engine) moveByCopy(fd int, name string, toFD int, to string) error {
	tmp := "t" + to
	if err := removeAll(context.Background(), toFD, tmp); err != nil {
		return err
	}
	if err := copyTree(fd, name, toFD, tmp, 0); err != nil {
		return err
	}
	if err := renameNoReplace(toFD, tmp, toFD, to); err != nil {
		return err
	}
	return removeAll(context.Background(), fd, name)
}

// attachByCopy puts n, which is at from, into the folder. The copy gets its
// name when it is complete and its number is written down.
func (e *engine) attachByCopy(n *node, from entry, fd int, name string) error {
	tmp := fmt.Sprintf(".undo-%d-%d", os.Getpid(), n.Obj)
	if err := removeAll(context.Background(), fd, tmp); err != nil {
		return err
	}
	err := copyTree(from.fd, from.name, fd, tmp, 0)
	var st hostfs.Stat
	if err == nil {
		st, err = hostfs.StatAt(fd, tmp)
	}
	if err == nil {
		old := n.ID
		if n.was.Ino != 0 {
			old = n.was
		}
		err = e.writeMade(appendMade(nil, madeRecord{obj: n.Obj, copied: true, old: old, new: st.ID}))
	}
	if err == nil {
		err = renameNoReplace(fd, tmp, fd, name)
	}
	if err != nil {
		_ = removeAll(context.Background(), fd, tmp)
		return err
	}
	e.setMade(n, st.ID)
	n.dirty = !n.Created
	return removeAll(context.Background(), from.fd, from.name)
}

// maxCopyDepth bounds how deep copyTree goes: it holds two descriptors a level.
const maxCopyDepth = 400

// copyTree copies name below fd, with everything in it and all metadata, to
// the new name to below toFD. It follows no symlink.
func copyTree(fd int, name string, toFD int, to string, depth int) error {
	st, err := hostfs.StatAt(fd, name)
	if err != nil {
		return err
	}
	switch st.Type() {
	case unix.S_IFREG:
		err = copyFile(fd, name, toFD, to, &st)
	case unix.S_IFLNK:
		var target string
		if target, err = hostfs.ReadlinkAt(fd, name); err == nil {
			err = hostfs.SymlinkAt(target, toFD, to)
		}
	case unix.S_IFDIR:
		if depth > maxCopyDepth {
			return fmt.Errorf("copy %q: directories too deep: %w", name, syscall.ENAMETOOLONG)
		}
		err = copyDir(fd, name, toFD, to, &st, depth)
	default:
		err = hostfs.MknodAt(toFD, to, st.Mode)
	}
	if err != nil {
		return err
	}
	xattrs, err := hostfs.AllXattrsAt(fd, name)
	if err != nil {
		return err
	}
	p, err := hostfs.OpenAt(toFD, to, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer hostfs.Close(p)
	n := node{objectRecord: &objectRecord{Meta: metaOf(&st, "")}, typ: st.Type()}
	return (&engine{}).setMeta(p, &n, xattrs, len(xattrs) > 0)
}

func copyFile(fd int, name string, toFD int, to string, st *hostfs.Stat) error {
	in, err := openForce(entry{fd: fd, name: name}, unix.O_RDONLY, st)
	if err != nil {
		return err
	}
	defer hostfs.Close(in)
	out, err := hostfs.OpenAt(toFD, to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer hostfs.Close(out)
	return copyData(in, out, st.Size)
}

// copyData copies size bytes into the new file out, holes as holes.
func copyData(in, out int, size int64) error {
	if size > 0 && hostfs.CloneFD(out, in) == nil {
		return nil
	}
	if err := hostfs.TruncateFD(out, size); err != nil {
		return err
	}
	buf := make([]byte, min(max(size, 1), 256<<10))
	for off := int64(0); off < size; {
		start, end, err := hostfs.NextData(in, off, size)
		if err != nil {
			return err
		}
		for off = start; off < end; {
			n, err := hostfs.PreadFull(in, buf[:min(int64(len(buf)), end-off)], off)
			if err != nil {
				return err
			}
			if n == 0 {
				return nil // it shrank meanwhile
			}
			if err := hostfs.PwriteFull(out, buf[:n], off); err != nil {
				return err
			}
			off += int64(n)
		}
		off = end
	}
	return nil
}

func copyDir(fd int, name string, toFD int, to string, st *hostfs.Stat, depth int) error {
	if err := hostfs.MkdirAt(toFD, to, 0o700); err != nil {
		return err
	}
	if st.Mode&0o500 != 0o500 && os.Geteuid() != 0 {
		if err := hostfs.ChmodAt(fd, name, st.Mode|0o700); err != nil {
			return err
		}
	}
	in, err := hostfs.OpenDirAt(fd, name)
	if err != nil {
		return err
	}
	defer hostfs.Close(in)
	out, err := hostfs.OpenDirPathAt(toFD, to)
	if err != nil {
		return err
	}
	defer hostfs.Close(out)
	entries, err := hostfs.ReadDir(in)
	if err != nil {
		return err
	}
	for _, x := range entries {
		if err := copyTree(in, x.Name, out, x.Name, depth+1); err != nil {
			return err
		}
	}
	return nil
}
