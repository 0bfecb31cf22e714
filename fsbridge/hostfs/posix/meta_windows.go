package posix

import (
	"encoding/binary"

	"golang.org/x/sys/windows"
)

// Fstat describes what is open as fd, Fstatat what stands under a name.
func Fstat(fd int, st *Stat_t) error {
	return here.withFile(fd, func(u using) error {
		err := stat(u.handle, u.file, st)
		st.Dev, st.Ino = u.volume, u.number() // wine does not tell the volume of what has been removed
		return err
	})
}

// Fstatat describes what stands under a name.
func Fstatat(dirfd int, name string, st *Stat_t) error {
	return here.withName(dirfd, name, opening{}, func(h windows.Handle, near *file) error { return stat(h, near, st) })
}

// Attributes returns the owner and the STATX_ATTR bits of name in dirfd, or of what is open as dirfd if the name is empty: none.
func Attributes(dirfd int, name string) (uid uint32, attributes uint64, err error) {
	var st Stat_t
	return 0, 0, Fstatat(dirfd, name, &st)
}

// Born returns when the inode behind fd was made. Anybody can change that; and a file that gets the name of one that was removed in
// the last seconds gets its time, too.
func Born(fd int) (t Timespec, ok bool) {
	err := here.withFile(fd, func(u using) error {
		var b [40]byte
		if err := ntQuery(u.handle, windows.FileBasicInformation, b[:]); err != nil {
			return err
		}
		t = moment(int64(binary.LittleEndian.Uint64(b[:])))
		return nil
	})
	return t, err == nil
}

// Faccessat asks for rights to name in dirfd. A user that may take the read-only attribute away has the right to write, unless the
// question is for what can be done right now (effective).
func Faccessat(dirfd int, name string, mode uint32, effective bool) error {
	want := uint32(0)
	if mode&R_OK != 0 {
		want |= windows.FILE_READ_DATA
	}
	if mode&W_OK != 0 {
		want |= windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA
	}
	if mode&X_OK != 0 {
		want |= windows.FILE_TRAVERSE
	}
	asked := func(access uint32) error {
		return here.withName(dirfd, name, opening{access: access}, func(windows.Handle, *file) error { return nil })
	}
	err := asked(want)
	if err == EACCES && mode&W_OK != 0 && !effective {
		var st Stat_t
		if Fstatat(dirfd, name, &st) == nil && st.Mode&S_IFMT == S_IFREG && st.Mode&0o200 == 0 {
			err = changeable(dirfd, name)
		}
	}
	return err
}

// changeable tells whether the attributes of name can be set, by setting none.
func changeable(dirfd int, name string) error {
	return here.withName(dirfd, name, opening{}, func(h windows.Handle, _ *file) error {
		c, err := ntOpenToChange(h, "", false)
		if err != nil {
			return err
		}
		defer ntClose(c)
		return setTimes(c, 0, 0)
	})
}

// setTimes sets times, of which 0 leaves one. The attributes of a read-only file are set, too, as they are: wine takes none for another.
func setTimes(h windows.Handle, accessed, written int64) error {
	t, err := traitsOf(h)
	if err != nil {
		return err
	}
	attributes := uint32(0)
	if t.attributes&windows.FILE_ATTRIBUTE_READONLY != 0 {
		attributes = t.attributes & attributesThatStay
	}
	return ntSet(h, windows.FileBasicInformation, basic(accessed, written, attributes))
}

// changing calls f with a handle of what is open as fd by which its attributes can be set.
func changing(fd int, f func(using, windows.Handle) error) error {
	return here.named(func() error {
		return here.withFile(fd, func(u using) error {
			if u.access&windows.FILE_WRITE_ATTRIBUTES != 0 { // so that it works without a name, too
				return f(u, u.handle)
			}
			h, err := ntOpenToChange(u.handle, "", u.follow)
			if err != nil {
				return err
			}
			defer ntClose(h)
			if now, err := look(h, u.file); err != nil || now.inode != u.inode {
				return ESTALE
			}
			return f(u, h)
		})
	})
}

