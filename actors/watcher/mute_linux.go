package watcher

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// inotifyMuted is what is heard of a muted directory: its names.
const inotifyMuted = inotifyMask &^ (unix.IN_MODIFY | unix.IN_ATTRIB)

var errManyNames = errors.New("watcher: too many names to compare")

// Mute implements [muter]. The directory is held open, so that wherever it goes
// meanwhile no other is taken for it. What was left out is found by comparing the
// names' attributes: events for all of them would have caches drop what nobody
// changed.
func (s *inotify) Mute(dir string, id hostfs.ID) (arm func() Batch, err error) {
	full := filepath.Join(s.root, dir)
	fd, err := unix.Open(full, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	before, err := standing(fd, maxMuted)
	if err == nil && before[""].ID != id {
		err = hostfs.ErrChanged
	}
	var d *watched
	if err == nil {
		d, err = s.muteFD(fd)
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return nil, err
	}
	return func() Batch {
		defer hostfs.Close(fd)
		b, ok := s.arm(d, fd)
		if ok {
			b.Events, b.Unsure = changes(d, fd, before)
		}
		return b
	}, nil
}

// muteFD mutes the watch of the directory behind fd.
func (s *inotify) muteFD(fd int) (*watched, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	wd, err := s.watchFD(fd, inotifyMuted)
	if err != nil {
		return nil, err
	}
	d := s.byWD[wd]
	if d == nil { // it is given up, or was never watched
		_, _ = unix.InotifyRmWatch(s.fd, uint32(wd))
		return nil, hostfs.ErrChanged
	}
	return d, nil
}

// arm has everything heard again of d, which is behind fd, and tells whether d
// is watched. If it cannot be any more, d is given up.
func (s *inotify) arm(d *watched, fd int) (b Batch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || d.wd < 0 || s.byWD[d.wd] != d {
		return b, false
	}
	wd, err := s.watchFD(fd, inotifyMask)
	if err == nil && wd == d.wd {
		return b, true
	}
	if err == nil { // the kernel has given up the watch, and is about to say so
		_, _ = unix.InotifyRmWatch(s.fd, uint32(wd))
	}
	s.drop(d, &b.Gone)
	return b, false
}

// watchFD sets what is heard of the directory behind fd. mu is held, and the
// source is not closed.
func (s *inotify) watchFD(fd int, mask uint32) (int32, error) {
	wd, err := unix.InotifyAddWatch(s.fd, "/proc/self/fd/"+strconv.Itoa(fd), mask&^unix.IN_DONT_FOLLOW)
	return int32(wd), os.NewSyscallError("inotify_add_watch", err)
}

// standing describes what is in the directory behind fd, and it itself under the
// empty name. It fails with errManyNames if there are more than limit names.
func standing(fd, limit int) (map[string]hostfs.Stat, error) {
	self, err := hostfs.StatFD(fd)
	if err != nil {
		return nil, err
	}
	if err := hostfs.SeekDir(fd, 0); err != nil {
		return nil, err
	}
	names := map[string]hostfs.Stat{"": self}
	buf := make([]byte, 8<<10)
	for more := true; more; {
		more, err = hostfs.ReadDirents(fd, buf, func(e hostfs.Dirent) bool {
			names[e.Name], _ = hostfs.StatAt(fd, e.Name) // one that is gone has an event of its own
			return len(names)-1 <= limit
		})
		if err != nil {
			return names, err
		}
		if len(names)-1 > limit {
			return nil, fmt.Errorf("%w: more than %d", errManyNames, limit)
		}
	}
	return names, nil
}

// coarsest is how coarse the times of a file system may be.
const coarsest = 2 * time.Second

// changes returns events of d, which is behind fd, for what was changed since it was as before says, and apart for what
// may have been: what was changed so shortly before that another change need
// not show, names that came and went, which are heard of as ever, and directories in which there were such names. What
// counts as short is seen in the newest change: the file system's clock may not be ours.
func changes(d *watched, fd int, before map[string]hostfs.Stat) (events, unsure []Event) {
	after, err := standing(fd, math.MaxInt)
	if err != nil {
		after = nil // removed, or out of order: tell of all there was
	}
	newest := before[""].Ctime
	for _, st := range before {
		newest = max(newest, st.Ctime)
	}
	for name, was := range before {
		now, ok := after[name]
		now.Atime = was.Atime
		switch {
		case after == nil || ok && now.ID == was.ID && edited(was, now):
			events = append(events, Event{d, name})
		case !ok, now != was, was.Ctime >= newest-int64(coarsest):
			unsure = append(unsure, Event{d, name})
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			unsure = append(unsure, Event{d, name})
		}
	}
	return events, unsure
}

// edited tells whether an inode itself was changed between two looks at it. What is done to the names in a directory
// changes its times, size and links, and is an event of the names.
func edited(was, now hostfs.Stat) bool {
	if !was.IsDir() || now.Mtime == was.Mtime {
		return now != was
	}
	return now.Mode != was.Mode || now.UID != was.UID || now.GID != was.GID
}
