package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestUnmapped: where a file system maps nothing that is shared, the file says the same.
func TestUnmapped(t *testing.T) {
	for _, errno := range []posix.Errno{0, posix.EINVAL, posix.ENODEV} {
		root, err := hostfs.OpenRoot(t.TempDir())
		aliveCheck(t, err)
		t.Cleanup(func() { root.Close() })
		began := time.Now()
		var s *AliveSign
		if errno == 0 {
			s, err = CreateAlive(root.FD())
		} else {
			s, err = create(root.FD(), time.Now, func(int) ([]byte, error) { return nil, errno })
		}
		aliveCheck(t, err)
		first := read(t, root)
		if first.at.Before(began.Add(-time.Second)) || first.unasked || first.doing != 0 {
			t.Errorf("%v: at first %+v", errno, first)
		}
		s.Mark()
		s.Doing(77)
		s.Unasked()
		if d := read(t, root); d.at.Before(first.at) || !d.unasked || d.doing != 77 {
			t.Errorf("%v: then %+v", errno, d)
		}
		s.Close()
		closed := read(t, root)
		s.Mark()
		s.Doing(0)
		s.Close()
		if d := read(t, root); d != closed {
			t.Errorf("%v: closed %+v, and then %+v", errno, closed, d)
		}
	}
}

func TestUnmappedElse(t *testing.T) {
	root, err := hostfs.OpenRoot(t.TempDir())
	aliveCheck(t, err)
	t.Cleanup(func() { root.Close() })
	if s, err := create(root.FD(), time.Now, func(int) ([]byte, error) { return nil, posix.ENOMEM }); err != posix.ENOMEM || s != nil {
		t.Errorf("without memory: %v, %v", s, err)
	}
}

// TestAheadOfAnotherClock: what the file system's clock is ahead does not depend on when this process stands still, as it may between the
// write and a look at the clock.
func TestAheadOfAnotherClock(t *testing.T) {
	const stall = 5 * time.Second
	for name, c := range map[string]struct {
		ahead  time.Duration
		stalls []time.Duration // by how much more the clock of each look is behind
	}{
		"the same clock":             {},
		"a stall before the write":   {stalls: []time.Duration{stall}},
		"a stall after the write":    {stalls: []time.Duration{0, -stall}},
		"stalls in each measurement": {stalls: []time.Duration{stall, -stall, stall, -stall, stall, -stall}},
		"an hour behind":             {ahead: -time.Hour},
		"an hour ahead":              {ahead: time.Hour},
		"ahead, a stall before":      {ahead: time.Hour, stalls: []time.Duration{stall}},
		"ahead, a stall after":       {ahead: time.Hour, stalls: []time.Duration{0, -stall}},
		"behind, stalls in two":      {ahead: -time.Hour, stalls: []time.Duration{stall, 0, 0, -stall}},
	} {
		t.Run(name, func(t *testing.T) {
			fd, err := posix.Open(filepath.Join(t.TempDir(), AliveName), posix.O_RDWR|posix.O_CREAT, 0o600)
			aliveCheck(t, err)
			t.Cleanup(func() { _ = hostfs.Close(fd) })
			looks := 0
			got, err := ahead(fd, func() time.Time {
				now := time.Now().Add(-c.ahead)
				if looks < len(c.stalls) {
					now = now.Add(-c.stalls[looks])
				}
				looks++
				return now
			})
			aliveCheck(t, err)
			if off := got - c.ahead; off > skew/2 || off < -skew { // the lesser one, in doubt
				t.Errorf("it is %v ahead, not %v", got, c.ahead)
			}
		})
	}
}

func read(t *testing.T, root *hostfs.Root) Death {
	t.Helper()
	d, err := ReadAlive(root.FD())
	aliveCheck(t, err)
	return d
}

func aliveCheck(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
