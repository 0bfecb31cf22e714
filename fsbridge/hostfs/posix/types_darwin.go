package posix

import "golang.org/x/sys/unix"

func statOf(u *unix.Stat_t) Stat_t {
	return Stat_t{
		Dev: uint64(uint32(u.Dev)), Ino: u.Ino, Nlink: uint64(u.Nlink), Mode: uint32(u.Mode), Uid: u.Uid, Gid: u.Gid,
		Rdev: uint64(uint32(u.Rdev)), Size: u.Size, Blksize: int64(u.Blksize), Blocks: u.Blocks,
		Atim: Timespec(u.Atim), Mtim: Timespec(u.Mtim), Ctim: Timespec(u.Ctim),
	}
}

func statfsOf(u *unix.Statfs_t) Statfs_t {
	s := Statfs_t{
		Bsize: int64(u.Bsize), Blocks: u.Blocks, Bfree: u.Bfree, Bavail: u.Bavail, Files: u.Files, Ffree: u.Ffree,
		Fsid: Fsid(u.Fsid), Namelen: 255, Frsize: int64(u.Bsize),
	}
	if u.Flags&unix.MNT_RDONLY != 0 {
		s.Flags |= ST_RDONLY
	}
	if u.Flags&unix.MNT_NOEXEC != 0 {
		s.Flags |= ST_NOEXEC
	}
	switch kindOf(u) {
	case "nfs":
		s.Type = NFS_SUPER_MAGIC
	case "smbfs":
		s.Type = SMB2_SUPER_MAGIC
	case "afpfs", "webdav", "ftp":
		s.Type = CIFS_SUPER_MAGIC // somebody else's server, at any rate
	case "tmpfs":
		s.Type = TMPFS_MAGIC
	case "macfuse", "osxfuse", "fskit":
		s.Type = FUSE_SUPER_MAGIC
	}
	return s
}

// kindOf is the name of a kind of file systems: apfs, hfs.
func kindOf(u *unix.Statfs_t) string { return unix.ByteSliceToString(u.Fstypename[:]) }
