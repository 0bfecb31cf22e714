package api

import (
	"context"
	"io"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Bounds of a [Viewer].
const (
	// ViewEntries is how many entries a listing has at most, and by default.
	ViewEntries = 10_000
	// ViewDepth is how deep a listing goes at most.
	ViewDepth = 64
	// ViewAtOnce is how many calls are under way at once in a session, those that watch not counted; one more is messages.ErrBusy. ViewWatches is how many watch.
	ViewAtOnce  = 64
	ViewWatches = 64
	// ViewWatched is how many directories one recursive watch has at most.
	ViewWatched = 8192
)

// Viewer shows and changes files as commands see them: the working folders and everything else, such as /tmp, the home directory and /usr, by absolute path (a path that is not is an fs.ErrInvalid;
// "." and ".." are taken out of it by its text alone). A program inside does all of it, with the rights of a command: nothing is reached that a command could not reach, and no path is followed outside.
// What it tells is as hostile as a command's output; it is bounded.
//
// What changes something in a working folder is a step of type "api" in the history ([Origin].Tool begins its text), or takes part in the step of the command that runs, as a write of [Files] does: it
// can be undone, and safeguards hold it. That goes by where the path leads in the end, also through symlinks. In a folder that is read-only, and outside of the folders where commands may not write, the error is
// messages.ErrReadOnlyDirectory, or one that is fs.ErrPermission or syscall.EROFS.
//
// Errors are *fs.PathError with the path as it was asked for; what it is about can be tested with errors.Is: fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, and syscall's ENOTDIR, EISDIR, ENOTEMPTY,
// ELOOP, ENAMETOOLONG, EROFS, ENOSPC, EXDEV. messages.ErrNoMachine says that no guest runs, messages.ErrBusy that too much is under way, messages.ErrDenied that a safeguard was denied (nothing was changed).
// The error wraps errors.ErrUnsupported if the runtime has no such helper. The end of ctx ends a call; a change of a folder that was under way is rolled back then.
//
// Paths and names are as the kernel has them: they need not be UTF-8.
type Viewer interface {
	// StatPath describes a path. A symlink at its end is described itself, with where it leads to.
	StatPath(ctx context.Context, r PathRequest) (PathInfo, error)
	// ListPath lists a directory, without itself, in the order of the paths; symlinks are not followed below it.
	ListPath(ctx context.Context, r ListPathRequest) (PathListing, error)
	// MakeDir makes a directory and those above it. If it is there already, Existed is set and nothing is changed; if something else is, the error is fs.ErrExist.
	MakeDir(ctx context.Context, r MakeDirRequest) (PathChange, error)
	// MovePath renames, and makes the directories above the new path. A file takes the place of a file, and a directory that of an empty one, unless NoReplace is set (then it is fs.ErrExist). Across file systems, and so across
	// the border of a working folder, it copies, with modes, times, extended attributes and hard links within what is moved (as far as the other file system has them), and then removes, all in one step if one end is in a folder; anything but files, directories
	// and symlinks is then an error (fs.ErrInvalid) before something is changed. A symlink is moved itself. The answer's path is the new one.
	MovePath(ctx context.Context, r MovePathRequest) (PathChange, error)
	// RemovePath removes a path, and what is in it. A symlink is removed itself. It is fs.ErrNotExist if there is nothing, and syscall.ENOTEMPTY without Recursive for a directory that is not empty. A working folder itself is not removed (fs.ErrInvalid).
	RemovePath(ctx context.Context, r RemovePathRequest) (PathChange, error)
	// ReadPath writes a regular file, or a part of it, to out, as it is read; anything else is [ErrNotRegular] (a directory: syscall.EISDIR). r.Open is told what it is before the first byte. As many bytes come as the file had then: one that
	// becomes shorter meanwhile is an io.ErrUnexpectedEOF. A file that says that it has none (those of the proc file system) is read to its end. An out that is an io.ReaderFrom may be given the file itself.
	ReadPath(ctx context.Context, r ReadPathRequest, out io.Writer) error
	// WritePath makes a file with all that in gives, or replaces one, at once: who looks sees the old one or the new one, and a failure, of in as well, leaves the old one. Missing directories above it are made. A file that is replaced
	// keeps its mode and is another inode; a symlink at the end is followed, and stays. Nothing is held in memory but a buffer. The content for a working folder is first kept beside its undo log, so that
	// a slow client keeps no step open.
	WritePath(ctx context.Context, r WritePathRequest, in io.Reader) (PathChange, error)
	// WatchPath gives emit what happens in a directory, or to a file, until ctx ends (then it returns ctx's error), emit fails (then its error), or the path is gone (nil, after the event of that). It calls r.Ready when it watches: what is done after that is seen. Who is slow misses events, and is told so by one of type
	// [PathOverflow]; the number of directories is bounded ([ViewWatched]), and what is beyond it is an [ErrTooLarge].
	WatchPath(ctx context.Context, r WatchPathRequest, emit func(PathEvent) error) error
}

// PathRequest names a path.
type PathRequest struct {
	Path string
	// Within, unless it is empty, is a directory, absolute and without symlinks, that the path must not lead out of, through symlinks either: else it is [ErrOutside], and nothing is read or changed. What a symlink at the
	// end leads to counts where that is followed.
	Within string
	// Follow asks about what a symlink at the end leads to, in place of the symlink. What leads nowhere is not there.
	Follow bool
}

// The types of a [PathInfo].
const (
	PathFile      = "file"
	PathDirectory = "directory"
	PathSymlink   = "symlink"
	PathOther     = "other" // a device, a FIFO, a socket
)

// PathInfo describes a path.
type PathInfo struct {
	Path string // absolute and clean; not resolved
	Type string
	Size int64  // in bytes
	Mode uint32 // permissions, setuid 04000, setgid 02000 and sticky 01000
	UID  uint32 // as programs inside see it
	GID  uint32
	// Owner and Group are the names that programs inside find for them; the numbers, if there are none.
	Owner, Group string
	ModTime      time.Time
	// Target is what a symlink says, and TargetType the type of what it leads to; empty if it leads nowhere.
	Target, TargetType string
}

// ListPathRequest lists a directory.
type ListPathRequest struct {
	Path   string
	Within string // as in [PathRequest]
	Depth  int    // 0 and 1: its entries only; at most [ViewDepth]
	Limit  int    // 0: [ViewEntries], which is also the most
}

// PathListing is in the order of the paths, names compared byte by byte: a directory is followed by what is in it.
type PathListing struct {
	Entries   []PathInfo
	Truncated bool // there are more
}

// PathChange says what a change did.
type PathChange struct {
	PathInfo
	// Step is the step in the history; 0: nothing in a working folder was changed.
	Step undolog.StepID
	// Existed: MakeDir has found the directory, WritePath has replaced a file.
	Existed bool
}

// MakeDirRequest makes a directory.
type MakeDirRequest struct {
	Path   string
	Mode   uint32 // of what is made; 0 means 0777. The umask is taken from it
	Origin Origin
}

// MovePathRequest moves.
type MovePathRequest struct {
	From, To  string
	NoReplace bool
	Origin    Origin
}

// RemovePathRequest removes.
type RemovePathRequest struct {
	Path      string
	Recursive bool
	Origin    Origin
}

// ReadPathRequest reads a file.
type ReadPathRequest struct {
	Path   string
	Within string // as in [PathRequest]
	Offset int64  // in bytes; behind the end there is nothing
	Limit  int64  // in bytes; 0: to the end
	// Open is told, before the first byte, what file it is. Its error ends the call. It may be nil.
	Open func(PathInfo) error
}

// WritePathRequest writes a file.
type WritePathRequest struct {
	Path   string
	Within string // as in [PathRequest]
	Mode   uint32 // of a new file; 0 means 0666. The umask is taken from it
	Create bool   // it is fs.ErrExist if something is there
	Origin Origin
}

// WatchPathRequest watches.
type WatchPathRequest struct {
	Path      string
	Recursive bool // also what is below, and comes later
	// Ready is called once, when the watch has begun. It may be nil.
	Ready func()
}

// The types of a [PathEvent].
const (
	PathCreated  = "create"
	PathWritten  = "write"
	PathRemoved  = "remove"
	PathRenamed  = "rename" // the name is not this one any more; the new one, if it is watched, is a create
	PathChmod    = "chmod"  // mode, owner or times
	PathOverflow = "overflow"
)

// PathEvent is something that happened.
type PathEvent struct {
	Type string
	Path string // relative to what is watched; "." is that itself
}
