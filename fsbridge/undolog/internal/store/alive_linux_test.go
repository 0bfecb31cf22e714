package store

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// TestUnmapped: where a file system maps nothing that is shared, the file says the same.
func TestUnmapped(t *testing.T) {
	for _, errno := range []unix.Errno{0, unix.EINVAL, unix.ENODEV} {
		root, err := hostfs.OpenRoot(t.TempDir())
		aliveCheck(t, err)
		t.Cleanup(func() { root.Close() })
		began := time.Now()
		var s *AliveSign
		if errno == 0 {
			s, err = CreateAlive(root.FD())
		} else {
			s, err = create(root.FD(), func(int) ([]byte, error) { return nil, errno })
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
	if s, err := create(root.FD(), func(int) ([]byte, error) { return nil, unix.ENOMEM }); err != unix.ENOMEM || s != nil {
		t.Errorf("without memory: %v, %v", s, err)
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
