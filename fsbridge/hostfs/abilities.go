package hostfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Ability is something that a file system may or may not be able to do.
type Ability string

// What [Try] tries. None of them is needed: without [CanRenameNew] names are looked at first,
// and what a file system cannot hold nobody can remove from it.
const (
	CanRenameNew Ability = "rename without replacing"
	CanExchange  Ability = "exchange of two names"
	CanLink      Ability = "hard links"
	CanSymlink   Ability = "symlinks"
	CanFifo      Ability = "FIFOs"
	CanMode      Ability = "permissions"
	CanXattr     Ability = "extended attributes"
	CanACL       Ability = "ACLs"
	CanTmpfile   Ability = "files without a name"
	CanAllocate  Ability = "allocation ahead"
	CanHole      Ability = "holes"
	CanSeekHole  Ability = "way to find holes"
	CanNanotimes Ability = "times in nanoseconds"
	CanKeepInode Ability = "inode numbers that stay"
)

// Try tries what the file system of the directory behind dirfd can do, in a directory of its own
// there that is gone afterwards, and returns what failed, in the order of the constants. It gives
// the directory its times back.
func Try(dirfd int) (cannot []Ability, err error) {
	before, err := StatFD(dirfd)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf(".sandbox-doctor.%d", os.Getpid())
	if err := MkdirAt(dirfd, name, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, RemoveAll(context.Background(), dirfd, name, nil))
		_ = UtimesFD(dirfd, before.Atime, before.Mtime)
	}()
	fd, err := OpenDirAt(dirfd, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = Close(fd) }()
	for _, a := range attemptsOf() {
		if err := newFile(fd, "f"); err != nil {
			return nil, err
		}
		if err := a.try(fd); err != nil {
			cannot = append(cannot, a.what)
		}
		for _, n := range []string{"f", "g"} {
			if err := RemoveAll(context.Background(), fd, n, nil); err != nil {
				return nil, err
			}
		}
	}
	return cannot, nil
}

type attempt struct {
	what Ability
	try  func(fd int) error // with a file f in the directory behind fd; g is free
}

// attemptsOf lists what [Try] does.
func attemptsOf() []attempt {
	return []attempt{
		{CanRenameNew, func(fd int) error { return RenameAt(fd, "f", fd, "g", posix.RENAME_NOREPLACE) }},
		{CanExchange, func(fd int) error {
			return errors.Join(newFile(fd, "g"), RenameAt(fd, "f", fd, "g", posix.RENAME_EXCHANGE))
		}},
		{CanLink, tryLink},
		{CanSymlink, func(fd int) error { return SymlinkAt("f", fd, "g") }},
		{CanFifo, func(fd int) error { return MknodAt(fd, "g", posix.S_IFIFO|0o600) }},
		{CanMode, tryMode},
		{CanXattr, func(fd int) error { return SetXattrAt(fd, "f", "user.sandbox", []byte("1"), 0) }},
		{CanACL, tryACL},
		{CanTmpfile, func(fd int) error {
			f, err := OpenTmpfile(fd, posix.O_RDWR, 0o600)
			if err == nil {
				err = Close(f)
			}
			return err
		}},
		{CanAllocate, func(fd int) error { return withFile(fd, func(f int) error { return FallocateFD(f, 0, 0, 1<<16) }) }},
		{CanHole, tryHole},
		{CanSeekHole, trySeek},
		{CanNanotimes, tryTimes},
		{CanKeepInode, tryInode},
	}
}

func newFile(fd int, name string) error {
	f, err := OpenAt(fd, name, posix.O_RDWR|posix.O_CREAT|posix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(PwriteFull(f, []byte("x"), 0), Close(f))
}

// withFile calls f with a descriptor of the file f.
func withFile(fd int, f func(int) error) error {
	n, err := OpenAt(fd, "f", posix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(n), Close(n))
}

// expect is nil if ok.
func expect(ok bool) error {
	if !ok {
		return posix.EOPNOTSUPP
	}
	return nil
}

// tryLink makes a second name and expects it to be one of the same inode.
func tryLink(fd int) error {
	if err := LinkAt(fd, "f", fd, "g"); err != nil {
		return err
	}
	a, err := StatAt(fd, "f")
	b, berr := StatAt(fd, "g")
	return errors.Join(err, berr, expect(a.ID == b.ID && a.Nlink == 2))
}

func tryMode(fd int) error {
	for _, mode := range []uint32{0o640, 0o751} {
		if err := ChmodAt(fd, "f", mode); err != nil {
			return err
		}
		if st, err := StatAt(fd, "f"); err != nil || st.Mode&0o7777 != mode {
			return errors.Join(err, posix.EOPNOTSUPP)
		}
	}
	return nil
}

// tryACL expects an ACL that is set to be read, which 9P without ACLs refuses.
func tryACL(fd int) error {
	if err := SetXattrAt(fd, "f", AccessACL, smallACL(), 0); err != nil {
		return err
	}
	_, err := GetXattrAt(fd, "f", AccessACL, make([]byte, 256))
	return err
}

// tryHole expects a file that was made long to take no space.
func tryHole(fd int) error {
	return withFile(fd, func(f int) error {
		if err := TruncateFD(f, 4<<20); err != nil {
			return err
		}
		st, err := StatFD(f)
		return errors.Join(err, expect(st.Blocks*512 < 1<<20))
	})
}

// trySeek expects that a file of nothing but a hole is said to have no data.
func trySeek(fd int) error {
	return withFile(fd, func(f int) error {
		if err := errors.Join(TruncateFD(f, 0), TruncateFD(f, 4<<20)); err != nil {
			return err
		}
		start, _, err := NextData(f, 0, 4<<20)
		return errors.Join(err, expect(start == 4<<20))
	})
}

func tryTimes(fd int) error {
	return withFile(fd, func(f int) error {
		const moment = 1_600_000_001_123_456_789
		if err := UtimesFD(f, moment, moment); err != nil {
			return err
		}
		st, err := StatFD(f)
		return errors.Join(err, expect(st.Mtime == moment))
	})
}

// tryInode expects a number to outlive a rename, and a change.
func tryInode(fd int) error {
	a, err := StatAt(fd, "f")
	if err == nil {
		err = withFile(fd, func(f int) error { return PwriteFull(f, []byte("y"), 0) })
	}
	if err == nil {
		err = RenameNew(fd, "f", fd, "g")
	}
	b, berr := StatAt(fd, "g")
	return errors.Join(err, berr, expect(a.ID == b.ID))
}

// smallACL is an access ACL with an entry for one user (in the form of [AccessACL]).
func smallACL() []byte {
	acl := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag, perm byte
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, 4, 1}, {4, 4, ^uint32(0)}, {0x10, 4, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		acl = append(acl, e.tag, 0, e.perm, 0)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	return acl
}
