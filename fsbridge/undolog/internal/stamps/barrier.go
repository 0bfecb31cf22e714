package stamps

import (
	"encoding/binary"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// putBarrier adds a barrier with its paths. It needs mu, as all here do.
func (t *Table) putBarrier(b barrier) {
	p := binary.AppendUvarint(append(t.buf, opBarrier), b.id)
	p = binary.AppendVarint(p, int64(b.after))
	p = binary.AppendUvarint(p, b.seq)
	t.buf = binary.AppendVarint(p, b.at.UnixNano())
	paths, was := b.paths, b.was
	b.paths, b.was = nil, nil
	t.barriers = append(t.barriers, b)
	for _, p := range paths {
		t.addBarrierPath(b.id, p)
		t.setWas(b.id, p, was[p])
	}
}

// setWas notes what the steps had left at a path of a barrier, if that is known.
func (t *Table) setWas(id uint64, path string, was uint64) {
	i := t.findBarrier(id)
	if i < 0 || was == 0 {
		return
	}
	b := &t.barriers[i]
	if b.was == nil {
		b.was = map[string]uint64{}
	}
	b.was[path] = was
	t.buf = binary.LittleEndian.AppendUint64(format.AppendString(binary.AppendUvarint(append(t.buf, opWas), id), path), was)
}

// addBarrierPath appends a path, unless it was the last one.
func (t *Table) addBarrierPath(id uint64, path string) {
	i := t.findBarrier(id)
	if i < 0 {
		return
	}
	b := &t.barriers[i]
	if n := len(b.paths); n > 0 && b.paths[n-1] == path {
		return
	}
	b.paths = append(b.paths, path)
	p := binary.AppendUvarint(append(t.buf, opPath), id)
	t.buf = format.AppendString(p, path)
}

func (t *Table) dropBarrier(id uint64) {
	if i := t.findBarrier(id); i >= 0 {
		t.barriers = slices.Delete(t.barriers, i, i+1)
		t.buf = binary.AppendUvarint(append(t.buf, opCrossed), id)
	}
}

func (t *Table) findBarrier(id uint64) int {
	return slices.IndexFunc(t.barriers, func(b barrier) bool { return b.id == id })
}

// StepRef names a step and its place in time.
type StepRef struct {
	ID  format.StepID
	Seq uint64
}

// crossed is told which steps are kept, in any order, after others were undone
// that had changed the paths for which touched returns true. Barriers
// with no step before them vanish. Of those that were crossed by force,
// what the undone steps did not overwrite is still an edit from outside: it now
// stands before the next older step.
func (t *Table) crossed(kept []StepRef, touched func(path string) bool) {
	for _, b := range slices.Clone(t.barriers) {
		var below StepRef
		anchored := false
		for _, s := range kept {
			if s.Seq == b.seq {
				anchored = true
			}
			if s.Seq <= b.seq && s.Seq >= below.Seq {
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
		if below.Seq != 0 && len(b.paths) > 0 {
			b.after, b.seq = below.ID, below.Seq
			t.putBarrier(b)
		}
	}
	slices.SortFunc(t.barriers, func(a, b barrier) int { return int(a.id) - int(b.id) })
}

// since returns the barriers that an undo down to the step with the given seq
// would cross, oldest first.
func (t *Table) since(seq uint64) []format.Barrier {
	var out []format.Barrier
	for _, b := range t.barriers {
		if b.seq >= seq {
			out = append(out, b.public())
		}
	}
	return out
}

func (b *barrier) public() format.Barrier {
	return format.Barrier{ID: b.id, After: b.after, At: b.at, Paths: slices.Clone(b.paths)}
}
