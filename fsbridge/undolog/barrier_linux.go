package undolog

import (
	"encoding/binary"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/wire"
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
	t.buf = wire.AppendString(p, path)
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

// crossed is told which steps are kept, in any order, after others were undone
// that had changed the paths for which touched returns true. Barriers
// with no step before them vanish. Of those that were crossed by force,
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
