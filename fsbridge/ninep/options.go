package ninep

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/guestcache"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Defaults and bounds of [Options].
const (
	DefaultMessageBytes = 1 << 20
	MinMessageBytes     = 4 << 10
	MaxMessageBytes     = 16 << 20
	DefaultMaxBytes     = 64 << 20
	DefaultMaxRequests  = 10_000
	DefaultMaxFIDs      = 1 << 19
	DefaultMaxOpen      = 16_384
	DefaultPatience     = 2 * time.Second
)

// Options configures a [Server]. Tree.Root is required; the zero value of
// everything else is a working default.
type Options struct {
	// Tree is the file system. Its ReadOnly refuses writes here, whatever the
	// guest mounted. Cache and TTL mean nothing: the protocol has no timeouts.
	Tree vfs.Options

	// MessageBytes is the largest message, its envelope included, that a client
	// may ask for ([DefaultMessageBytes] if 0; between [MinMessageBytes] and
	// [MaxMessageBytes]).
	MessageBytes int

	// MaxBytes bounds the data of large requests in flight, counted separately
	// for reading and writing ([DefaultMaxBytes] if 0).
	MaxBytes int

	// MaxRequests bounds the requests in flight, those of ended sessions that
	// were not let go yet included ([DefaultMaxRequests] if 0). Others fail with
	// ENOSPC.
	MaxRequests int

	// MaxFIDs bounds a client's fids ([DefaultMaxFIDs] if 0), MaxOpen how many
	// of them are open files ([DefaultMaxOpen] if 0). Others fail with ENFILE.
	MaxFIDs, MaxOpen int

	// Patience is how long a large write may wait for others to make room before
	// it fails with ENOSPC ([DefaultPatience] if 0). They do not where they are
	// held, and behind it everything else waits.
	Patience time.Duration

	// Drop, if not nil, is told what the guest's caches must forget: the shim
	// does it. It is called by [Server.Invalidate] and [Server.Changed], perhaps
	// by several goroutines, without any lock of this package. A mount with
	// cache=none needs none.
	Drop func(Stale) error

	// Sync, if not nil, makes the guest write back all its dirty pages (syncfs
	// by the shim) and returns when that was done. [Server.Fence] calls it while
	// files are open for writing.
	Sync func(ctx context.Context) error
}

// Stale is what a guest's caches must forget.
type Stale = guestcache.Stale

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
