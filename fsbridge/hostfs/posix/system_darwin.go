package posix

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has what macOS calls otherwise than Linux, by Linux's numbers.

const (
	systemNoLinks = 1 << 27 // O_NOFOLLOW_ANY: none of the path's links is followed; Linux has no such flag
	systemSetLock = 90      // F_OFD_SETLK
	systemGetLock = 92      // F_OFD_GETLK
)

// systemFlags are macOS's numbers of the flags of open.
func systemFlags(flags int) (out int) {
	out = flags & O_ACCMODE
	for _, f := range [...][2]int{
		{O_CREAT, unix.O_CREAT}, {O_EXCL, unix.O_EXCL}, {O_NOCTTY, unix.O_NOCTTY}, {O_TRUNC, unix.O_TRUNC},
		{O_APPEND, unix.O_APPEND}, {O_NONBLOCK, unix.O_NONBLOCK}, {O_DIRECTORY, unix.O_DIRECTORY},
		{O_NOFOLLOW, unix.O_NOFOLLOW}, {systemNoLinks, unix.O_NOFOLLOW_ANY},
	} {
		if flags&f[0] != 0 {
			out |= f[1]
		}
	}
	if flags&systemNoLinks != 0 {
		out &^= unix.O_NOFOLLOW // it says that, too, and not both are taken
	}
	return out
}

// systemOpenat gives Linux's errors where macOS has others: ENOTDIR for a symlink where there should be a directory, ENXIO for a socket.
func systemOpenat(dirfd int, name string, flags int, mode uint32) (int, error) {
	fd, err := unix.Openat(dirfd, name, systemFlags(flags)|unix.O_CLOEXEC, mode)
	if err = from(err); err == nil {
		return fd, nil
	}
	const both = O_DIRECTORY | O_NOFOLLOW
	switch {
	case err == ELOOP && flags&(both|systemNoLinks) == both:
		err = ENOTDIR
	case err == EOPNOTSUPP:
		err = ENXIO
	}
	return -1, err
}

