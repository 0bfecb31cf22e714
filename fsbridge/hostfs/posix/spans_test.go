package posix

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fileLocks are the locks of a file as Windows has them: what is given back is exactly what was asked for, an exclusive lock goes over no
// other, and a shared one over shared ones.
type fileLocks struct {
	own, others []span
	refuse      func(span) bool
}

func (f *fileLocks) lock(s span) error {
	if f.refuse != nil && f.refuse(s) {
		return EAGAIN
	}
	for _, held := range [][]span{f.own, f.others} {
		for _, h := range held {
			if h.touches(s) && (h.exclusive || s.exclusive) {
				return EAGAIN
			}
		}
	}
	f.own = append(f.own, s)
	return nil
}

func (f *fileLocks) unlock(s span) error {
	for i, h := range f.own {
		if h == s {
			f.own = append(f.own[:i:i], f.own[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("%v is not locked", s)
}

// bytesOf is what is locked of the first bytes: 0, 1 shared, 2 exclusive.
func bytesOf(held []span) (b [24]int) {
	for _, h := range held {
		for i := h.first; i <= min(h.last, int64(len(b)-1)); i++ {
			b[i] = 1
			if h.exclusive {
				b[i] = 2
			}
		}
	}
	return b
}

// Random locks and unlocks do with each byte what they do on Linux.
func TestSpansAreLinuxsLocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		f, want := new(fileLocks), [24]int{}
		var have spans
		for range 40 {
			l := Lock{Type: []int16{F_RDLCK, F_WRLCK, F_UNLCK}[random.IntN(3)], Start: random.Int64N(20), Length: random.Int64N(6)}
			s, err := spanOf(l)
			if err != nil {
				t.Fatal(err)
			}
			if have, err = have.set(f, s, l.Type); err != nil {
				t.Fatal(err)
			}
			kinds := map[int16]int{F_RDLCK: 1, F_WRLCK: 2}
			for i := s.first; i <= min(s.last, 23); i++ {
				want[i] = kinds[l.Type]
			}
			if bytesOf(have) != want || bytesOf(f.own) != want {
				t.Fatalf("after %+v: %v and %v, not %v", l, bytesOf(have), bytesOf(f.own), want)
			}
			for i := 1; i < len(have); i++ {
				if have[i-1].last >= have[i].first {
					t.Fatalf("out of order: %v", have)
				}
			}
		}
	}
}

func TestALockThatIsRefusedChangesNothing(t *testing.T) {
	f := &fileLocks{others: []span{{8, 9, true}}}
	var have spans
	var err error
	for _, s := range []span{{0, 3, false}, {5, 6, true}} {
		if have, err = have.set(f, s, F_RDLCK); err != nil {
			t.Fatal(err)
		}
	}
	was := bytesOf(f.own)
	now, err := have.set(f, span{2, 9, true}, F_WRLCK)
	if err != EAGAIN || bytesOf(now) != was || bytesOf(f.own) != was {
		t.Errorf("%v: %v and %v", err, bytesOf(now), bytesOf(f.own))
	}
}

// What somebody takes in the moment in which it is free is lost, and said to be.
func TestALockThatIsLostIsNotBelievedIn(t *testing.T) {
	f := new(fileLocks)
	have, err := spans(nil).set(f, span{0, 9, true}, F_WRLCK)
	if err != nil {
		t.Fatal(err)
	}
	f.refuse = func(s span) bool { return s.first == 0 }
	now, err := have.set(f, span{4, 5, false}, F_UNLCK)
	if err != EAGAIN {
		t.Errorf("the loss is told by %v", err)
	}
	if want := bytesOf([]span{{6, 9, true}}); bytesOf(now) != want || bytesOf(f.own) != want {
		t.Errorf("%v and %v", now, f.own)
	}
}

func TestGaps(t *testing.T) {
	have := spans{{2, 3, true}, {6, 6, false}, {8, 20, true}}
	for _, c := range []struct {
		s    span
		want string
	}{
		{span{0, 1, true}, "[{0 1 true}]"},
		{span{0, 9, false}, "[{0 1 false} {4 5 false} {7 7 false}]"},
		{span{2, 3, true}, "[]"},
		{span{3, 6, true}, "[{4 5 true}]"},
		{span{10, 30, true}, "[{21 30 true}]"},
	} {
		if got := fmt.Sprint(have.gaps(c.s)); got != c.want {
			t.Errorf("%v: %s, not %s", c.s, got, c.want)
		}
	}
}

func TestSpanOf(t *testing.T) {
	const end = 1<<63 - 1
	for _, c := range []struct {
		l    Lock
		want span
		err  error
	}{
		{Lock{Start: 1, Length: 2}, span{1, 2, false}, nil},
		{Lock{Type: F_WRLCK, Start: 1}, span{1, end, true}, nil},
		{Lock{Start: end, Length: 1}, span{end, end, false}, nil},
		{Lock{Start: 5, Length: end}, span{5, end, false}, nil},
		{Lock{Start: -1}, span{}, EINVAL},
		{Lock{Length: -1}, span{}, EINVAL},
	} {
		if got, err := spanOf(c.l); got != c.want || err != c.err {
			t.Errorf("%+v: %v, %v", c.l, got, err)
		}
	}
}
