package watcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	inotifyMask = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK
	inotifyBuffer = 64 << 10
	// inotifyReads bounds how many buffers one Read takes.
	inotifyReads = 64
	inotifyHead  = unix.SizeofInotifyEvent
)

// inotify watches directories by inode. It knows where each is in the tree and
// follows renames, also of the directories above, of which the kernel says
// nothing to a watch. One that goes where it cannot be followed is given up
// and reported.
type inotify struct {
	root string
	fd   int // while mu is held and closed is not set; -1: given back
	wait *alarm
	buf  []byte

	mu     sync.Mutex
	closed bool // nothing is watched or read any more
	top    *watched
	byWD   map[int32]*watched
	moving map[uint32]*watched // by the cookie of the rename
}

// watched is a directory at its place in the tree.
type watched struct {
	src    *inotify
	wd     int32 // -1: not watched itself
	id     hostfs.ID
	parent *watched // nil: the root, or no longer in the tree
	name   string
	kids   map[string]*watched
	placed bool // a rename of it was followed, which is about to be told of again
}

// Share is how many directories that nobody has looked into may be watched where caches need watches, too: a half of what
// the user may have. 0: there is no limit.
func Share() int {
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		return 0
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return max(most/2, 1)
}

func newSource(root string) (Source, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	s := &inotify{root: root, fd: fd, buf: make([]byte, inotifyBuffer),
		byWD: map[int32]*watched{}, moving: map[uint32]*watched{}}
	s.top = &watched{src: s, wd: -1}
	if s.wait, err = newAlarm(fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return s, nil
}

func (s *inotify) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for wd := range s.byWD {
		_, _ = unix.InotifyRmWatch(s.fd, uint32(wd))
	}
}

func (s *inotify) Close() error {
	s.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return os.ErrClosed
	}
	fd := s.fd
	s.fd = -1
	return errors.Join(s.wait.close(), unix.Close(fd))
}

// ID implements [Dir].
func (d *watched) ID() hostfs.ID { return d.id }

// Path implements [Dir].
func (d *watched) Path() (string, bool) {
	d.src.mu.Lock()
	defer d.src.mu.Unlock()
	return d.path()
}

func (d *watched) path() (string, bool) {
	var parts []string
	for ; d != d.src.top; d = d.parent {
		if d.parent == nil {
			return "", false
		}
		parts = append(parts, d.name)
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, "/"), true
}

// Add implements [Source].
func (s *inotify) Add(path string, id hostfs.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	full := filepath.Join(s.root, path)
	wd, err := unix.InotifyAddWatch(s.fd, full, inotifyMask)
	if err != nil {
		return os.NewSyscallError("inotify_add_watch", err)
	}
	d := s.byWD[int32(wd)]
	if d == nil {
		d = &watched{src: s, wd: int32(wd), id: id} // for good: it is read without mu
	}
	var st unix.Stat_t
	if err := unix.Lstat(full, &st); err != nil || (hostfs.ID{Dev: st.Dev, Ino: st.Ino}) != id {
		if s.byWD[d.wd] == nil {
			_, _ = unix.InotifyRmWatch(s.fd, uint32(wd))
		}
		return errors.Join(err, hostfs.ErrChanged)
	}
	s.byWD[d.wd] = d
	s.place(d, path)
	return nil
}

// place puts d at path.
func (s *inotify) place(d *watched, path string) {
	if path == "." || path == "" {
		d.adopt(s.top)
		s.top = d
		return
	}
	up := s.top
	parts := strings.Split(path, "/")
	for _, name := range parts[:len(parts)-1] {
		next := up.kids[name]
		if next == nil || next == d {
			next = &watched{src: s, wd: -1}
			up.add(next, name)
		}
		up = next
	}
	if up.kids[parts[len(parts)-1]] != d {
		up.add(d, parts[len(parts)-1])
	}
}

// add makes c the directory name in d. What was only a step to others below it
// hands them over; what was watched there was moved or removed, and an event
// of that is on its way.
func (d *watched) add(c *watched, name string) {
	c.leave()
	if old := d.kids[name]; old != nil {
		old.leave()
		if old.wd < 0 {
			c.adopt(old)
		}
	}
	if d.kids == nil {
		d.kids = map[string]*watched{}
	}
	d.kids[name], c.parent, c.name = c, d, name
}

// adopt takes over the directories in old.
func (d *watched) adopt(old *watched) {
	if old == d {
		return
	}
	for name, k := range old.kids {
		if d.kids[name] == nil {
			d.add(k, name)
		}
	}
}

