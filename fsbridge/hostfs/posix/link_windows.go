package posix

import (
	"crypto/rand"
	"encoding/binary"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// Mkdirat makes a directory. Who may do what in it is inherited: mode is not looked at.
func Mkdirat(dirfd int, name string, mode uint32) error {
	o := opening{disposition: windows.FILE_CREATE, options: windows.FILE_DIRECTORY_FILE}
	return here.withNew(dirfd, name, o)
}

// Mknodat makes a regular file. FIFOs and sockets are not for Windows's file systems.
func Mknodat(dirfd int, name string, mode uint32) error {
	if mode&S_IFMT != S_IFREG && mode&S_IFMT != 0 {
		return EPERM
	}
	o := opening{disposition: windows.FILE_CREATE, options: windows.FILE_NON_DIRECTORY_FILE}
	if mode&0o200 == 0 {
		o.attributes = windows.FILE_ATTRIBUTE_READONLY
	}
	return here.withNew(dirfd, name, o)
}

// withNew makes what has no name yet.
func (p *process) withNew(dirfd int, name string, o opening) error {
	if name == "." || name == ".." {
		return EEXIST
	}
	if err := checkWindowsName(name); err != nil {
		return err
	}
	return p.withName(dirfd, name, o, func(windows.Handle, *file) error { return nil })
}

// Symlinkat makes a symlink, which takes a privilege on Windows, and whether it leads to a file or a directory must be known: EPERM.
func Symlinkat(target string, dirfd int, name string) error {
	if err := checkWindowsName(name); err != nil {
		return err
	}
	return EPERM
}

// Readlinkat reads the symlink or junction name, or the one that is open as dirfd if the name is empty, with slashes. What leads elsewhere
// in another way gives EINVAL.
func Readlinkat(dirfd int, name string, buf []byte) (n int, err error) {
	err = here.withName(dirfd, name, opening{}, func(h windows.Handle, _ *file) error {
		data := make([]byte, windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
		var size uint32
		err := windows.DeviceIoControl(h, windows.FSCTL_GET_REPARSE_POINT, nil, 0, &data[0], uint32(len(data)), &size, nil)
		if err != nil {
			return EINVAL // it is none
		}
		target, err := linkTarget(data[:size])
		n = copy(buf, target)
		return err
	})
	return n, err
}

// linkTarget reads a REPARSE_DATA_BUFFER.
func linkTarget(b []byte) (string, error) {
	const relative = 1
	le := binary.LittleEndian
	if len(b) < 12 {
		return "", EINVAL
	}
	head, absolute := 16, true
	switch le.Uint32(b) {
	case windows.IO_REPARSE_TAG_SYMLINK:
		if head = 20; len(b) < head {
			return "", EINVAL
		}
		absolute = le.Uint32(b[16:])&relative == 0
	case windows.IO_REPARSE_TAG_MOUNT_POINT:
	case tagLinux: // its version, and the target as Linux has it
		end := 8 + int(le.Uint16(b[4:]))
		if end < 12 || end > len(b) {
			return "", EINVAL
		}
		return string(b[12:end]), nil
	default:
		return "", EINVAL
	}
	start := head + int(le.Uint16(b[8:]))
	end := start + int(le.Uint16(b[10:]))
	if end > len(b) {
		return "", EINVAL
	}
	target := units(b[start:end])
	if absolute {
		target = strings.TrimPrefix(target, `\??\`)
		if share, found := strings.CutPrefix(target, `UNC\`); found {
			target = `\\` + share
		}
	}
	return strings.ReplaceAll(target, `\`, "/"), nil
}

// Linkat gives an inode another name. A symlink is linked itself.
func Linkat(oldDir int, oldName string, newDir int, newName string) error {
	if err := checkNew(oldName, newName); err != nil {
		return err
	}
	return here.inDirectory(newDir, func(to windows.Handle) error {
		return here.withFile(oldDir, func(from using) error {
			if from.kind != S_IFDIR {
				return ENOTDIR
			}
			h, err := ntOpenToChange(from.handle, oldName, false)
			if err != nil {
				return err
			}
			defer ntClose(h)
			return link(h, to, newName)
		})
	})
}

// Flinkat gives the inode behind fd a name.
func Flinkat(fd, newDir int, newName string) error {
	if err := checkWindowsName(newName); err != nil {
		return err
	}
	return here.inDirectory(newDir, func(to windows.Handle) error {
		return here.withFile(fd, func(u using) error { return link(u.handle, to, newName) })
	})
}

func link(h, dir windows.Handle, name string) error {
	t, err := traitsOf(h)
	if err != nil {
		return err
	}
	if t.kind() == S_IFDIR {
		return EPERM
	}
	return ntSet(h, fileLinkInformation, nameInformation(0, dir, name))
}

// checkNew checks a name that is there and one that may be.
func checkNew(oldName, newName string) error {
	if err := checkWindowsName(oldName); err != nil {
		return err
	}
	return checkWindowsName(newName)
}

// Unlinkat removes a name, of a directory or of what is none. The name is free at once, also if somebody has the file open, where the
// file system can do that (NTFS since Windows 10); else the file gets a name that nobody else has until it is closed.
func Unlinkat(dirfd int, name string, directory bool) error {
	if name == "." {
		if directory {
			return EINVAL
		}
		return EISDIR
	}
	if err := checkWindowsName(name); err != nil {
		return err
	}
	return here.inDirectory(dirfd, func(dir windows.Handle) error { return remove(dir, name, directory) })
}

// remove removes name in dir.
func remove(dir windows.Handle, name string, directory bool) error {
	h, err := ntOpen(dir, name, opening{access: windows.DELETE})
	if err != nil {
		return err
	}
	defer ntClose(h)
	t, err := traitsOf(h)
	switch {
	case err != nil:
		return err
	case directory && t.kind() != S_IFDIR:
		return ENOTDIR
	case !directory && t.kind() == S_IFDIR:
		return EISDIR
	}
	if err = discardNow(h); unknown(err) {
		err = removeSlowly(dir, name, h, t)
	}
	return err
}

// discardNow has the name of h free when h is closed.
func discardNow(h windows.Handle) error {
	const how = windows.FILE_DISPOSITION_DELETE | windows.FILE_DISPOSITION_POSIX_SEMANTICS | windows.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE
	return ntSet(h, windows.FileDispositionInformationEx, binary.LittleEndian.AppendUint32(nil, how))
}

// discard has it free then, or where that is unknown, when all have closed the file.
func discard(h windows.Handle) error {
	err := discardNow(h)
	if unknown(err) {
		err = ntSet(h, windows.FileDispositionInformation, []byte{1})
	}
	return err
}

// removeSlowly removes what is open as h where a name stays until the last who has the file open closes it: it has another name
// until then.
func removeSlowly(dir windows.Handle, name string, h windows.Handle, t traits) error {
	if t.attributes&windows.FILE_ATTRIBUTE_READONLY != 0 {
		w, err := ntOpenToChange(dir, name, false)
		if err == nil {
			err = setReadOnly(w, false)
			ntClose(w)
		}
		if err != nil {
			return err
		}
	}
	aside := asideName()
	moved := ntSet(h, windows.FileRenameInformation, nameInformation(0, dir, aside))
	err := ntSet(h, windows.FileDispositionInformation, []byte{1})
	if err != nil && moved == nil {
		_ = ntSet(h, windows.FileRenameInformation, nameInformation(0, dir, name))
	}
	return err
}

// asideName is a name for what has been removed and is still open.
func asideName() string { return ".sandbox-removed-" + rand.Text() }

// Rename renames by paths of the host.
func Rename(from, to string) error {
	var (
		dirs  [2]int
		names [2]string
	)
	for i, path := range [2]string{from, to} {
		path, err := filepath.Abs(path)
		if err != nil {
			return EINVAL
		}
		names[i] = filepath.Base(path)
		if dirs[i], err = Open(filepath.Dir(path), O_PATH|O_DIRECTORY, 0); err != nil {
			return err
		}
		defer func() { _ = Close(dirs[i]) }()
	}
	return Renameat(dirs[0], names[0], dirs[1], names[1], 0)
}
