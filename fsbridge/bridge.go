package fsbridge

import (
	"context"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Bridge is a running server of one working folder, as the actors see it. The
// FUSE, virtio-fs and 9P servers implement it. Methods are safe for concurrent
// use.
type Bridge interface {
	// Fence makes the kernel (or guest) write back every dirty page of inodes
	// with a write handle or mapping and returns when those writes were
	// answered. It must not be called while a held operation blocks them.
	Fence(ctx context.Context) error

	// Invalidate tells kernel and guest caches what changed behind them. It
	// returns when what it could tell has been told, and never waits for a held
	// operation.
	Invalidate(c Changes) error

	// InFlight returns the number of requests that are being served, held ones
	// included, for quiescence and inspection.
	InFlight() int

	// Close ends service: later requests fail with ENOTCONN. It does not wait
	// for held operations.
	Close() error
}

// Concealer is a Bridge that hides paths of its folder, and counts who asks for them.
type Concealer interface {
	Bridge

	// Refused returns how often the workload asked for something hidden, by path relative to the folder.
	Refused() map[string]uint64
}

// Granter is a Bridge that hands the workload descriptors on which it writes without
// asking. What a granted file holds is captured when it is granted, and again for each
// later step in which somebody can still write to it.
type Granter interface {
	Bridge

	// Recapture has the Interceptor capture, as one write of the whole file each,
	// every granted file that may still be written to. The Interceptor's actor
	// asks for it when an epoch has begun, from a goroutine that may wait. It returns how
	// many files there are.
	Recapture(ctx context.Context) (files int, err error)

	// Granted returns the granted files to which somebody can still write. It waits for nobody.
	Granted() []hostfs.ID
}

// The other interfaces are what some bridges can do in addition: whoever has a [Bridge] asks it by a type assertion.
// Their methods are safe for concurrent use.

// Cleaner is a [Bridge] that knows whether there is something that Fence would write back.
type Cleaner interface {
	// Clean reports whether nothing that was written can still be on its way. It waits for nobody.
	Clean() bool
}

// PathInvalidator is a [Bridge] whose caches can be told of single paths.
type PathInvalidator interface {
	// Changed says that paths, relative to the folder, may have been changed from outside.
	Changed(paths []string) error
}

// DirInvalidator is a [Bridge] whose caches can be told of names in directories, and which directories nobody watches.
type DirInvalidator interface {
	// ChangedIn says that names may have been changed from outside.
	ChangedIn(dirs []DirChanges) error
	// Unwatched says that changes in directories are not seen any more: nothing of them may be kept.
	Unwatched(dirs []hostfs.ID) error
}

// HostPIDs is a [Bridge] that itself knows of the threads whose requests it serves.
type HostPIDs interface {
	// HostPID translates the number of a thread that a request carries to the host's: [os.ErrProcessDone] if the thread
	// is known to be gone, [errors.ErrUnsupported] if it has no number on the host.
	HostPID(pid uint32) (uint32, error)
}

// Kinder is a [Bridge] that says what it is.
type Kinder interface {
	// Kind names the bridge, and what it speaks, for people.
	Kind() (kind, protocol string)
}

// Counter is a [Bridge] that counts what it serves.
type Counter interface {
	// Counts returns how many requests of each kind were served so far, and other figures by their names.
	Counts() map[string]uint64
}
