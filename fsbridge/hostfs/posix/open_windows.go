package posix

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// Open opens a path of the host, and follows symlinks unless flags hold O_NOFOLLOW.
func Open(path string, flags int, mode uint32) (int, error) {
	path, err := ntPath(path)
	if err != nil {
		return -1, err
	}
	fd := -1
	err = here.named(func() (err error) {
		fd, err = here.open(nil, path, flags, mode, flags&O_NOFOLLOW == 0)
		return err
	})
	return fd, err
}

// ntPath returns a path of Win32 as NT has it. It may have 32,000 characters.
func ntPath(path string) (string, error) {
	if path == "" {
		return "", ENOENT
	}
	if !strings.HasPrefix(path, `\\?\`) {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return "", EINVAL
		}
		path = absolute
	}
	volume := filepath.VolumeName(path)
	parts := strings.FieldsFunc(path[len(volume):], func(r rune) bool { return r == '\\' || r == '/' })
	for _, p := range parts {
		if err := checkWindowsName(p); err != nil {
			return "", err
		}
	}
	if bare, found := strings.CutPrefix(volume, `\\?\`); found {
		volume = bare
	} else if strings.HasPrefix(volume, `\\.`) {
		return "", EINVAL // a device
	} else if share, found := strings.CutPrefix(volume, `\\`); found {
		volume = `UNC\` + share
	}
	return `\??\` + volume + `\` + strings.Join(parts, `\`), nil
}

// Openat opens name in the directory dirfd. Case does not count in it.
func Openat(dirfd int, name string, flags int, mode uint32) (int, error) {
	if flags&O_TMPFILE == O_TMPFILE {
		return -1, EOPNOTSUPP
	}
	if name == "." {
		if flags&O_CREAT != 0 {
			return -1, EISDIR
		}
		name = ""
	} else if err := checkWindowsName(name); err != nil {
		return -1, err
	}
	fd := -1
	err := here.named(func() error {
		return here.withFile(dirfd, func(u using) (err error) {
			if u.kind != S_IFDIR {
				return ENOTDIR
			}
			fd, err = here.open(u.file, name, flags, mode, name == "" && u.follow)
			return err
		})
	})
	return fd, err
}

// accessOf returns the rights that flags ask for. A directory can be listed by the same right as a file can be read.
func accessOf(flags int) uint32 {
	switch {
	case flags&O_PATH != 0:
		return attributesOnly
	case flags&O_ACCMODE == O_WRONLY:
		return windows.FILE_GENERIC_WRITE
	case flags&O_ACCMODE == O_RDWR:
		return windows.FILE_GENERIC_READ | windows.FILE_GENERIC_WRITE
	}
	return windows.FILE_GENERIC_READ
}

// open opens name below near, or near itself, or a path if there is none, and gives it a number. p.names is held.
func (p *process) open(near *file, name string, flags int, mode uint32, follow bool) (int, error) {
	o := opening{access: accessOf(flags), follow: follow}
	if flags&O_PATH == 0 && flags&O_CREAT != 0 {
		o.disposition, o.options = windows.FILE_OPEN_IF, windows.FILE_NON_DIRECTORY_FILE
		if flags&O_EXCL != 0 {
			o.disposition = windows.FILE_CREATE
		}
		if mode&0o200 == 0 {
			o.attributes = windows.FILE_ATTRIBUTE_READONLY
		}
	}
	root := windows.Handle(0)
	if near != nil {
		root = near.handle
	}
	h, err := ntOpen(root, name, o)
	if err != nil {
		return -1, err
	}
	l, err := look(h, near)
	if err == nil && l.other() && !o.follow {
		o.disposition, o.follow = windows.FILE_OPEN, true
		h, err = p.resolve(root, name, o, h, l)
	}
	if err == nil {
		err = refused(l.traits, flags)
	}
	if err == nil && flags&O_TRUNC != 0 && flags&(O_PATH|O_ACCMODE) != 0 {
		err = truncate(h, 0)
	}
	if err != nil {
		ntClose(h)
		return -1, err
	}
	f := &file{inode: l.inode, kind: l.kind(), access: o.access | attributesOnly, follow: o.follow, plain: l.plain, handle: h}
	f.flags.Store(int64(flags))
	return p.add(f)
}

// add gives a file a number.
func (p *process) add(f *file) (int, error) {
	fd, err := p.descriptors.add(f)
	if err != nil {
		_ = f.end()
	}
	return fd, err
}

// resolve opens a file once more, which was opened as h, so that the system looks at its reparse point. It must be the
// same file: under its name there could be a link by now.
func (p *process) resolve(root windows.Handle, name string, o opening, h windows.Handle, l looked) (windows.Handle, error) {
	again, err := ntOpen(root, name, o)
	if err != nil {
		return h, err
	}
	now, err := inodeOf(again)
	if err == nil && now != l.inode {
		err = ELOOP
	}
	if err != nil {
		ntClose(again)
		return h, err
	}
	ntClose(h)
	return again, nil
}

// refused says why what was found cannot be opened with flags.
func refused(t traits, flags int) error {
	switch kind := t.kind(); {
	case flags&O_DIRECTORY != 0 && kind != S_IFDIR:
		return ENOTDIR
	case flags&O_PATH != 0:
		return nil
	case kind == S_IFLNK:
		return ELOOP
	case kind == S_IFDIR && (flags&O_ACCMODE != O_RDONLY || flags&O_CREAT != 0):
		return EISDIR
	case kind != S_IFDIR && kind != S_IFREG:
		return ENXIO
	}
	return nil
}

// OpenBeneath opens a path of several components below dirfd, none of which is followed if it is a symlink. "." is the directory.
func OpenBeneath(dirfd int, path string, flags int) (int, error) {
	at := dirfd
	parts := strings.Split(path, "/")
	for i, name := range parts {
		f := flags
		if i < len(parts)-1 {
			f = O_PATH
		}
		fd, err := Openat(at, name, f, 0)
		if err == nil && i < len(parts)-1 {
			err = passable(fd)
		}
		if at != dirfd {
			_ = Close(at)
		}
		if err != nil {
			if fd >= 0 {
				_ = Close(fd)
			}
			return -1, err
		}
		at = fd
	}
	return at, nil
}

// passable says why the way does not lead on by fd.
func passable(fd int) error {
	return here.withFile(fd, func(u using) error {
		switch u.kind {
		case S_IFDIR:
			return nil
		case S_IFLNK:
			return ELOOP
		}
		return ENOTDIR
	})
}

// Reopen opens the inode behind fd once more with other flags. One without a name is opened for no more than fd is, and shares its
// locks: Windows opens nothing that has been removed.
func Reopen(fd, flags int) (int, error) {
	n := -1
	err := here.named(func() error {
		return here.withFile(fd, func(u using) (err error) {
			n, err = here.open(u.file, "", flags&^(O_CREAT|O_EXCL), 0, u.follow)
			if err == nil && !here.same(n, u.inode) { // under the name by which it was opened there is another
				_ = Close(n)
				n, err = -1, ESTALE
			}
			if gone := errors.Is(from(err), ENOENT) || err == ESTALE; gone && u.access&accessOf(flags) == accessOf(flags) && flags&O_TRUNC == 0 {
				n, err = here.duplicate(u, flags)
			}
			return err
		})
	})
	return n, err
}

// same tells whether fd is the inode i.
func (p *process) same(fd int, i inode) bool {
	o, err := p.descriptors.use(fd)
	if err != nil {
		return false
	}
	defer func() { _ = o.done() }()
	return o.file.inode == i
}

// duplicate gives the same file of the kernel a number, with a position of its own.
func (p *process) duplicate(u using, flags int) (int, error) {
	var h windows.Handle
	self := windows.CurrentProcess()
	if err := windows.DuplicateHandle(self, u.handle, self, &h, 0, false, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return -1, err
	}
	f := &file{inode: u.inode, kind: u.kind, access: u.access, follow: u.follow, plain: u.plain, handle: h}
	f.flags.Store(int64(flags))
	return p.add(f)
}

// Parent opens the directory that the directory fd is in, with O_PATH. That of a volume's root is itself.
func Parent(fd int) (int, error) {
	for range 16 {
		path, err := PathOf(fd)
		if err != nil {
			return -1, err
		}
		up := filepath.Dir(path)
		if up == path {
			return Reopen(fd, O_PATH|O_DIRECTORY)
		}
		parent, err := Open(up, O_PATH|O_DIRECTORY|O_NOFOLLOW, 0)
		if err == nil && inThere(parent, filepath.Base(path), fd) {
			return parent, nil
		}
		if err == nil {
			_ = Close(parent)
		}
		if err != nil && err != ENOENT {
			return -1, err
		}
	}
	return -1, ENOENT // it keeps moving, or has been removed
}

// inThere tells whether name in the directory dir is what is open as fd.
func inThere(dir int, name string, fd int) bool {
	var a, b Stat_t
	return Fstat(fd, &a) == nil && Fstatat(dir, name, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// PathOf returns a path by which the directory behind fd was reached last. It may lead nowhere by now.
func PathOf(fd int) (path string, err error) {
	err = here.withFile(fd, func(u using) error {
		path, err = finalPath(u.handle)
		return err
	})
	return path, err
}

func finalPath(h windows.Handle) (string, error) {
	const letters, ids = 0, 1 // VOLUME_NAME_DOS, VOLUME_NAME_GUID: for a volume without a letter
	buf := make([]uint16, windows.MAX_PATH)
	for form := uint32(letters); form <= ids; {
		n, err := windows.GetFinalPathNameByHandle(h, &buf[0], uint32(len(buf)), form)
		switch {
		case err != nil:
			form++
		case int(n) > len(buf):
			buf = make([]uint16, n)
		default:
			return win32Path(windows.UTF16ToString(buf[:n])), nil
		}
	}
	name, err := objectName(h) // wine has no final paths of more than 260 characters
	if name == "" {
		return "", cmp.Or(err, error(ENAMETOOLONG))
	}
	if path, found := strings.CutPrefix(name, `\??\`); found {
		return win32Path(`\\?\` + path), err
	}
	return `\\?\GLOBALROOT` + name, err
}

// win32Path returns a path as people write it.
func win32Path(path string) string {
	bare, found := strings.CutPrefix(path, `\\?\`)
	if share, unc := strings.CutPrefix(bare, `UNC\`); found && unc {
		return `\\` + share
	}
	if found && len(bare) >= 2 && bare[1] == ':' {
		return bare
	}
	return path
}

// Close closes a descriptor.
func Close(fd int) error { return from(here.descriptors.remove(fd)) }

// Dup returns another number for the same open file, the lowest that is free.
func Dup(fd int) (int, error) { return here.descriptors.again(fd) }

// Setfl sets the flags of an open file that can be changed: O_APPEND, O_NONBLOCK.
func Setfl(fd, flags int) error {
	const can = O_APPEND | O_NONBLOCK
	return here.withFile(fd, func(u using) error {
		u.flags.Store(u.flags.Load()&^can | int64(flags&can))
		return nil
	})
}
