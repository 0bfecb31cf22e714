//go:build darwin || (linux && portable)

package posix

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// firstHeld is the least number of a descriptor of ours. The system's own numbers are far below.
const firstHeld = 1 << 30

// held stands for a descriptor with O_PATH of what this system opens for nobody: a symlink, a FIFO, a socket, a device, or what denies us
// reading. It is a name in a directory, and the inode that was found there. Whoever uses it looks whether the name still leads to that
// inode, before and after. It goes along with what this process does to the name, and knows the further names that this process gives the
// inode, since one of them stands for it when the first goes. If somebody else takes the name away, it is ESTALE.
type held struct {
	names  []spot // the first is used; none: this process has removed the last that is known
	st     Stat_t // as it was seen last
	search int    // a directory that we may enter, but not read: leads to what is in it; else -1
}

// spot is a name that is held.
type spot struct {
	dir   int // of the directory, the system's own number; ours to close
	dirID inode
	name  string
}

// mostNames bounds the names that are known of one inode.
const mostNames = 4

// newSpot keeps a name. dirID is of the directory p.dir.
func newSpot(p place, dirID inode) (spot, error) {
	dir, err := unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	return spot{dir, dirID, p.name}, from(err)
}

func (s spot) is(name string, dirID inode) bool { return s.name == name && s.dirID == dirID }

// inode is the identity of a file.
type inode struct{ dev, ino uint64 }

func inodeOf(st *Stat_t) inode { return inode{st.Dev, st.Ino} }

// table has what is held in this process, as the kernel's own table has what is open.
type table struct {
	count atomic.Int64
	mu    sync.RWMutex
	next  int
	of    map[int]*held
}

// holding is the process's own.
var holding = table{next: firstHeld, of: make(map[int]*held)}

// hold returns a number for name in dirfd, a number of the system's. search becomes the table's, even if this fails.
func (t *table) hold(dirfd int, name string, st *Stat_t, search int) (int, error) {
	h := &held{st: *st, search: search}
	var at Stat_t
	err := systemFstat(dirfd, &at)
	if err == nil {
		var s spot
		if s, err = newSpot(place{dirfd, name}, inodeOf(&at)); err == nil {
			h.names = []spot{s}
		}
	}
	if err != nil {
		h.close()
		return -1, err
	}
	return t.add(h), nil
}

func (t *table) add(h *held) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	fd := t.next
	t.next++
	t.of[fd] = h
	t.count.Add(1)
	return fd
}

func (h *held) close() {
	for _, s := range h.names {
		_ = unix.Close(s.dir)
	}
	if h.search >= 0 {
		_ = unix.Close(h.search)
	}
}

func (t *table) drop(fd int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.of[fd]
	if h == nil {
		return EBADF
	}
	delete(t.of, fd)
	t.count.Add(-1)
	h.close()
	return nil
}

// look says how the inode is now. One that has lost its name to us is as it was, without it, and without a time of change if it may have others.
func (h *held) look(st *Stat_t) error {
	if len(h.names) == 0 {
		*st = h.st
		return nil
	}
	if err := systemFstatat(h.names[0].dir, h.names[0].name, st); err == ENOENT || err == ENOTDIR {
		return ESTALE
	} else if err != nil {
		return err
	}
	if inodeOf(st) != inodeOf(&h.st) || st.Mode&S_IFMT != h.st.Mode&S_IFMT {
		return ESTALE
	}
	return nil
}

// stat is [Fstat].
func (t *table) stat(fd int, st *Stat_t) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h := t.of[fd]
	if h == nil {
		return EBADF
	}
	return h.look(st)
}

// by runs f with the name of what is held as fd, while this process renames nothing, and looks before and after whether it is that inode's.
func (t *table) by(fd int, f func(dirfd int, name string, st *Stat_t) error) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h := t.of[fd]
	if h == nil {
		return EBADF
	}
	if len(h.names) == 0 {
		return ESTALE
	}
	var st, after Stat_t
	if err := h.look(&st); err != nil {
		return err
	}
	if err := f(h.names[0].dir, h.names[0].name, &st); err != nil {
		return err
	}
	return h.look(&after)
}

