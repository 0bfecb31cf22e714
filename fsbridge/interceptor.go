package fsbridge

import (
	"errors"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Kind says what a mutation does.
type Kind uint8

// The kinds of mutation. Which fields of [Op] each one uses stands beside it.
const (
	_             Kind = iota
	OpWrite            // Node, Off, Len: write, or write-back of a mapping
	OpTruncate         // Node, Size: open with O_TRUNC (Size 0) or setattr of the size
	OpFallocate        // Node, Off, Len, Flags: FALLOC_FL_*
	OpCopyRange        // Node (the destination), Off, Len
	OpSetattr          // Node: mode, owner or times
	OpSetXattr         // Node, Attr
	OpRemoveXattr      // Node, Attr
	OpCreate           // Dir, Name: a genuinely new regular file
	OpMkdir            // Dir, Name
	OpMknod            // Dir, Name
	OpSymlink          // Dir, Name
	OpTmpfile          // Dir: a new file without a name
	OpLink             // Node (the target), Dir, Name: the new name
	OpUnlink           // Dir, Name, Node: what the name binds
	OpRmdir            // Dir, Name, Node
	OpRename           // Node (the source), Dir, Name -> NewDir, NewName; Victim: what is there, or nil; Flags: RENAME_*
	kinds
)

var kindNames = [kinds]string{
	"", "write", "truncate", "fallocate", "copy_file_range", "setattr", "setxattr", "removexattr",
	"create", "mkdir", "mknod", "symlink", "tmpfile", "link", "unlink", "rmdir", "rename",
}

// String returns the name of the kind as the specification spells it.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "unknown"
}

// Makes tells whether an operation of this kind makes an inode.
func (k Kind) Makes() bool { return k >= OpCreate && k <= OpTmpfile }

// Op is one mutation that a bridge is about to perform. The bridge owns it and
// may reuse it after End; nobody keeps it longer.
type Op struct {
	Kind Kind
	// PID is the thread that asks, as the guest numbers it (see
	// hypervisor.Transport.HostPID); 0 for write-back.
	PID uint32

	Node   *Object
	Dir    *Object
	Name   string
	NewDir *Object
	// NewName, Aside and Victim are for rename; Victim is nil when nothing is there. Aside is not empty if NewName differs from Name
	// only in case: what is renamed has that name, in the same directory, for a moment, where the file system wants it.
	NewName, Aside string
	Victim         *Object

	Off, Len int64
	Size     int64
	Flags    uint32
	Attr     string

	// DirFD and NewDirFD are pinned descriptors of Dir and NewDir (usable as a
	// dirfd), valid from Begin to End. Namespace operations set them.
	DirFD, NewDirFD int
	// NodeStat describes Node, VictimStat Victim, as seen just before Begin,
	// where the bridge has it anyway; a zero Ino says it has not.
	NodeStat, VictimStat hostfs.Stat

	// Validate, if not nil, is called by the Interceptor once it holds the
	// Guard and before it looks at anything the Op names. The bridge checks that
	// DirFD and NewDirFD are still where the names of their directories say: a
	// rollback may have moved a directory into the undo log while the operation
	// waited. After an error Begin returns it. Checked once per directory and
	// epoch, so it costs one comparison on the hot path.
	Validate func(epoch uint64) error

	// Dirs are the directories that the operation has locked, or nil. While it waits for
	// an answer the Interceptor lets others have them ([LockedDirs.Pause]), and looks again
	// afterwards at what the Op names.
	Dirs *LockedDirs

	// Ahead, of an OpWrite: nothing is written now. From the moment of End on, somebody
	// can write to Node without asking; what he then changes is known only when the
	// step ends. Standing says that he can already, by a right that he got before the
	// epoch, so that nobody can be refused. Append says that he wants to append only.
	Ahead, Standing, Append bool
	// LeftOut: setuid and setgid were asked for, too, and are not set.
	LeftOut bool
	// Lends: from End on, somebody can write to Node, or to what is made, without asking.
	Lends bool

	// Request is the bridge's own number of the request. Held, if not nil, is
	// called with it when the operation begins to wait for somebody's decision,
	// from any goroutine and perhaps too late: the bridge serves others meanwhile.
	Request uint64
	Held    func(request uint64)

	// Cancel is closed when the kernel interrupts the request. It is no proof
	// that the process died: see [Interceptor.Begin].
	Cancel <-chan struct{}
	// Ours: no process of the guest asks but this program itself, and once Cancel
	// is closed it does not wait any more.
	Ours bool
}

