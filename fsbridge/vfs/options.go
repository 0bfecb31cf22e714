package vfs

import (
	"log/slog"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Cache says how long the kernel may remember what it was told.
type Cache uint8

const (
	// CacheLong keeps entries, attributes, pages and listings until the bridge
	// invalidates them. It is the default.
	CacheLong Cache = iota
	// CacheNone asks the host again each time (the specification's strict
	// mode): no entry, attribute or page outlives the call that fetched it.
	CacheNone
)

// Owner is the identity that the workload runs under. With it the bridge shows
// the files of whoever started the program as the workload's own: started as
// root, all files; otherwise those of the effective user and group. What the
// workload creates belongs on the host to whoever started the program. It may
// change no owner.
type Owner struct {
	UID, GID uint32
	// Alone says that the client has no other ids. Then everybody's files are shown as the workload's: its
	// kernel lets nobody change a file, nor what is in a directory, whose owner or group has no number there.
	// What may be done with them the host decides. Access lists are shown without the entries for others, and
	// can be changed only where there are none.
	Alone bool
}

// Defaults of [Options].
const (
	DefaultMaxDirFDs  = 320
	DefaultTTL        = time.Hour
	DefaultWatchAfter = time.Second
)

// Options configures a [Tree] and its server. Root is required; the zero value
// of everything else is a working default.
type Options struct {
	// Root is the working folder. It must stay open until the server is closed.
	Root *hostfs.Root

	// Hooks is asked before every mutation; nil means no interception, for
	// benchmarks and read-only trees.
	Hooks fsbridge.Interceptor

	// Dirs are the folder's locks; nil if only the tree changes names.
	Dirs *fsbridge.DirLocks

	// ReadOnly refuses every mutation with EROFS.
	ReadOnly bool

	// SymlinksReadOnly refuses every mutation of a symlink, making one
	// included, with EROFS (the undo log's symlink policy "read-only").
	SymlinksReadOnly bool

	// Hidden are paths relative to Root that the workload must not reach:
	// everything on and below them fails with EACCES, and listings leave them
	// out. They need not exist. They stay hidden when they are replaced, moved
	// or linked elsewhere, and when a directory above them is renamed; a
	// second hard link of a file that lies in a hidden directory does not.
	Hidden []string

	// Owner maps ownership; nil shows and sets it as it is on the host.
	Owner *Owner

	// Posix, if not nil, keeps what the host's file system cannot hold, as if
	// that were Windows': see [fsbridge.Posix].
	Posix fsbridge.Posix

	// Cache selects what the kernel may keep; TTL how long (CacheLong only,
	// [DefaultTTL] if 0).
	Cache Cache
	TTL   time.Duration

	// OnList, if not nil, is called with a directory's path relative to Root
	// ("." for the root) and its number before it is first listed or looked
	// into, so that a watcher can watch it; for one that the workload makes, within
	// WatchAfter or by [Tree.Settle], and until then little of it is cached. If it
	// returns false nothing in that directory is. It is called by several
	// goroutines, once per directory and node.
	OnList func(path string, id hostfs.ID) (watched bool)

	// WatchAfter is how long a directory that the workload makes is not watched at
	// most ([DefaultWatchAfter] if 0).
	WatchAfter time.Duration

	// OnBusy, if not nil, is called with the path and number of a directory, as
	// OnList is, at each of many writes to a file in it, so that a watcher can
	// spare itself and the writer the events. It is called by several goroutines
	// and must not block.
	OnBusy func(path string, id hostfs.ID)

	// MaxDirFDs bounds the directory descriptors kept open ([DefaultMaxDirFDs]
	// if 0). Running requests may use more for a moment.
	MaxDirFDs int

	// MaxFD is the first descriptor that an open file may not have: whoever opens
	// more gets ENFILE (0: most of what the process may have).
	MaxFD int

	// Touch, if not 0, is a modification time, in ns since 1970, that is not set (fsbridge/fuseproto).
	Touch int64

	// Logger takes what nobody was told otherwise; nil is silent.
	Logger *slog.Logger
}
