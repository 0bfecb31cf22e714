package posix

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// counted is a file that counts how often it ended.
type counted struct{ ended atomic.Int32 }

func (c *counted) end() error {
	c.ended.Add(1)
	return nil
}

func tableOf(limit int) *numbers[*counted] { return &numbers[*counted]{limit: limit} }

func added(t *testing.T, table *numbers[*counted], c *counted) int {
	t.Helper()
	n, err := table.add(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheLowestFreeNumberIsGiven(t *testing.T) {
	table := tableOf(1000)
	for want := 3; want < 300; want++ {
		if n := added(t, table, new(counted)); n != want {
			t.Fatalf("number %d, not %d", n, want)
		}
	}
	for _, free := range []int{200, 64, 3, 127} {
		if err := table.remove(free); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{3, 64, 127, 200, 300} {
		if n := added(t, table, new(counted)); n != want {
			t.Fatalf("number %d, not %d", n, want)
		}
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	table := tableOf(1000)
	n := added(t, table, new(counted))
	if err := table.remove(n); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 0, 2, n, 64, 1 << 40} {
		if _, err := table.use(n); err != EBADF {
			t.Errorf("use of %d: %v", n, err)
		}
		if _, err := table.again(n); err != EBADF {
			t.Errorf("again %d: %v", n, err)
		}
		if err := table.remove(n); err != EBADF {
			t.Errorf("remove of %d: %v", n, err)
		}
	}
}

func TestAsManyNumbersAsThereMayBe(t *testing.T) {
	table, last := tableOf(70), 0
	for range 67 {
		last = added(t, table, new(counted))
	}
	c := new(counted)
	if _, err := table.add(c); err != EMFILE || c.ended.Load() != 0 {
		t.Errorf("one more: %v, ended %d times", err, c.ended.Load())
	}
	if _, err := table.again(last); err != EMFILE {
		t.Errorf("one again: %v", err)
	}
	if err := table.remove(last); err != nil {
		t.Fatal(err)
	}
	if n := added(t, table, c); n != last {
		t.Errorf("number %d, not %d", n, last)
	}
}

func TestAFileEndsWithItsLastNumberAndUse(t *testing.T) {
	table, c := tableOf(1000), new(counted)
	first := added(t, table, c)
	second, err := table.again(first)
	if err != nil {
		t.Fatal(err)
	}
	use, err := table.use(second)
	if err != nil {
		t.Fatal(err)
	}
	if all := table.all(func(*counted) bool { return true }); len(all) != 1 || all[0].done() != nil {
		t.Fatalf("%d files", len(all))
	}
	for _, n := range []int{first, second} {
		if err := table.remove(n); err != nil || c.ended.Load() != 0 {
			t.Fatalf("after number %d was given back: %v, ended %d times", n, err, c.ended.Load())
		}
	}
	if err := use.done(); err != nil || c.ended.Load() != 1 {
		t.Fatalf("at the end: %v, ended %d times", err, c.ended.Load())
	}
	if all := table.all(func(*counted) bool { return true }); len(all) != 0 {
		t.Fatalf("%d files", len(all))
	}
}

// Many add, use, double and remove at once: no number is two files', and each file ends once, and never while it is used.
func TestNumbersConcurrently(t *testing.T) {
	table := tableOf(1 << 12)
	var all sync.Map
	var group sync.WaitGroup
	for seed := range uint64(8) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			own := map[int]*counted{}
			for range 3000 {
				switch n := random.IntN(64) + 3; {
				case len(own) < 20:
					c := new(counted)
					all.Store(c, true)
					n, err := table.add(c)
					if err != nil || own[n] != nil {
						t.Errorf("number %d: %v", n, err)
					}
					own[n] = c
				case own[n] != nil:
					if again, err := table.again(n); err != nil {
						t.Error(err)
					} else {
						own[again] = own[n]
					}
					if err := table.remove(n); err != nil {
						t.Error(err)
					}
					delete(own, n)
				default: // another's
					if o, err := table.use(n); err == nil {
						if o.file.ended.Load() != 0 {
							t.Error("used after its end")
						}
						_ = o.done()
					}
					for _, o := range table.all(func(*counted) bool { return n < 5 }) {
						if o.file.ended.Load() != 0 {
							t.Error("listed after its end")
						}
						_ = o.done()
					}
				}
			}
			for n := range own {
				if err := table.remove(n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	all.Range(func(c, _ any) bool {
		if ended := c.(*counted).ended.Load(); ended != 1 {
			t.Errorf("ended %d times", ended)
		}
		return true
	})
	if slices.ContainsFunc(table.open, func(o *opened[*counted]) bool { return o != nil }) {
		t.Error("something is open at the end")
	}
}
