package fuse

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// TestTouch: where just the modification time of who wakes is set, nobody is asked and nothing is set,
// and inotify tells of it. What else is set, and another time, is set. Who asks makes no difference.
func TestTouch(t *testing.T) {
	const touch, old = 2_500_000_000_123_456_789, 5_000_000_000
	for _, c := range []struct {
		name    string
		known   int64
		atime   int64
		mtime   int64
		nothing bool
	}{
		{"the time of who wakes", touch, unix.UTIME_OMIT, touch, true},
		{"more than a modification time", touch, 0, touch, false},
		{"another time", touch, unix.UTIME_OMIT, touch + 1, false},
		{"nobody wakes", 0, unix.UTIME_OMIT, touch, false},
		{"nobody wakes, 1970", 0, unix.UTIME_OMIT, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := new(recorder)
			m := mount(t, func(o *vfs.Options) { o.Hooks, o.Touch = r, c.known })
			host, inside := filepath.Join(m.host, "f"), filepath.Join(m.mnt, "f")
			check(t, os.WriteFile(host, nil, 0o644))
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, host, []unix.Timespec{{Sec: 5}, {Sec: 5}}, 0))
			watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
			check(t, err)
			defer unix.Close(watch)
			_, err = unix.InotifyAddWatch(watch, m.mnt, unix.IN_MODIFY|unix.IN_ATTRIB)
			check(t, err)
			before, err := hostfs.StatAt(m.root.FD(), "f")
			check(t, err)
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, inside, []unix.Timespec{{Nsec: c.atime}, unix.NsecToTimespec(c.mtime)}, 0))
			want, mtime := []fsbridge.Kind{fsbridge.OpSetattr}, c.mtime
			if c.nothing {
				want, mtime = nil, old
			}
			if got := r.take(); !slices.Equal(got, want) {
				t.Errorf("the Interceptor was asked %v, want %v", got, want)
			}
			st, err := hostfs.StatAt(m.root.FD(), "f")
			if err != nil || st.Mtime != mtime || c.nothing && st != before {
				t.Errorf("on the host it is %+v, %v, want time %d", st, err, mtime)
			}
			var seen unix.Stat_t
			check(t, unix.Stat(inside, &seen))
			if seen.Mtim.Nano() != mtime {
				t.Errorf("inside the time is %d, want %d", seen.Mtim.Nano(), mtime)
			}
			if n, err := unix.Read(watch, make([]byte, 4096)); err != nil || n == 0 {
				t.Errorf("inotify says nothing: %v", err)
			}
		})
	}
}
