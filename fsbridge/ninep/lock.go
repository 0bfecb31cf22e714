package ninep

import "math"

// lock is a record lock of one client process on a range of a file; end is the
// last byte.
type lock struct {
	write      bool
	start, end uint64
	owner      lockOwner
}

type lockOwner struct {
	client string
	pid    uint32
}

// lockRange returns the last byte of a range; a length of 0 means to the end.
func lockRange(start, length uint64) (end uint64, ok bool) {
	if length == 0 {
		return math.MaxUint64, true
	}
	end = start + length - 1
	return end, end >= start
}

func (l *lock) overlaps(o *lock) bool { return l.start <= o.end && o.start <= l.end }

// conflict returns the first lock that keeps want from being taken, or nil.
func conflict(locks []lock, want lock) *lock {
	for i := range locks {
		l := &locks[i]
		if l.owner != want.owner && (l.write || want.write) && l.overlaps(&want) {
			return l
		}
	}
	return nil
}

// replaced returns the locks after want's owner gave up what it had in want's
// range, and took want unless it only unlocks.
func replaced(locks []lock, want lock, unlock bool) []lock {
	kept := make([]lock, 0, len(locks)+2)
	for _, l := range locks {
		if l.owner != want.owner || !l.overlaps(&want) {
			kept = append(kept, l)
			continue
		}
		if l.start < want.start {
			before := l
			before.end = want.start - 1
			kept = append(kept, before)
		}
		if l.end > want.end {
			after := l
			after.start = want.end + 1
			kept = append(kept, after)
		}
	}
	if unlock {
		return kept
	}
	return append(kept, want)
}
