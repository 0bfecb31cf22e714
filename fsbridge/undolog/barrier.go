package undolog

import (
	"encoding/binary"
	"slices"
	"sort"
	"time"
)

// putBarrier adds a barrier with its paths. It needs mu, as all here do.
func (t *stampTable) putBarrier(b barrier) {
	p := binary.AppendUvarint(append(t.buf, stampOpBarrier), b.id)
	p = binary.AppendVarint(p, int64(b.after))
	p = binary.AppendUvarint(p, b.seq)
	t.buf = binary.AppendVarint(p, b.at.UnixNano())
	paths := b.paths
	b.paths = nil
	t.barriers = append(t.barriers, b)
	for _, p := range paths {
		t.addBarrierPath(b.id, p)
	}
}

func (t *stampTable) putNext(n uint64) {
	t.nextBarrier = max(t.nextBarrier, n)
	t.buf = binary.AppendUvarint(append(t.buf, stampOpNext), t.nextBarrier)
}

// addBarrierPath appends a path, unless it was the last one.
func (t *stampTable) addBarrierPath(id uint64, path string) {
	i := t.findBarrier(id)
	if i < 0 {
		return
	}
	b := &t.barriers[i]
	if n := len(b.paths); n > 0 && b.paths[n-1] == path {
		return
	}
	b.paths = append(b.paths, path)
	p := binary.AppendUvarint(append(t.buf, stampOpPath), id)
	p = binary.AppendUvarint(p, uint64(len(path)))
	t.buf = append(p, path...)
}

func (t *stampTable) dropBarrier(id uint64) {
	if i := t.findBarrier(id); i >= 0 {
		t.barriers = slices.Delete(t.barriers, i, i+1)
		t.buf = binary.AppendUvarint(append(t.buf, stampOpCrossed), id)
	}
}

func (t *stampTable) findBarrier(id uint64) int {
	return slices.IndexFunc(t.barriers, func(b barrier) bool { return b.id == id })
}

// stepRef names a step and its place in time.
type stepRef struct {
	id  StepID
	seq uint64
}

// raise makes one barrier after the step newest from the paths.
func (t *stampTable) raise(newest stepRef, paths []string, at time.Time) barrier {
	sort.Strings(paths)
	b := barrier{id: t.nextBarrier, after: newest.id, seq: newest.seq, at: at, paths: slices.Compact(paths)}
	t.nextBarrier++
	t.putBarrier(b)
	return b
}

// crossed is told that the steps in undone, which changed the paths for which
// touched returns true, are gone, and what is kept, in any order. Barriers
// before which no step is left vanish. Of those that were crossed by force,
// what the undone steps did not overwrite is still an edit from outside: it now
// stands before the next older step.
func (t *stampTable) crossed(kept []stepRef, touched func(path string) bool) {
	for _, b := range slices.Clone(t.barriers) {
		var below stepRef
		anchored := false
		for _, s := range kept {
			if s.seq == b.seq {
				anchored = true
			}
			if s.seq <= b.seq && s.seq >= below.seq {
				below = s
			}
		}
		if anchored {
			continue
		}
		if touched != nil {
			b.paths = slices.DeleteFunc(slices.Clone(b.paths), touched)
		}
		t.dropBarrier(b.id)
		if below.seq != 0 && len(b.paths) > 0 {
			b.after, b.seq = below.id, below.seq
			t.putBarrier(b)
		}
	}
	slices.SortFunc(t.barriers, func(a, b barrier) int { return int(a.id) - int(b.id) })
}

// since returns the barriers that an undo down to the step with the given seq
// would cross, oldest first.
func (t *stampTable) since(seq uint64) []Barrier {
	var out []Barrier
	for _, b := range t.barriers {
		if b.seq >= seq {
			out = append(out, b.public())
		}
	}
	return out
}

func (b *barrier) public() Barrier {
	return Barrier{ID: b.id, After: b.after, At: b.at, Paths: slices.Clone(b.paths)}
}

// withBarriers puts the barriers into a history, which is newest first: each
// as an entry of its own just above the step that it stands after, and in that
// step's entry.
func (t *stampTable) withBarriers(steps []Entry) []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Entry, 0, len(steps)+len(t.barriers))
	for _, e := range steps {
		e.Barriers = []Barrier{}
		for i := len(t.barriers) - 1; i >= 0; i-- {
			b := &t.barriers[i]
			if b.seq != e.Seq {
				continue
			}
			e.Barriers = append(e.Barriers, b.public())
			out = append(out, b.entry())
		}
		out = append(out, e)
	}
	return out
}

func (b *barrier) entry() Entry {
	p := b.public()
	return Entry{
		Seq: b.seq, StepID: b.after, Type: TypeBarrier, Status: "completed",
		StartedAt: b.at, EndedAt: b.at,
		AffectedPaths: p.Paths[:min(len(p.Paths), HistoryPaths)], AffectedCount: len(p.Paths),
		Barriers: []Barrier{p},
	}
}
