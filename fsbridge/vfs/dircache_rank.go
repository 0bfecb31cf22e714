package vfs

import (
	"container/list"
	"math/bits"
)

// rank says how long a directory is kept: a use renews it.
type rank struct {
	dear  int    // the list that it is in: about the logarithm of the names that opening it anew takes
	worth uint64 // the level when it was last used, and what it costs
}

// ranks keep directories by what it takes to open them anew ("greedy dual"): the one that is worth least goes first, and the
// level rises to that. Among those that cost the same, it is the least recently used one. The lists have the most recent first,
// so what is worth least is the last one of some list.
type ranks[N comparable] struct {
	lists [17]list.List // of *Dir[N]; [maxDirDepth] names are in the last
	level uint64
}

func (r *ranks[N]) add(d *cachedDir[N], names int) {
	d.dear = min(bits.Len(uint(names/(near+1))), len(r.lists)-1)
	d.elem = r.lists[d.dear].PushFront(d)
	r.used(d)
}

func (r *ranks[N]) used(d *cachedDir[N]) {
	d.worth = r.level + 1<<d.dear
	r.lists[d.dear].MoveToFront(d.elem)
}

func (r *ranks[N]) remove(d *cachedDir[N]) {
	r.lists[d.dear].Remove(d.elem)
	d.elem = nil
}

// cheapest returns the unpinned directory that is worth least, or nil, and raises the level to that.
func (r *ranks[N]) cheapest() (least *cachedDir[N]) {
	for i := range r.lists {
		e := r.lists[i].Back()
		for e != nil && e.Value.(*cachedDir[N]).pins > 0 {
			e = e.Prev()
		}
		if e != nil && (least == nil || e.Value.(*cachedDir[N]).worth < least.worth) {
			least = e.Value.(*cachedDir[N])
		}
	}
	if least != nil {
		r.level = max(r.level, least.worth)
	}
	return least
}