// again holds what is held as fd once more.
func (t *table) again(fd int) (int, error) {
	t.mu.RLock()
	h := t.of[fd]
	if h == nil {
		t.mu.RUnlock()
		return -1, EBADF
	}
	n := held{st: h.st, search: -1}
	var err error
	for _, old := range h.names {
		var s spot
		if s, err = newSpot(place{old.dir, old.name}, old.dirID); err != nil {
			break
		}
		n.names = append(n.names, s)
	}
	if err == nil && h.search >= 0 {
		n.search, err = unix.FcntlInt(uintptr(h.search), unix.F_DUPFD_CLOEXEC, 0)
	}
	t.mu.RUnlock()
	if err != nil {
		n.close()
		return -1, from(err)
	}
	return t.add(&n), nil
}

// at runs f with a number of the system's for the directory dirfd, which may be held.
func (t *table) at(dirfd int, f func(dirfd int) error) error {
	if dirfd < firstHeld {
		return f(dirfd)
	}
	fd, err := t.enter(dirfd)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// enter opens the directory that is held as fd, to be entered.
func (t *table) enter(fd int) (n int, err error) {
	t.mu.RLock()
	search := -1
	if h := t.of[fd]; h != nil && h.search >= 0 {
		search, err = unix.FcntlInt(uintptr(h.search), unix.F_DUPFD_CLOEXEC, 0)
	}
	t.mu.RUnlock()
	if search >= 0 || err != nil {
		return search, from(err)
	}
	err = t.by(fd, func(dirfd int, name string, st *Stat_t) error {
		if st.Mode&S_IFMT != S_IFDIR {
			return ENOTDIR
		}
		n, err = systemOpenat(dirfd, name, O_RDONLY|O_DIRECTORY|O_NOFOLLOW, 0)
		if err == EACCES {
			n, err = systemSearch(dirfd, name)
		}
		return err
	})
	return n, err
}

// renaming performs f, which renames, and has those that are held go along: b is what replaces nothing, or is exchanged with a. Of a
// removal there is only a.
func (t *table) renaming(a, b place, exchange bool, f func() error) error {
	if t.count.Load() == 0 {
		return f()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var from, to Stat_t
	if err := systemFstat(a.dir, &from); err != nil {
		return err
	}
	if b.name != "" {
		if err := systemFstat(b.dir, &to); err != nil {
			return err
		}
	}
	same := b.name != "" && oneInode(a, b) // then a rename does nothing
	lost := a
	if b.name != "" {
		lost = b
	}
	var before Stat_t // of what may lose its last name
	_ = systemFstatat(lost.dir, lost.name, &before)
	if err := f(); err != nil || same {
		return err
	}
	for _, h := range t.of {
		for i := 0; i < len(h.names); i++ {
			to, id := b, inodeOf(&to)
			switch s := h.names[i]; {
			case s.is(a.name, inodeOf(&from)):
			case b.name != "" && s.is(b.name, id):
				if to, id = (place{}), (inode{}); exchange {
					to, id = a, inodeOf(&from)
				}
			default:
				continue
			}
			if !h.move(i, to, id, &before) {
				i--
			}
		}
	}
	return nil
}

// linked notes that this process has given the inode st another name.
func (t *table) linked(p place, st *Stat_t) {
	var at Stat_t
	if t.count.Load() == 0 || systemFstat(p.dir, &at) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.of {
		if inodeOf(&h.st) != inodeOf(st) || len(h.names) == 0 || len(h.names) == mostNames {
			continue
		}
		if s, err := newSpot(p, inodeOf(&at)); err == nil {
			h.names = append(h.names, s)
		}
	}
}

// oneInode tells whether two names are of one inode.
func oneInode(a, b place) bool {
	var x, y Stat_t
	return systemFstatat(a.dir, a.name, &x) == nil && systemFstatat(b.dir, b.name, &y) == nil && inodeOf(&x) == inodeOf(&y)
}

// place is a name in a directory, by a number of the system's. The empty name is none.
type place struct {
	dir  int
	name string
}

// move notes a new name in place of the i-th, or that there is none: then it returns false. before is how the inode was, if it was looked at.
func (h *held) move(i int, to place, id inode, before *Stat_t) bool {
	old := h.names[i]
	if to.name != "" {
		if s, err := newSpot(to, id); err == nil {
			h.names[i] = s
			_ = unix.Close(old.dir)
			return true
		}
	}
	_ = unix.Close(old.dir)
	h.names = append(h.names[:i], h.names[i+1:]...)
	if len(h.names) == 0 && inodeOf(before) == inodeOf(&h.st) {
		h.st = *before
	}
	if len(h.names) == 0 && h.st.Nlink > 0 {
		if h.st.Nlink--; h.st.Nlink > 0 {
			h.st.Ctim = Timespec{} // it goes on under names that are not known, and changes
		}
	}
	return false
}