// systemSearch opens a directory that we may enter, but not read.
func systemSearch(dirfd int, name string) (int, error) {
	fd, err := unix.Openat(dirfd, name, unix.O_SEARCH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, from(err)
}

// systemPath is a path of what is open as fd, as the system knows it: one of its names.
func systemPath(fd int) (string, error) {
	buf := make([]byte, 1024) // MAXPATHLEN, of which F_GETPATH takes no more and no less
	if err := unix.FcntlFstore(uintptr(fd), unix.F_GETPATH, (*unix.Fstore_t)(unsafe.Pointer(&buf[0]))); err != nil {
		return "", from(err)
	}
	return unix.ByteSliceToString(buf), nil
}

func systemFstat(fd int, st *Stat_t) error {
	var u unix.Stat_t
	err := unix.Fstat(fd, &u)
	*st = statOf(&u)
	return from(err)
}

func systemFstatat(dirfd int, name string, st *Stat_t) error {
	var u unix.Stat_t
	err := unix.Fstatat(dirfd, name, &u, unix.AT_SYMLINK_NOFOLLOW)
	*st = statOf(&u)
	return from(err)
}

func systemFstatfs(fd int, s *Statfs_t) error {
	var u unix.Statfs_t
	err := unix.Fstatfs(fd, &u)
	*s = statfsOf(&u)
	return from(err)
}

func systemAttributes(dirfd int, name string) (uid uint32, attributes uint64, err error) {
	var u unix.Stat_t
	if name == "" {
		err = unix.Fstat(dirfd, &u)
	} else {
		err = unix.Fstatat(dirfd, name, &u, unix.AT_SYMLINK_NOFOLLOW)
	}
	if u.Flags&(unix.UF_IMMUTABLE|unix.SF_IMMUTABLE) != 0 {
		attributes |= STATX_ATTR_IMMUTABLE
	}
	if u.Flags&(unix.UF_APPEND|unix.SF_APPEND) != 0 {
		attributes |= STATX_ATTR_APPEND
	}
	return u.Uid, attributes, from(err)
}

func systemFaccessat(dirfd int, name string, mode uint32, effective bool) error {
	if !effective {
		return from(unix.Faccessat(dirfd, name, mode, 0))
	}
	err := unix.Faccessat(dirfd, name, mode, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.EINVAL { // before macOS 13
		err = unix.Faccessat(dirfd, name, mode, unix.AT_EACCESS)
	}
	return from(err)
}

func systemRename(oldDir int, oldName string, newDir int, newName string, flags uint) error {
	host := uint32(0)
	if flags&RENAME_NOREPLACE != 0 {
		host |= unix.RENAME_EXCL
	}
	if flags&RENAME_EXCHANGE != 0 {
		host |= unix.RENAME_SWAP
	}
	return from(unix.RenameatxNp(oldDir, oldName, newDir, newName, host))
}

// systemUnlink says EISDIR of a directory, as Linux does, and not EPERM.
func systemUnlink(dirfd int, name string, directory bool) error {
	if directory {
		return from(unix.Unlinkat(dirfd, name, unix.AT_REMOVEDIR))
	}
	err := from(unix.Unlinkat(dirfd, name, 0))
	var st Stat_t
	if err == EPERM && systemFstatat(dirfd, name, &st) == nil && st.Mode&S_IFMT == S_IFDIR {
		return EISDIR
	}
	return err
}

func systemChmod(dirfd int, name string, mode uint32) error {
	return from(unix.Fchmodat(dirfd, name, mode, unix.AT_SYMLINK_NOFOLLOW))
}

// hostTimes has macOS's numbers for now and for leaving a time.
func hostTimes(times *[2]Timespec) *[2]unix.Timespec {
	host := [2]unix.Timespec{unix.Timespec(times[0]), unix.Timespec(times[1])}
	for i := range host {
		switch host[i].Nsec {
		case UTIME_NOW:
			host[i].Nsec = -1
		case UTIME_OMIT:
			host[i].Nsec = -2
		}
	}
	return &host
}

func systemUtimens(fd int, times *[2]Timespec) error { return from(futimens(fd, hostTimes(times))) }

func systemUtimensat(dirfd int, name string, times *[2]Timespec) error {
	return from(unix.UtimesNanoAt(dirfd, name, hostTimes(times)[:], unix.AT_SYMLINK_NOFOLLOW))
}

// systemFlagsOf translates what Linux has, too.
func systemFlagsOf(fd int) (flags uint32, err error) {
	var u unix.Stat_t
	err = unix.Fstat(fd, &u)
	for _, f := range hostFlags {
		if u.Flags&f.host != 0 {
			flags |= f.linux
		}
	}
	return flags, from(err)
}

// hostFlags are chattr's flags, and those of chflags that mean the same.
var hostFlags = [...]struct{ linux, host uint32 }{
	{0x10, unix.UF_IMMUTABLE | unix.SF_IMMUTABLE},
	{0x20, unix.UF_APPEND | unix.SF_APPEND},
	{0x40, unix.UF_NODUMP},
}

// systemSetFlags sets the flags that a user sets, and leaves those that Linux does not have. It refuses those that macOS does not have.
func systemSetFlags(fd int, flags uint32) error {
	var u unix.Stat_t
	if err := unix.Fstat(fd, &u); err != nil {
		return from(err)
	}
	next := u.Flags
	for _, f := range hostFlags {
		switch {
		case flags&f.linux == 0:
			next &^= f.host
		case u.Flags&f.host == 0:
			next |= f.host & unix.UF_SETTABLE
		}
		flags &^= f.linux
	}
	switch {
	case flags != 0:
		return EOPNOTSUPP
	case next == u.Flags:
		return nil
	}
	return from(unix.Fchflags(fd, int(next)))
}

func systemPreallocate(fd int, _, length int64) error {
	return from(unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &unix.Fstore_t{
		Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: length,
	}))
}

func systemPunch(fd int, off, length int64) error {
	hole := struct { // fpunchhole_t
		flags, reserved uint32
		offset, length  int64
		_               [1]int64 // as long as Fstore_t
	}{offset: off, length: length}
	return from(unix.FcntlFstore(uintptr(fd), unix.F_PUNCHHOLE, (*unix.Fstore_t)(unsafe.Pointer(&hole))))
}

// systemFlush has the disk itself keep what was written, which fsync does not.
func systemFlush(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if err == unix.ENOTSUP || err == unix.ENOTTY || err == unix.EINVAL { // a network's
		err = unix.Fsync(fd)
	}
	return from(err)
}

func systemSync(fd int) error {
	Sync()
	return systemFlush(fd)
}

// Sync writes every file system to the disk.
func Sync() { _ = unix.Sync() }

// systemReadDir lists a directory by one call, which begins at its start: the next would count entries, and some may be gone by then.
func systemReadDir(fd int) (all []entry, err error) {
	const most = 21 + 1024 + 3 // what one entry takes
	buf := make([]byte, 64<<10)
	n := 0
	for {
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return nil, from(err)
		}
		var base uintptr
		if n, err = unix.Getdirentries(fd, buf, &base); err != nil {
			return nil, from(err)
		}
		if n < len(buf)-most {
			break
		}
		buf = make([]byte, 4*len(buf))
	}
	for b := buf[:n]; len(b) > 0; {
		d := (*unix.Dirent)(unsafe.Pointer(&b[0])) // its length is Reclen
		const head = int(unsafe.Offsetof(d.Name))
		size, name := int(d.Reclen), int(d.Namlen)
		if size < head || size > len(b) || head+name > size {
			return nil, EIO
		}
		if d.Ino != 0 {
			all = append(all, entry{ino: d.Ino, typ: d.Type, name: string(b[head : head+name])})
		}
		b = b[size:]
	}
	return all, nil
}

// VolumeID returns the volume's UUID.
func VolumeID(fd int) string {
	var u unix.Statfs_t
	if unix.Fstatfs(fd, &u) != nil {
		return ""
	}
	id, ok := volumeUUID(unix.ByteSliceToString(u.Mntonname[:]))
	if !ok {
		return ""
	}
	return kindOf(&u) + ":" + hex.EncodeToString(id[:])
}

// HandleID returns an APFS's number of the inode, which it gives to no other. HFS+ does.
func HandleID(fd int) string {
	var u unix.Statfs_t
	var st Stat_t
	if unix.Fstatfs(fd, &u) != nil || kindOf(&u) != "apfs" || systemFstat(fd, &st) != nil {
		return ""
	}
	return fmt.Sprintf("apfs:%x", st.Ino)
}

// MountsBelow lists the directories below an absolute path at which something is mounted.
func MountsBelow(path string) (at []string, err error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, from(err)
	}
	all := make([]unix.Statfs_t, n+16)
	if n, err = unix.Getfsstat(all, unix.MNT_NOWAIT); err != nil {
		return nil, from(err)
	}
	for _, u := range all[:n] {
		if p := unix.ByteSliceToString(u.Mntonname[:]); strings.HasPrefix(p, strings.TrimSuffix(path, "/")+"/") {
			at = append(at, p)
		}
	}
	return at, nil
}
