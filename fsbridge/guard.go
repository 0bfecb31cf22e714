package fsbridge

import (
	"sync"
	"sync/atomic"
)

// guardShards is a power of two well above the number of cores we run on, so
// that operations on different inodes do not share a cache line.
const guardShards = 16

// Guard is the sharded epoch guard: operations hold it shared from check to
// completion, and whoever ends an epoch drains it. The zero value is epoch 0,
// in which nothing is protected.
type Guard struct {
	epoch  atomic.Uint64
	shards [guardShards]struct {
		sync.RWMutex
		_ [40]byte
	}
}

// Epoch returns the current epoch.
func (g *Guard) Epoch() uint64 { return g.epoch.Load() }

// Enter takes the guard for an operation on the inode ino and returns a Ticket
// with the epoch that holds until Exit. It waits only while a drain is under
// way.
func (g *Guard) Enter(ino uint64) Ticket {
	s := uint32(ino*0x9E3779B97F4A7C15>>32) % guardShards
	g.shards[s].RLock()
	return Ticket{Epoch: g.epoch.Load(), shard: s, held: true}
}

// Exit gives the guard back. A Ticket that holds no guard is ignored.
func (g *Guard) Exit(t Ticket) {
	if t.held {
		g.shards[t.shard].RUnlock()
	}
}

// Idle tells whether no operation holds the guard. It waits for nobody.
func (g *Guard) Idle() bool {
	for i := range g.shards {
		if !g.shards[i].TryLock() {
			return false
		}
		g.shards[i].Unlock()
	}
	return true
}

// Drain waits until no operation holds the guard, runs f while none can enter,
// and starts a new epoch if f returns true. f must not call into the bridge's
// mount. Drains exclude each other.
func (g *Guard) Drain(f func() (newEpoch bool)) {
	for i := range g.shards {
		g.shards[i].Lock()
	}
	defer func() {
		for i := range g.shards {
			g.shards[i].Unlock()
		}
	}()
	if f() {
		g.epoch.Add(1)
	}
}
