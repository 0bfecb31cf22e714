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
