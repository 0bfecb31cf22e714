package guestcache

import (
	"context"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Caches reaches the caches of a guest that is served by something other
// than this kernel: only the guest itself can drop them or write them back. What
// is nil is not done. Safe for concurrent use if Drop and Sync are.
type Caches struct {
	Name string // of the bridge, for errors
	Drop func(Stale) error
	Sync func(ctx context.Context) error
	// Waker is told what somebody outside changed when it was dropped; nil: nobody is.
	Waker *fuseproto.Waker
}

// Fence has the guest write back, if a file of its tree is open for writing (a
// mapping keeps its file open). current returns the tree that the guest is served
// at that moment, nil for none: a guest that is gone has no dirty pages.
func (g Caches) Fence(ctx context.Context, current func() *vfs.Tree) error {
	t := current()
	if t != nil {
		t.Settle()
	}
	if t == nil || g.Sync == nil || !t.Writing() {
		return nil
	}
	if err := g.Sync(ctx); err != nil && current() == t {
		return fmt.Errorf("%s: write-back by the guest: %w", g.Name, err)
	}
	return nil
}

// Invalidate tells the guest to forget what the host changed; files that it has
// not open are new ones to it.
func (g Caches) Invalidate(trees []*vfs.Tree, c fsbridge.Changes) error {
	stale := Stale{All: c.All}
	for _, t := range trees {
		stale.Paths = append(stale.Paths, t.Forsake(c)...)
	}
	return g.drop(stale)
}

// Changed tells the guest what the watcher saw: paths relative to the root that
// may have been changed from outside. What the guest knows as it is, because it
// did it itself, is left alone. The others are returned, with their directories.
func (g Caches) Changed(trees []*vfs.Tree, paths []string) ([]string, error) {
	var stale Stale
	for _, t := range trees {
		stale.Paths = append(stale.Paths, t.Foreign(paths)...)
	}
	return stale.Paths, g.drop(stale)
}

func (g Caches) drop(stale Stale) error {
	slices.Sort(stale.Paths)
	stale.Paths = slices.Compact(stale.Paths)
	if g.Drop == nil || !stale.All && len(stale.Paths) == 0 {
		return nil
	}
	if err := g.Drop(stale); err != nil {
		return fmt.Errorf("%s: drop the guest's caches: %w", g.Name, err)
	}
	return nil
}
