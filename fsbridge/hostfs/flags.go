package hostfs

import (
	"encoding/binary"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// FlagsName is what a file's flags (chattr) are called where they are kept among its attributes. No file
// system has an attribute of that name.
const FlagsName = "sandbox.flags"

// keptFlags are the flags that a user sets, save immutable and append-only: those of a file
// that has them cannot be lost, since it can be neither removed nor replaced.
const keptFlags = 0x1 | 0x2 | 0x4 | // secure deletion, undeletable, compressed
	0x8 | 0x40 | 0x80 | // synchronous, no dump, no access times
	0x4000 | 0x8000 | 0x10000 | 0x20000 | // journalled data, no tail merging, synchronous directory, top directory
	flagNoCow | 0x20000000 // the project is inherited

const flagNoCow = 0x800000

// AttributesFD reads all that an inode has besides its content and what stat(2) tells, so that another one can be made that is like it:
// its extended attributes, as [AllXattrsAfter] does, and its flags. fd may be O_PATH; typ are the S_IFMT bits. No symlink.
func AttributesFD(fd int, typ uint32, ready func() error) ([]Xattr, error) {
	list, err := AllXattrsAfter(fd, ready)
	if err == nil && (typ == posix.S_IFREG || typ == posix.S_IFDIR) {
		list = withFlags(list, fd)
	}
	return list, err
}

// AttributesAt is [AttributesFD] for name itself in the directory dirfd, which may be a symlink.
func AttributesAt(dirfd int, name string, typ uint32) ([]Xattr, error) {
	if typ != posix.S_IFREG && typ != posix.S_IFDIR {
		return AllXattrsAt(dirfd, name)
	}
	fd, err := OpenAt(dirfd, name, posix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = Close(fd) }()
	return AttributesFD(fd, typ, nil)
}

// withFlags adds the flags of the regular file or directory behind fd, which may be O_PATH, to its attributes,
// if it has any that a user can set and they can be read.
func withFlags(list []Xattr, fd int) []Xattr {
	flags := uint32(0)
	_ = readable(fd, func(fd int) (err error) {
		flags, err = posix.Flags(fd)
		return err
	})
	if flags &= keptFlags; flags == 0 {
		return list
	}
	return append(list, Xattr{Name: FlagsName, Value: binary.LittleEndian.AppendUint32(nil, flags)})
}

// SetFlagsFD gives the regular file or directory behind fd, which may be O_PATH, the flags among the
// attributes list, and no others that a user can set. What the file system does not take is left.
func SetFlagsFD(fd int, list []Xattr) {
	want := uint32(0)
	for _, x := range list {
		if x.Name == FlagsName && len(x.Value) == 4 {
			want = binary.LittleEndian.Uint32(x.Value) & keptFlags
		}
	}
	_ = readable(fd, func(fd int) error {
		have, err := posix.Flags(fd)
		if err != nil || have&keptFlags == want {
			return err
		}
		err = posix.SetFlags(fd, uint32(have&^keptFlags|want))
		if err != nil && want&flagNoCow != 0 { // only an empty file can get that one
			err = posix.SetFlags(fd, uint32(have&^(keptFlags&^flagNoCow)|want&^flagNoCow))
		}
		return err
	})
}

// readable calls f with fd, or with a descriptor for reading if fd is O_PATH.
func readable(fd int, f func(fd int) error) error {
	if err := f(fd); !errors.Is(err, posix.EBADF) {
		return err
	}
	n, err := ReopenFD(fd, posix.O_RDONLY|posix.O_NONBLOCK|posix.O_NOATIME)
	if err != nil {
		n, err = ReopenFD(fd, posix.O_RDONLY|posix.O_NONBLOCK)
	}
	if err != nil {
		return err
	}
	defer func() { _ = Close(n) }()
	return f(n)
}
