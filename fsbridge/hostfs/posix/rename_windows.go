package posix

import (
	"strings"

	"golang.org/x/sys/windows"
)

// Renameat renames; the only flag is RENAME_NOREPLACE. Windows cannot exchange two names: EINVAL for RENAME_EXCHANGE, as from a file system of
// Linux that cannot, for which callers have another way.
func Renameat(oldDir int, oldName string, newDir int, newName string, flags uint) error {
	if flags&^RENAME_NOREPLACE != 0 {
		return EINVAL
	}
	if oldName == "." || newName == "." || oldName == ".." || newName == ".." {
		return EBUSY
	}
	if err := checkNew(oldName, newName); err != nil {
		return err
	}
	r := renaming{process: here, oldName: oldName, newName: newName, replace: flags == 0}
	directory := false
	err := here.named(func() error {
		return r.with(oldDir, newDir, func(using) error {
			if directory = r.what.kind() == S_IFDIR; directory {
				return nil
			}
			return r.file()
		})
	})
	if err != nil || !directory {
		return err
	}
	// Nobody else has anything open for a moment only then.
	return from(here.patience.try(func() error {
		here.names.Lock()
		defer here.names.Unlock()
		return r.with(oldDir, newDir, r.directory)
	}, inTheWay))
}

// renaming is one rename.
type renaming struct {
	*process
	oldName, newName string
	replace          bool

	from, to *file          // the directories
	h        windows.Handle // what is renamed
	what     looked
}

// with calls f while what is renamed is open.
func (r *renaming) with(oldDir, newDir int, f func(to using) error) error {
	return r.withFile(oldDir, func(from using) error {
		return r.withFile(newDir, func(to using) (err error) {
			if from.kind != S_IFDIR || to.kind != S_IFDIR {
				return ENOTDIR
			}
			r.from, r.to = from.file, to.file
			if r.h, err = ntOpen(from.handle, r.oldName, opening{access: windows.DELETE}); err != nil {
				return err
			}
			defer ntClose(r.h)
			if r.what, err = look(r.h, from.file); err != nil {
				return err
			}
			return f(to)
		})
	})
}

// file renames what is no directory.
func (r *renaming) file() error {
	others := r.descriptors.all(func(f *file) bool { return f.inode == r.what.inode })
	defer func() {
		for _, o := range others {
			_ = o.done()
		}
	}()
	old := ""
	if len(others) > 0 {
		var err error
		if old, err = pathOnVolume(r.h); err != nil {
			return err
		}
	}
	done, err := r.perform()
	if err != nil || !done {
		return err
	}
	for _, o := range others {
		o.file.gate.Lock()
		r.follow(o.file, old, "")
		o.file.gate.Unlock()
	}
	return nil
}

// perform gives the name. done is false if there was nothing to do.
func (r *renaming) perform() (done bool, err error) {
	if same, err := r.fits(); err != nil || same {
		return false, err
	}
	how := uint32(windows.FILE_RENAME_POSIX_SEMANTICS | windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE)
	if r.replace {
		how |= windows.FILE_RENAME_REPLACE_IF_EXISTS
	}
	err = r.set(fileRenameInformationEx, how)
	if unknown(err) {
		err = r.set(windows.FileRenameInformation, how&windows.FILE_RENAME_REPLACE_IF_EXISTS)
	}
	if r.replace && (err == windows.STATUS_ACCESS_DENIED || err == windows.STATUS_OBJECT_NAME_COLLISION) {
		err = r.replaceSlowly(err)
	}
	return err == nil, err
}

func (r *renaming) set(class, how uint32) error {
	return ntSet(r.h, class, nameInformation(how, r.to.handle, r.newName))
}

// fits looks at what has the new name: a directory replaces only another, and a file no directory. If both names are of the same inode,
// there is nothing to do, unless they are one name that changes its case.
func (r *renaming) fits() (same bool, err error) {
	if mayBeShort(r.newName) && isShort(r.to.handle, r.newName) { // another file would be replaced than the one of that name
		return false, EEXIST
	}
	h, err := ntOpen(r.to.handle, r.newName, opening{})
	if from(err) == ENOENT {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer ntClose(h)
	l, err := look(h, r.to)
	if err != nil {
		return false, err
	}
	if l.inode == r.what.inode {
		old, err := pathOnVolume(r.h)
		if err != nil {
			return false, err
		}
		path, err := pathOnVolume(h)
		if err != nil || strings.EqualFold(path, old) {
			return false, err
		}
		same = true
	}
	switch {
	case !r.replace:
		return false, EEXIST
	case same:
	case l.kind() == S_IFDIR && r.what.kind() != S_IFDIR:
		return false, EISDIR
	case l.kind() != S_IFDIR && r.what.kind() == S_IFDIR:
		return false, ENOTDIR
	}
	return same, nil
}

// replaceSlowly replaces where the file system cannot: an empty directory is removed first, and a file that is open gets a name aside until
// the new one is there.
func (r *renaming) replaceSlowly(why error) error {
	if r.what.kind() == S_IFDIR {
		if err := remove(r.to.handle, r.newName, true); err != nil {
			if from(err) == ENOENT {
				return why
			}
			return err
		}
		return r.set(windows.FileRenameInformation, 0)
	}
	target, err := ntOpen(r.to.handle, r.newName, opening{access: windows.DELETE})
	if inTheWay(err) {
		return err
	}
	if err != nil {
		return why
	}
	defer ntClose(target)
	l, err := look(target, r.to)
	if err != nil || l.inode == r.what.inode {
		return why
	}
	if err := ntSet(target, windows.FileRenameInformation, nameInformation(0, r.to.handle, asideName())); err != nil {
		return why
	}
	if err := r.set(windows.FileRenameInformation, 0); err != nil {
		_ = ntSet(target, windows.FileRenameInformation, nameInformation(0, r.to.handle, r.newName))
		return err
	}
	return discard(target)
}
