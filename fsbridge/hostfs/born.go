package hostfs

import "github.com/codeagent/sandbox/fsbridge/hostfs/posix"

// BornFD returns when the inode behind fd was made, in nanoseconds since 1970 by the clock of its file system. False says that
// the file system does not tell.
func BornFD(fd int) (int64, bool) {
	t, ok := posix.Born(fd)
	return t.Nano(), ok
}

// CreateAs runs create, which makes one file, so that the file belongs to uid and gid: the
// kernel gives it to them itself, and knows what a setgid directory, a mount option or
// a quota says about it. Giving it away afterwards would not do: under its name there
// can be another file by then.
//
// create may write into every directory that we may write into: whether uid may is for
// the caller to check. Only root can do this. Where an identity does not exist in our
// user namespace, the file stays ours.
func CreateAs(uid, gid uint32, create func() error) error { return posix.CreateAs(uid, gid, create) }
