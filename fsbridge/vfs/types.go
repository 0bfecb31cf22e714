package vfs

import (
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// RootID is the number of the root of every [Tree].
const RootID = 1

// Errno returns what a client is told of an error of a [Tree]: see [fsbridge.Errno].
func Errno(err error) posix.Errno { return fsbridge.Errno(err) }

// Request says who asks for an operation.
type Request struct {
	// PID is the thread that asks, as the client numbers it; 0 for write-back.
	PID uint32
	// ID is the transport's number of the request: [fsbridge.Op.Request].
	ID uint64
	// Cancel, if not nil, is closed when the client gives the request up:
	// [fsbridge.Op.Cancel].
	Cancel <-chan struct{}
	// Waits, if not nil, tells whether the client still waits for the answer: nothing is performed for who has ended. Nil: the
	// client ends nobody whose request is being served.
	Waits func() bool
	// UID and GID are to whom belongs what it makes, if Known. That counts only where
	// root serves the folder without Options.Owner: elsewhere it belongs to us.
	UID, GID uint32
	Known    bool
	// Umask is what the mode of what it makes does without, unless the directory has a default access list,
	// which counts instead. It is 0 where the host applies the umask, or the client has done it.
	Umask uint32
}

// Attr describes a node as the workload sees it. Times are nanoseconds since 1970.
type Attr struct {
	Ino, Size, Blocks               uint64
	Mode, Nlink, UID, GID           uint32 // Mode with the type
	Rdev, Blksize                   uint32
	AtimeNano, MtimeNano, CtimeNano int64

	// TTL is how long the client may keep the rest.
	TTL time.Duration
}

// Entry is a name that was looked up or made. The client has one reference more to
// the node, which [Tree.Forget] gives back.
type Entry struct {
	Node    uint64 // 0: there is no such name, and that may be kept, too
	NameTTL time.Duration
	Attr    Attr
}

// Opened is an open file.
type Opened struct {
	Handle uint64 // for [Tree.Release]; never 0
	// KeepCache: the file is as the client was last told, so its pages of it stay.
	KeepCache bool
}

// DirEntry is one name of a listing.
type DirEntry struct {
	Name string
	Ino  uint64
	Off  uint64 // where the listing goes on after it
	Type uint32 // S_IFMT bits
}

// The attributes that a [SetAttr] sets.
const (
	SetMode = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
)

// SetAttr says what [Tree.SetAttr] shall set.
type SetAttr struct {
	Set            uint32 // SetMode, SetUID ...
	Mode, UID, GID uint32
	Size           uint64 // bytes
	// AtimeNano and MtimeNano are nanoseconds since 1970, or hostfs.TimeNow.
	AtimeNano, MtimeNano int64

	// Handle, if not 0, is an open file through which the size is set.
	Handle uint64
	// KillPriv: a new size takes setuid and setgid away.
	KillPriv bool
}

// CreateFile says what [Tree.Create] shall make and open. Flags are those of open(2).
type CreateFile struct {
	Name        string
	Flags, Mode uint32
	KillPriv    bool // truncating a file that is there takes setuid and setgid away
}
