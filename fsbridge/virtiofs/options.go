package virtiofs

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/guestcache"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Defaults of [Options].
const (
	DefaultTTL           = time.Second
	DefaultRequestQueues = 8
	DefaultMaxBytes      = 64 << 20
	DefaultMaxRequests   = 10_000
)

// Options configures a [Server]. Tree.Root is required; the zero value of
// everything else is a working default.
type Options struct {
	// Tree is the file system. Its ReadOnly refuses writes here, whatever the
	// guest mounted. Its TTL is [DefaultTTL] if 0, because no invalidation
	// reaches every cache of a guest.
	Tree vfs.Options

	// Tag is the device's name, for front-ends that ask for it; usually they
	// have it on their command line. At most 36 bytes.
	Tag string

	// RequestQueues is how many request queues a front-end may use
	// ([DefaultRequestQueues] if 0), besides the one of high priority.
	RequestQueues int

	// MaxBytes bounds the data of large requests in flight, counted separately
	// for reading and writing ([DefaultMaxBytes] if 0). Others wait in the
	// guest's memory.
	MaxBytes int

	// MaxRequests bounds the requests in flight, those of guests that are gone
	// and were not let go yet included ([DefaultMaxRequests] if 0). Others fail
	// with ENOSPC.
	MaxRequests int

	// Drop, if not nil, is told what the guest's caches must forget: the shim
	// does it. It is called by [Server.Invalidate] and [Server.Changed], perhaps
	// by several goroutines, without any lock of this package.
	Drop func(Stale) error

	// Sync, if not nil, makes the guest write back all its dirty pages (syncfs
	// by the shim) and returns when that was done. [Server.Fence] calls it while
	// files are open for writing.
	Sync func(ctx context.Context) error

	// Wake, if not nil, has the guest tell who watches files there that somebody outside
	// changed them.
	Wake fuseproto.TouchWaker
}

// Stale is what a guest's caches must forget.
type Stale = guestcache.Stale