// Errors of Begin. A bridge turns them into errnos in its one table; any
// syscall.Errno inside the error is taken as it is.
var (
	// ErrDenied: somebody said no, or the step is failing (EPERM).
	ErrDenied = errors.New("fsbridge: denied")
	// ErrReadOnly: the directory takes no writes, perhaps because its undo log
	// is out of order: never unprotected writes (EROFS).
	ErrReadOnly = errors.New("fsbridge: directory is read-only")
	// ErrNoSpace: the log cannot keep the preimage, or too many operations are
	// held (ENOSPC).
	ErrNoSpace = errors.New("fsbridge: no space to keep the preimage")
	// ErrInterrupted: the asking process died while it waited (EINTR).
	ErrInterrupted = errors.New("fsbridge: interrupted")
	// ErrFailed: the Interceptor crashed or did not answer (EIO).
	ErrFailed = errors.New("fsbridge: interceptor failed")
)

// Ticket is the right to perform one Op. The zero Ticket is the one of a
// bridge without interception.
type Ticket struct {
	// Performed: the capture was the removal (an unlinked file or an empty
	// directory was adopted by the log). The bridge must not remove it again.
	Performed bool
	// Epoch in which the operation runs.
	Epoch uint64
	shard uint32
	held  bool
}

// Interceptor is asked before every mutation, by every bridge. Methods are
// safe for concurrent use.
type Interceptor interface {
	// Begin returns when op may be performed: it is admitted, what it will
	// destroy is in the log, and the epoch cannot end before End. It blocks
	// while somebody decides. When op.Cancel is closed it finds out whether the
	// process is really dying and only then returns [ErrInterrupted]. After an
	// error the bridge performs nothing and does not call End.
	Begin(op *Op) (Ticket, error)

	// End reports that op was performed (err nil) or failed. For the kinds that
	// make an inode ([Kind.Makes]), created is its Object; for [OpLink] it is the
	// Object that got a name more, and for the others nil. It must be called exactly once for
	// each successful Begin, by the goroutine that called it.
	End(t Ticket, op *Op, created *Object, err error)
}

// LinkHolder is an Interceptor that keeps files by names of its own. A bridge asks
// it when it tells how many names a file has.
type LinkHolder interface {
	// Held returns how many of the names of the file id are the Interceptor's. It
	// is never behind what a stat made before shows.
	Held(id hostfs.ID) int
}

// Change is one thing that a rollback, a redo or somebody outside changed
// behind the bridge's back, so that caches can be told.
type Change struct {
	// Dir is the directory whose entry Name changed; an empty Name means the
	// inode ID's content or attributes changed.
	Dir  hostfs.ID
	Name string
	ID   hostfs.ID
}

// DirChanges are names in one directory that may have been changed by somebody
// outside. ID finds the directory wherever it is; if it is zero, Path does,
// which is relative to the root. An empty name is the directory itself.
type DirChanges struct {
	ID    hostfs.ID
	Path  string
	Names []string
}

// DirChangesOf sorts paths, which are relative to the root, by their directories.
func DirChangesOf(paths []string) (dirs []DirChanges) {
	at := make(map[string]int) // a batch has many names of few directories
	for _, p := range paths {
		dir, name := SplitPath(p)
		i, ok := at[dir]
		if !ok {
			i = len(dirs)
			at[dir] = i
			dirs = append(dirs, DirChanges{Path: dir})
		}
		dirs[i].Names = append(dirs[i].Names, name)
	}
	return dirs
}

// SplitPath splits a relative path into directory and last component.
func SplitPath(path string) (dir, name string) {
	if path == "." || path == "" {
		return "", ""
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// Changes is what [Bridge.Invalidate] takes. All says that too much changed to
// list, or that it is not known: every cache must be dropped.
type Changes struct {
	All  bool
	List []Change
}
