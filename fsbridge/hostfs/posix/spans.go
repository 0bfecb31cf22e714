package posix

import (
	"cmp"
	"slices"
)

// A span is a part of a file, from its first byte to its last one, that an open file has locked.
type span struct {
	first, last int64
	exclusive   bool
}

func (s span) touches(o span) bool { return s.first <= o.last && o.first <= s.last }

// spanOf returns the part of a file that a lock is about.
func spanOf(l Lock) (span, error) {
	s := span{first: l.Start, last: 1<<63 - 1, exclusive: l.Type == F_WRLCK}
	if l.Length > 0 && l.Start <= s.last-l.Length {
		s.last = l.Start + l.Length - 1
	}
	if l.Start < 0 || l.Length < 0 {
		return span{}, EINVAL
	}
	return s, nil
}

// spans are the locks of an open file, in their order. No two of them touch. Windows gives back only exactly what it was asked
// for, and takes no exclusive lock over a shared one; so each change gives back what it touches and takes again what is left.
type spans []span

// touched are those that s touches.
func (have spans) touched(s span) (hit spans) {
	for _, h := range have {
		if h.touches(s) {
			hit = append(hit, h)
		}
	}
	return hit
}

// without are those that s does not touch, and rest is what is left of the others around s.
func (have spans) without(s span) (kept, rest spans) {
	for _, h := range have {
		if !h.touches(s) {
			kept = append(kept, h)
			continue
		}
		if h.first < s.first {
			rest = append(rest, span{h.first, s.first - 1, h.exclusive})
		}
		if h.last > s.last {
			rest = append(rest, span{s.last + 1, h.last, h.exclusive})
		}
	}
	return kept, rest
}

// gaps are the parts of s that none of them touches.
func (have spans) gaps(s span) (free spans) {
	for _, h := range have.touched(s) {
		if h.first > s.first {
			free = append(free, span{s.first, h.first - 1, s.exclusive})
		}
		if h.last >= s.last {
			return free
		}
		s.first = h.last + 1
	}
	return append(free, s)
}

// locker takes and gives back single locks of an open file.
type locker interface {
	lock(span) error
	unlock(span) error
}

// set makes s locked, or unlocked if kind is F_UNLCK, and returns what is locked then. If somebody else has it, err says so and all
// is as before, save what somebody took in the moment in which it was free.
func (have spans) set(l locker, s span, kind int16) (now spans, err error) {
	hit := have.touched(s)
	if kind != F_UNLCK && len(hit) == 1 && hit[0] == s {
		return have, nil
	}
	kept, rest := have.without(s)
	for _, h := range hit {
		if err = l.unlock(h); err != nil {
			return have, err
		}
	}
	if kind != F_UNLCK {
		if err = l.lock(s); err != nil {
			rest = hit // as it was
		} else {
			kept = append(kept, s)
		}
	}
	for _, r := range rest {
		if lost := l.lock(r); lost != nil {
			err = cmp.Or(err, lost)
			continue
		}
		kept = append(kept, r)
	}
	slices.SortFunc(kept, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	return kept, err
}
