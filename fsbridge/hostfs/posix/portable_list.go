//go:build darwin || (linux && portable)

package posix

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"
)

// macOS tells no position of an entry that holds when another entry is removed: a number of entries at best. So positions are made of
// names here, as ext4 does it: a listing is sorted by a hash of the names, and goes on behind that hash, whatever came or went
// meanwhile, also by another descriptor. A directory is read as a whole when a listing of it begins, and kept until
// its end, or until somebody goes back to the start.
const firstPosition = 16

type entry struct {
	ino  uint64
	pos  int64
	typ  uint8
	name string
}

// listing is what is left to be told of a directory.
type listing struct{ left []entry }

// listingsOf are the listings by their descriptors.
type listingsOf struct {
	mu sync.Mutex
	of map[int]*listing
}

var listings = listingsOf{of: make(map[int]*listing)}

// forget forgets the listing of a descriptor.
func (l *listingsOf) forget(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, fd)
}

// seek has the listing of fd go on behind a position. It returns false if that is its start, and there the kernel's position
// begins, too.
func (l *listingsOf) seek(fd int, pos int64) (bool, error) {
	l.forget(fd)
	if pos == 0 {
		return false, nil
	}
	all, err := read(fd)
	if err != nil {
		return true, err
	}
	at, _ := slices.BinarySearchFunc(all, pos, func(e entry, pos int64) int { return cmp.Compare(e.pos, pos+1) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[fd] = &listing{left: all[at:]}
	return true, nil
}

// read lists the directory fd, in the order of positions.
func read(fd int) ([]entry, error) {
	all, err := systemReadDir(fd)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].pos = position(all[i].name)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(a.name, b.name)) })
	return all, nil
}

func position(name string) int64 {
	switch name {
	case ".":
		return firstPosition
	case "..":
		return firstPosition + 1
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return max(int64(h.Sum64()>>2), firstPosition+2)
}

// Getdents reads entries of a directory at its position, as getdents64(2) lays them out. A descriptor's listing is for one at a time.
func Getdents(fd int, buf []byte) (n int, err error) {
	if fd >= firstHeld {
		return 0, EBADF
	}
	listings.mu.Lock()
	l := listings.of[fd]
	listings.mu.Unlock()
	if l == nil {
		all, err := read(fd)
		if err != nil {
			return 0, err
		}
		l = &listing{left: all}
		listings.mu.Lock()
		listings.of[fd] = l
		listings.mu.Unlock()
	}
	for len(l.left) > 0 {
		size := l.left[0].encode(buf[n:])
		if size == 0 {
			break
		}
		n += size
		l.left = l.left[1:]
	}
	if n == 0 && len(l.left) > 0 {
		return 0, EINVAL
	}
	return n, nil
}

// encode writes the entry to buf, if there is room for it.
func (e *entry) encode(buf []byte) (size int) {
	const head = 19
	size = (head + len(e.name) + 1 + 7) &^ 7
	if size > len(buf) {
		return 0
	}
	clear(buf[:size])
	binary.NativeEndian.PutUint64(buf, e.ino)
	binary.NativeEndian.PutUint64(buf[8:], uint64(e.pos))
	binary.NativeEndian.PutUint16(buf[16:], uint16(size))
	buf[18] = e.typ
	copy(buf[head:], e.name)
	return size
}
