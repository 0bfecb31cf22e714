package fuseproto

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// fake is a guest.
type fake struct {
	t       *testing.T
	w       *Waker
	err     error
	touched chan []string
	goOn    chan struct{} // nil: it does not wait
	ended   atomic.Bool
}

func (f *fake) touch(ctx context.Context, mtime int64, paths []string) error {
	if mtime != f.w.Time() || len(paths) == 0 {
		f.t.Errorf("touch %q with time %d", paths, mtime)
	}
	f.touched <- slices.Clone(paths)
	if f.goOn != nil {
		select {
		case <-f.goOn:
		case <-ctx.Done():
			f.ended.Store(true)
		}
	}
	return f.err
}

// TestWake: what comes while files are touched is touched in one go, each path once, and not more
// than the bounds. The end waits for what is under way.
func TestWake(t *testing.T) {
	f := &fake{t: t, touched: make(chan []string, 1), goOn: make(chan struct{}), err: errors.New("nobody is told of it")}
	w := NewWaker(f.touch)
	f.w = w
	w.Wake(nil)
	w.Wake([]string{"a", "sub/b"})
	if got := <-f.touched; !slices.Equal(got, []string{"a", "sub/b"}) {
		t.Errorf("touched %q", got)
	}
	var many []string
	for i := range 2 * mostPaths {
		many = append(many, fmt.Sprint(i))
	}
	w.Wake([]string{"0", "a", "0"})
	w.Wake(many)
	f.goOn <- struct{}{}
	if got := <-f.touched; len(got) != mostPaths || got[0] != "0" || got[1] != "a" || got[2] != "1" {
		t.Errorf("touched %d: %.100q", len(got), got)
	}
	long := strings.Repeat("x", mostBytes/2)
	w.Wake([]string{"1" + long, "2" + long, "short"})
	f.goOn <- struct{}{}
	if got := <-f.touched; len(got) != 2 || got[1] != "short" {
		t.Errorf("touched %d of long ones", len(got))
	}
	w.Close()
	if !f.ended.Load() {
		t.Error("it has ended before what was under way")
	}
	w.Wake([]string{"late"})
	w.Close()
	if len(f.touched) > 0 {
		t.Errorf("touched %q after the end", <-f.touched)
	}
}

// TestTime: each waker has a time of its own, which the protocols and file systems can carry.
func TestTime(t *testing.T) {
	seen := map[int64]bool{}
	for range 100 {
		w := NewWaker(func(context.Context, int64, []string) error { return nil })
		if w.Time() < 1<<61 || seen[w.Time()] {
			t.Errorf("time %d", w.Time())
		}
		seen[w.Time()] = true
	}
}

// TestNobodyToWake: without a guest nothing is touched.
func TestNobodyToWake(t *testing.T) {
	none := NewWaker(nil)
	if none != nil {
		t.Error("somebody is woken by nobody")
	}
	none.Wake([]string{"a"})
	none.Close()
	if none.Time() != 0 {
		t.Errorf("time %d", none.Time())
	}
}