// basic is a FILE_BASIC_INFORMATION: created, accessed, written, changed (0: as they are), attributes (0: as they are).
func basic(accessed, written int64, attributes uint32) []byte {
	b := make([]byte, 40)
	binary.LittleEndian.PutUint64(b[8:], uint64(accessed))
	binary.LittleEndian.PutUint64(b[16:], uint64(written))
	binary.LittleEndian.PutUint32(b[32:], attributes)
	return b
}

// Chmod sets the twelve bits of the mode of what is open as fd, also with O_PATH. A symlink gives EOPNOTSUPP. Of the bits Windows has
// the one that lets a file be written.
func Chmod(fd int, mode uint32) error {
	return changing(fd, func(u using, h windows.Handle) error {
		switch u.kind {
		case S_IFLNK:
			return EOPNOTSUPP
		case S_IFREG:
			return setReadOnly(h, mode&0o200 == 0)
		}
		return nil
	})
}

// setReadOnly sets the attribute, or takes it away.
func setReadOnly(h windows.Handle, on bool) error {
	t, err := traitsOf(h)
	if err != nil {
		return err
	}
	want := t.attributes &^ windows.FILE_ATTRIBUTE_READONLY
	if on {
		want |= windows.FILE_ATTRIBUTE_READONLY
	}
	if want == t.attributes {
		return nil
	}
	if want &= attributesThatStay; want == 0 {
		want = windows.FILE_ATTRIBUTE_NORMAL
	}
	return ntSet(h, windows.FileBasicInformation, basic(0, 0, want))
}

// Chown sets owner and group of what is open as fd, which Windows has not.
func Chown(fd, uid, gid int) error { return here.withFile(fd, func(using) error { return nil }) }

// Utimens sets the times of access and of modification of what is open as fd, also with O_PATH, in steps of 100 ns.
func Utimens(fd int, times *[2]Timespec) error {
	var set [2]int64
	for i := range times {
		switch times[i].Nsec {
		case UTIME_OMIT:
		case UTIME_NOW:
			var now windows.Filetime
			windows.GetSystemTimePreciseAsFileTime(&now)
			set[i] = int64(now.HighDateTime)<<32 | int64(now.LowDateTime)
		default:
			set[i] = times[i].filetime()
		}
	}
	if set == [2]int64{} {
		return nil
	}
	return changing(fd, func(_ using, h windows.Handle) error {
		return setTimes(h, set[0], set[1])
	})
}

// CreateAs runs create. There are no users but one.
func CreateAs(_, _ uint32, create func() error) error { return create() }

// Getxattr reads an attribute. Windows has no attributes that programs of Linux could use.
func Getxattr(dirfd int, name, attr string, buf []byte) (int, error) { return 0, EOPNOTSUPP }

// Listxattr reads the names of attributes.
func Listxattr(dirfd int, name string, buf []byte) (int, error) { return 0, EOPNOTSUPP }

// Setxattr sets an attribute.
func Setxattr(dirfd int, name, attr string, value []byte, flags int) error { return EOPNOTSUPP }

// Removexattr removes an attribute.
func Removexattr(dirfd int, name, attr string) error { return EOPNOTSUPP }

// HasDefaultACL tells whether the directory dirfd has a default access list.
func HasDefaultACL(dirfd int) bool { return false }

// Flags returns the flags (chattr) of what is open as fd.
func Flags(fd int) (uint32, error) { return 0, EOPNOTSUPP }

// SetFlags sets the flags (chattr) of what is open as fd.
func SetFlags(fd int, flags uint32) error { return EOPNOTSUPP }

// Umask sets the modes' bits that new files do not get, and returns those before. Windows has none: programs of a guest get what is
// usual on Linux, or all that they make could be written by everybody.
func Umask(mask int) int { return 0o022 }

// Getpagesize returns the size of a page in bytes.
func Getpagesize() int { return windows.Getpagesize() }

// OpenFiles is how many descriptors the process may have. False says that nobody limits them.
func OpenFiles() (uint64, bool) { return mostFiles, true }

// Written tells whether somebody can write to the file behind fd. Nobody tells.
func Written(fd int) (written, known bool) { return true, false }
