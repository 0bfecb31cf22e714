package posix

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int // times, with EBUSY
		last  error
		calls int
	}{
		{"at once", 0, nil, 1},
		{"in a while", 3, nil, 4},
		{"another error", 2, EACCES, 3},
		{"never", 1000, EBUSY, len(aSecond().pauses) + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			slept, calls := time.Duration(0), 0
			p := aSecond()
			p.sleep = func(d time.Duration) { slept += d }
			err := p.try(func() error {
				if calls++; calls <= c.fails {
					return EBUSY
				}
				return c.last
			}, func(err error) bool { return err == EBUSY })
			if err != c.last || calls != c.calls {
				t.Errorf("%v after %d calls", err, calls)
			}
			if c.name == "never" && (slept < 900*time.Millisecond || slept > 1500*time.Millisecond) {
				t.Errorf("patience for %v", slept)
			}
		})
	}
}
