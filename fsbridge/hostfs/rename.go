package hostfs

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// RenameNew renames and never replaces anything (EEXIST). Every rename of ours to a
// name that must be free goes through it: many file systems (NFS, 9p, ntfs-3g, most
// others in user space) do not know RENAME_NOREPLACE.
//
// There a file gets its new name as a link, which replaces nothing either, before it
// loses the old one. A directory, and what cannot be linked, is renamed after a look
// at the new name: somebody else can come in between, but a rename replaces no
// directory that has something in it.
func RenameNew(oldDir int, oldName string, newDir int, newName string) error {
	err := RenameAt(oldDir, oldName, newDir, newName, posix.RENAME_NOREPLACE)
	if !unknownFlag(err) {
		return err
	}
	return renameSlowly(oldDir, oldName, newDir, newName)
}

// unknownFlag tells whether renameat2 may have failed since the file system does
// not know the flag. EINVAL has another meaning, too, but a second try says it again.
func unknownFlag(err error) bool {
	return errors.Is(err, posix.EINVAL) || errors.Is(err, posix.ENOSYS) || errors.Is(err, posix.EOPNOTSUPP)
}

// renameSlowly is RenameNew where renameat2 has no flags.
func renameSlowly(oldDir int, oldName string, newDir int, newName string) error {
	st, err := StatAt(oldDir, oldName)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		switch err := LinkAt(oldDir, oldName, newDir, newName); {
		case err == nil:
			if err = UnlinkAt(oldDir, oldName); err != nil {
				return errors.Join(err, UnlinkAt(newDir, newName))
			}
			return nil
		case errors.Is(err, posix.EEXIST), errors.Is(err, posix.EXDEV):
			return err
		}
	}
	switch _, err := StatAt(newDir, newName); {
	case err == nil:
		return linkErr("rename", oldName, newName, posix.EEXIST)
	case !errors.Is(err, posix.ENOENT):
		return err
	}
	return RenameAt(oldDir, oldName, newDir, newName, 0)
}

// RenameCase renames in one directory to a name that differs only in case, with the flags of
// renameat2. Where a file system takes both for one name and does nothing (ext4 with casefold,
// wine), or says that the new one is there, it goes by the name aside, which must be
// free: whoever is killed in between leaves the file there, and a log must know of it. After an error
// the file has its old name, or, if the error says so, that one.
func RenameCase(dirfd int, oldName, newName, aside string, flags uint32) error {
	err := RenameAt(dirfd, oldName, dirfd, newName, flags)
	if err != nil && !errors.Is(err, posix.EEXIST) {
		return err
	}
	st, looked := StatAt(dirfd, newName)
	if looked != nil {
		return errors.Join(err, looked)
	}
	if disk, _ := DiskName(dirfd, newName, &st); disk != oldName {
		return err
	}
	if err := RenameNew(dirfd, oldName, dirfd, aside); err != nil {
		return err
	}
	if err = RenameNew(dirfd, aside, dirfd, newName); err != nil { // somebody else has made one
		err = errors.Join(err, RenameNew(dirfd, aside, dirfd, oldName))
	}
	return err
}
