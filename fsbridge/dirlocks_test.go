package fsbridge

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Operations that share a directory never run together, whatever order they name theirs in and
// whether they pause; nobody waits for ever, and nothing is left.
func TestDirLocks(t *testing.T) {
	var all DirLocks
	var inside [5]atomic.Int32
	var wg sync.WaitGroup
	for who := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(who)))
			var h LockedDirs
			for range 2000 {
				ids := make([]hostfs.ID, 1+r.IntN(maxLocked))
				used := map[uint64]bool{}
				for i := range ids {
					ids[i].Ino = r.Uint64N(uint64(len(inside)))
					used[ids[i].Ino] = true
				}
				if err := all.Lock(&h, nil, ids...); err != nil {
					t.Error(err)
					return
				}
				if r.IntN(3) == 0 {
					h.Pause()
					if err := h.Resume(nil); err != nil {
						t.Error(err)
					}
				}
				for n := range used {
					if inside[n].Add(1) != 1 || !h.Has(hostfs.ID{Ino: n}) {
						t.Error("two in one directory")
					}
				}
				for n := range used {
					inside[n].Add(-1)
				}
				if r.IntN(2) == 0 {
					h.Pause()
				}
				h.Unlock()
			}
		})
	}
	wg.Wait()
	if len(all.dirs) != 0 {
		t.Errorf("%d locks are left", len(all.dirs))
	}
}

// Whoever is cancelled while he waits has nothing, also not what he had got already.
func TestDirLocksCancelled(t *testing.T) {
	var all DirLocks
	var a, b LockedDirs
	first, second := hostfs.ID{Ino: 1}, hostfs.ID{Ino: 2}
	if err := all.Lock(&a, nil, second); err != nil {
		t.Fatal(err)
	}
	cancel := make(chan struct{})
	close(cancel)
	if err := all.Lock(&b, cancel, second, first); !errors.Is(err, posix.EINTR) {
		t.Fatal(err)
	}
	if err := all.Lock(&b, cancel, first); err != nil {
		t.Fatal(err)
	}
	b.Unlock()
	a.Unlock()
	a.Pause()
	if err := a.Resume(nil); err != nil || len(all.dirs) != 0 {
		t.Errorf("%v, %d locks are left", err, len(all.dirs))
	}
}