func (d *watched) leave() {
	if d.parent != nil && d.parent.kids[d.name] == d {
		delete(d.parent.kids, d.name)
	}
	d.parent = nil
}

// drop gives up d and everything below it.
func (s *inotify) drop(d *watched, gone *[]hostfs.ID) {
	d.leave()
	for _, k := range d.kids {
		s.drop(k, gone)
	}
	if d.wd >= 0 && s.byWD[d.wd] == d {
		_, _ = unix.InotifyRmWatch(s.fd, uint32(d.wd))
		delete(s.byWD, d.wd)
		*gone = append(*gone, d.id)
	}
}

// Read implements [Source].
func (s *inotify) Read() (b Batch, err error) {
	for reads := 0; reads < inotifyReads; {
		n, err := s.read(&b)
		switch {
		case n > 0:
			reads++
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.EAGAIN):
			return b, err
		}
		if reads > 0 {
			break
		}
		if err := s.wait.next(); err != nil {
			return b, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // fd may be another's
		return b, os.ErrClosed
	}
	if b.Lost { // of renames, too
		for _, d := range s.byWD {
			s.verify(d, &b.Gone)
		}
	}
	for cookie, d := range s.moving { // watched ones are told of again
		if d.wd < 0 {
			delete(s.moving, cookie)
			s.drop(d, &b.Gone)
		}
	}
	return b, nil
}

// read takes in what is there, as far as one buffer holds it.
func (s *inotify) read(b *Batch) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, os.ErrClosed
	}
	n, err := unix.Read(s.fd, s.buf)
	if n > 0 {
		s.take(s.buf[:n], b)
	}
	return n, err
}

// verify gives d up if it is not where we believe.
func (s *inotify) verify(d *watched, gone *[]hostfs.ID) {
	var st unix.Stat_t
	path, ok := d.path()
	if !ok || unix.Lstat(filepath.Join(s.root, path), &st) != nil || (hostfs.ID{Dev: st.Dev, Ino: st.Ino}) != d.id {
		if d != s.top {
			s.drop(d, gone)
		}
	}
}

// take takes the events in buf.
func (s *inotify) take(buf []byte, b *Batch) {
	ne := binary.NativeEndian
	for len(buf) >= inotifyHead {
		wd, mask, cookie := int32(ne.Uint32(buf)), ne.Uint32(buf[4:]), ne.Uint32(buf[8:])
		end := inotifyHead + int(ne.Uint32(buf[12:]))
		if end > len(buf) {
			return
		}
		name, _, _ := strings.Cut(string(buf[inotifyHead:end]), "\x00")
		buf = buf[end:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			b.Lost = true
		}
		if d := s.byWD[wd]; d != nil {
			s.event(d, mask, cookie, name, b)
		}
	}
}

func (s *inotify) event(d *watched, mask, cookie uint32, name string, b *Batch) {
	switch {
	case mask&unix.IN_IGNORED != 0:
		delete(s.byWD, d.wd)
		d.wd = -1
		if len(d.kids) == 0 && d != s.top {
			d.leave()
		}
		return
	case mask&unix.IN_MOVE_SELF != 0:
		if !d.placed && d != s.top {
			for c, m := range s.moving {
				if m == d {
					delete(s.moving, c)
				}
			}
			s.drop(d, &b.Gone)
		}
		d.placed = false
		return
	case mask&(unix.IN_MOVED_FROM|unix.IN_ISDIR) == unix.IN_MOVED_FROM|unix.IN_ISDIR:
		if c := d.kids[name]; c != nil {
			c.leave()
			s.moving[cookie] = c
		}
	case mask&(unix.IN_MOVED_TO|unix.IN_ISDIR) == unix.IN_MOVED_TO|unix.IN_ISDIR:
		if c := s.moving[cookie]; c != nil {
			delete(s.moving, cookie)
			d.add(c, name)
			c.placed = c.wd >= 0
		} else {
			b.Made = append(b.Made, Event{Dir: d, Name: name})
		}
	case mask&(unix.IN_CREATE|unix.IN_ISDIR) == unix.IN_CREATE|unix.IN_ISDIR:
		b.Made = append(b.Made, Event{Dir: d, Name: name})
	case name == "" && mask&unix.IN_DELETE_SELF != 0:
		return // its directory tells of it
	}
	b.Events = append(b.Events, Event{Dir: d, Name: name})
}
