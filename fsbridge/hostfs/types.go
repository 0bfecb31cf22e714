package hostfs

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// NameMax is the longest path component in bytes (NAME_MAX of Linux).
const NameMax = 255

// ErrName is returned (wrapped) for a path component that is not one: empty,
// ".", "..", longer than [NameMax], or holding a separator or NUL.
var ErrName = errors.New("hostfs: not a path component")

// ErrChanged is returned (wrapped) when what is found under a name is not the
// inode that was expected there: somebody renamed or replaced it.
var ErrChanged = errors.New("hostfs: another file has taken this name")

// CannotLook tells whether err says that nothing can be looked at under a name: what was
// there is removed, replaced or closed to us.
func CannotLook(err error) bool {
	for _, e := range []error{posix.ENOENT, posix.ENOTDIR, posix.ELOOP, posix.EACCES, posix.ESTALE, ErrName} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// CheckName returns nil if name is one path component, else an error wrapping
// [ErrName] and ENAMETOOLONG or EINVAL. Any byte except '/' and NUL is fine:
// names need not be UTF-8.
func CheckName(name string) error {
	switch {
	case len(name) > NameMax:
		return fmt.Errorf("%w: %d bytes: %w", ErrName, len(name), posix.ENAMETOOLONG)
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%w: %q: %w", ErrName, name, posix.EINVAL)
	case strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: %q: %w", ErrName, name, posix.EINVAL)
	}
	return nil
}

// SplitPath splits a path relative to a root into its components. "" and "."
// mean the root itself and give an empty slice. It refuses absolute paths,
// empty components, "." and ".." inside, NUL and over-long names.
func SplitPath(path string) ([]string, error) {
	if path == "" || path == "." {
		return nil, nil
	}
	parts := strings.Split(path, "/")
	for _, p := range parts {
		if err := CheckName(p); err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
	}
	return parts, nil
}

// ID identifies an inode on this machine while it exists. Inode numbers are
// reused after an inode is freed.
type ID struct {
	Dev uint64
	Ino uint64
}

// Stat is what the host knows of an inode. Times are nanoseconds since the
// Unix epoch, in the form of [Nanoseconds]; Size is bytes; Blocks is in units of 512 bytes.
type Stat struct {
	ID
	Mode    uint32 // S_IFMT and all twelve permission bits
	Nlink   uint64
	UID     uint32
	GID     uint32
	Rdev    uint64
	Size    int64
	Blocks  int64
	Blksize int64
	Atime   int64
	Mtime   int64
	Ctime   int64
}

// Type returns the S_IFMT bits.
func (s *Stat) Type() uint32 { return s.Mode & posix.S_IFMT }

// IsDir, IsRegular and IsSymlink test the file type.
func (s *Stat) IsDir() bool     { return s.Type() == posix.S_IFDIR }
func (s *Stat) IsRegular() bool { return s.Type() == posix.S_IFREG }
func (s *Stat) IsSymlink() bool { return s.Type() == posix.S_IFLNK }

// ModTime returns Mtime as a [time.Time].
func (s *Stat) ModTime() time.Time { return time.Unix(Seconds(s.Mtime)) }

// TimeOmit and TimeNow are special values for [Utimes].
const (
	TimeOmit int64 = -1 << 63
	TimeNow  int64 = -1<<63 + 1
)

// TimeOf returns what [UtimesFD] sets a time to: now, or seconds and nanoseconds
// since 1970. What does not fit into nanoseconds is moved to where it does.
func TimeOf(now bool, sec uint64, nsec uint32) int64 {
	if now {
		return TimeNow
	}
	return Nanoseconds(int64(sec), int64(min(nsec, 999_999_999)))
}

// The moments that a time has room for are those of ext4 and xfs, from 1901 to 2486.
const (
	firstSecond = -1 << 31
	lastSecond  = firstSecond + math.MaxUint64/1_000_000_000 - 1
)

// Nanoseconds joins seconds and nanoseconds since 1970 to one number. Until 2262 that is what it
// seems; later moments take the negative numbers of those before December 1901, so that each time an ext4
// or xfs can hold is one number and no other's. What is out of reach becomes the nearest second.
func Nanoseconds(sec, nsec int64) int64 {
	sec = min(max(sec, firstSecond), lastSecond)
	return int64(uint64(sec)*1_000_000_000 + uint64(nsec))
}

// Seconds takes apart what [Nanoseconds] joined.
func Seconds(ns int64) (sec, nsec int64) {
	const start = firstSecond * 1_000_000_000
	since := uint64(ns) - uint64(start&math.MaxUint64)
	return firstSecond + int64(since/1_000_000_000), int64(since % 1_000_000_000)
}
