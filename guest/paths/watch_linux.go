package paths

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	watchMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_EXCL_UNLINK
	// eventsAtOnce is how many bytes of paths one frame has, about.
	eventsAtOnce = 24 << 10
)

// watcher watches one path.
type watcher struct {
	*server
	f      *os.File // inotify's
	fd     int
	root   string
	dirs   map[int32]string // what is watched, relative to root
	most   int
	batch  []Event
	size   int  // bytes in batch, about
	stale  bool // paths are not where they were
	ending bool
}

// watch tells of what happens until the host has gone, or what is watched is.
func (s *server) watch() (*Reply, error) {
	p, err := s.where(string(s.req.Path), true)
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, at("watch", p, err)
	}
	w := &watcher{server: s, f: os.NewFile(uintptr(fd), "inotify"), fd: fd, root: p, dirs: map[int32]string{}, most: s.req.Limit}
	defer w.f.Close()
	if err := w.add(".", false); err != nil {
		return nil, err
	}
	r, err := s.look(p)
	if err != nil {
		return nil, err
	}
	if err := WriteJSON(s.out, FrameReady, r); err != nil {
		return nil, err
	}
	s.attend()
	go func() {
		<-s.ctx.Done()
		_ = w.f.Close() // it wakes who reads
	}()
	buf := make([]byte, 64<<10)
	for !w.ending {
		n, err := w.f.Read(buf)
		if err != nil {
			return nil, errGone
		}
		if err := w.all(buf[:n]); err != nil {
			return nil, err
		}
	}
	return &Reply{}, nil
}

// add watches a directory, or the file that is the root, and with a recursive watch what is below. With tell, it says what is there already.
func (w *watcher) add(rel string, tell bool) error {
	p := path.Join(w.root, rel)
	mask := uint32(watchMask)
	if rel != "." {
		mask |= unix.IN_DONT_FOLLOW | unix.IN_ONLYDIR
	}
	wd, err := unix.InotifyAddWatch(w.fd, p, mask)
	if err != nil {
		if rel != "." && (err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES || err == unix.ELOOP) {
			return nil // it has gone, or is another's
		}
		return at("watch", p, err)
	}
	w.dirs[int32(wd)] = rel
	if len(w.dirs) > w.most {
		return at("watch", p, unix.E2BIG)
	}
	if !w.req.Recursive {
		return nil
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		return nil //nolint:nilerr // it is a file, has gone, or cannot be read
	}
	for _, e := range entries {
		name := path.Join(rel, e.Name())
		if tell {
			if err := w.emit("create", name); err != nil {
				return err
			}
		}
		if e.IsDir() {
			if err := w.add(name, tell); err != nil {
				return err
			}
		}
	}
	return nil
}

// again looks anew at what is below the root: directories have moved, or events were lost.
func (w *watcher) again() error {
	old := w.dirs
	w.dirs, w.stale = map[int32]string{}, false
	if err := w.add(".", false); err != nil {
		return err
	}
	for wd := range old {
		if _, stays := w.dirs[wd]; !stays {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // it may be gone
		}
	}
	return nil
}

// all handles what the kernel has told.
func (w *watcher) all(b []byte) error {
	for len(b) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		n := int(binary.NativeEndian.Uint32(b[12:]))
		b = b[unix.SizeofInotifyEvent:]
		if n > len(b) {
			return errors.New("inotify: an event is cut")
		}
		name := unix.ByteSliceToString(b[:n])
		b = b[n:]
		if err := w.one(wd, mask, name); err != nil {
			return err
		}
	}
	if w.stale && !w.ending {
		if err := w.again(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.flush()
}

// one handles one event.
func (w *watcher) one(wd int32, mask uint32, name string) error {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.stale = w.req.Recursive
		return w.emit("overflow", "")
	}
	dir, known := w.dirs[wd]
	switch {
	case !known:
		return nil
	case mask&unix.IN_IGNORED != 0:
		delete(w.dirs, wd)
		return nil
	case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
		if dir != "." {
			return nil // the directory above says so
		}
		w.ending = true
		return w.emit("remove", ".")
	}
	rel, isDir := path.Join(dir, name), mask&unix.IN_ISDIR != 0
	for _, e := range []struct {
		bit  uint32
		kind string
	}{
		{unix.IN_CREATE, "create"}, {unix.IN_MOVED_TO, "create"}, {unix.IN_MODIFY, "write"}, {unix.IN_DELETE, "remove"}, {unix.IN_MOVED_FROM, "rename"}, {unix.IN_ATTRIB, "chmod"},
	} {
		if mask&e.bit == 0 {
			continue
		}
		if err := w.emit(e.kind, rel); err != nil {
			return err
		}
	}
	if !isDir || !w.req.Recursive || name == "" {
		return nil
	}
	w.stale = w.stale || mask&(unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0
	if mask&unix.IN_CREATE != 0 {
		return w.add(rel, true)
	}
	return nil
}

// emit tells of an event, unless it is the one before again.
func (w *watcher) emit(kind, rel string) error {
	e := Event{Type: kind, Path: Text(rel)}
	if n := len(w.batch); n > 0 && w.batch[n-1] == e {
		return nil
	}
	w.batch = append(w.batch, e)
	if w.size += len(rel) + 40; w.size >= eventsAtOnce {
		return w.flush()
	}
	return nil
}

func (w *watcher) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	err := WriteJSON(w.out, FrameEvents, w.batch)
	w.batch, w.size = w.batch[:0], 0
	return err
}
