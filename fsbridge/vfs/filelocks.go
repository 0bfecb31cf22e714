package vfs

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// FilelocksFileLock is a record lock as fcntl(2) describes it.
type FilelocksFileLock struct {
	Type       int16  // F_RDLCK, F_WRLCK or F_UNLCK
	Start, End uint64 // bytes; the last one belongs to it
	PID        uint32 // of the process that has it, as the client numbers it; 0 for one outside
}

// endless is the End of a lock that grows with the file: OFFSET_MAX in the kernel's fs.h.
const endless = 1<<63 - 1

// lockKey says whose locks of which file are meant. Both numbers are the client's.
type lockKey struct{ Node, Owner uint64 }

// lockableFile is how the table reaches a file of the host.
type lockableFile struct {
	// Open opens the file anew, with the access modes of open(2) that it has.
	Open func(flags int) (fd int, err error)
	// Access is the access mode of the descriptor that the lock was asked for with.
	Access int
	// Apart keeps our owners' locks apart from everybody else's: see the package.
	Apart bool
}

// lockTable has the locks of one client. The zero Table is empty. Its methods are safe for
// concurrent use and do not wait.
type lockTable struct {
	used  atomic.Bool // a lock was ever set
	mu    sync.Mutex
	files map[uint64]*file
	freed chan struct{} // closed when a lock may have been given up; nil while nobody waits
	// flocks are the open files, by their node, that have a lock of flock(2).
	flocks map[uint64]map[uint64]struct{}
	// leaving are the open files, by their node, of which a descriptor was closed while they
	// had a lock of their own (of flock(2), or a record lock of the description): that may
	// have been the last one.
	leaving map[uint64]map[uint64]struct{}
}

// file is a file on which an owner may have locks.
type file struct {
	owners map[uint64]*filelocksOwner
	guard  int // apart: the lock that stands for all owners; else -1
	own    int // apart: where the owners' locks are; else -1
}

// filelocksOwner is an owner of locks on one file.
type filelocksOwner struct {
	fd      int                 // whose locks they are
	pid     uint32              // of the last request
	handles map[uint64]struct{} // open files through which locks were asked for
}

// Freed returns a channel that is closed when one of our locks may have been given up.
func (t *lockTable) Freed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.freed == nil {
		t.freed = make(chan struct{})
	}
	return t.freed
}

// wake has those look again who wait for [lockTable.Freed]. t.mu is held.
func (t *lockTable) wake() {
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

// Set sets or gives up a lock that was asked for through the open file handle. It fails
// with EAGAIN where another lock is in the way. guarded tells that f was set apart by
// this call: somebody outside may have used it until now.
func (t *lockTable) Set(k lockKey, handle uint64, l FilelocksFileLock, f lockableFile) (guarded bool, err error) {
	if l.Type == posix.F_UNLCK {
		return false, t.unlock(k, l)
	}
	t.used.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	held, guarded, err := t.file(k.Node, f)
	if err != nil {
		return false, err
	}
	o, err := held.owner(k.Owner, f)
	if err == nil {
		o.pid = l.PID
		o.handles[handle] = struct{}{}
		err = record(o.fd, l)
	}
	if err != nil {
		t.tidy(k.Node, held)
	}
	return guarded, err
}

func (t *lockTable) unlock(k lockKey, l FilelocksFileLock) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.files[k.Node]
	if held == nil || held.owners[k.Owner] == nil {
		return nil
	}
	t.wake()
	return record(held.owners[k.Owner].fd, l)
}

// Test returns a lock that is in the way of l, or l with F_UNLCK.
func (t *lockTable) Test(k lockKey, l FilelocksFileLock, f lockableFile) (FilelocksFileLock, error) {
	fd, err := open(f)
	if err != nil {
		return FilelocksFileLock{}, err
	}
	defer closing(fd)
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.files[k.Node]
	if held != nil && held.own >= 0 { // nobody outside has any
		own, err := hostfs.ReopenFD(held.own, posix.O_RDWR)
		if err != nil {
			return FilelocksFileLock{}, err
		}
		defer closing(own)
		fd = own
	}
	// Another description of the file would find the owner's own locks.
	if held != nil && held.owners[k.Owner] != nil {
		fd = held.owners[k.Owner].fd
	}
	found, err := conflict(fd, l)
	if err == nil && found.Type != posix.F_UNLCK && held != nil {
		found.PID = held.other(k.Owner, found.PID)
	}
	return found, err
}

// Closed says that k.Owner has closed a descriptor of an open file: all the locks that he
// has as a process are given up.
func (t *lockTable) Closed(k lockKey, handle uint64) {
	if !t.used.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.files[k.Node]
	if held != nil && held.owners[k.Owner] != nil {
		held.drop(k.Owner)
		t.tidy(k.Node, held)
		t.wake()
	}
	_, locked := t.flocks[k.Node][handle]
	// The client does not tell whether an owner is a process or an open file: who else has asked
	// through this one may be it.
	for _, o := range held.all() {
		if _, asked := o.handles[handle]; asked {
			locked = true
		}
	}
	if locked {
		put(&t.leaving, k.Node, handle)
	}
}

// Released says that an open file is gone. An owner that has none of a file any more has
// no locks of it.
func (t *lockTable) Released(node, handle uint64) {
	if !t.used.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake()
	remove(t.flocks, node, handle)
	remove(t.leaving, node, handle)
	held := t.files[node]
	if held == nil {
		return
	}
	for id, o := range held.owners {
		delete(o.handles, handle)
		if len(o.handles) == 0 {
			held.drop(id)
		}
	}
	t.tidy(node, held)
}

// Flocked says that an open file got a lock of flock(2), or gave it up. The lock itself is
// the open file's own, on the host.
func (t *lockTable) Flocked(node, handle uint64, has bool) {
	t.used.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !has {
		remove(t.flocks, node, handle)
		t.wake()
		return
	}
	put(&t.flocks, node, handle)
	remove(t.leaving, node, handle)
}

// Leaving tells whether an open file of the node that has a lock of its own may be about to
// go: a descriptor of it was closed.
func (t *lockTable) Leaving(node uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.leaving[node]) > 0
}

// Stay says that the open files which were about to go have other descriptors.
func (t *lockTable) Stay(node uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.leaving, node)
}

// put notes an open file of a node.
func put(of *map[uint64]map[uint64]struct{}, node, handle uint64) {
	if *of == nil {
		*of = make(map[uint64]map[uint64]struct{})
	}
	if (*of)[node] == nil {
		(*of)[node] = make(map[uint64]struct{})
	}
	(*of)[node][handle] = struct{}{}
}

// remove forgets an open file of a node.
func remove(of map[uint64]map[uint64]struct{}, node, handle uint64) {
	delete(of[node], handle)
	if len(of[node]) == 0 {
		delete(of, node)
	}
}

// Empty tells whether there are no locks.
func (t *lockTable) Empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.files) == 0 && len(t.flocks) == 0
}

// Close gives up all locks.
func (t *lockTable) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, held := range t.files {
		for id := range held.owners {
			held.drop(id)
		}
		t.tidy(node, held)
	}
	t.wake()
}

// file returns the entry of a node, which it makes if there is none.
func (t *lockTable) file(node uint64, f lockableFile) (held *file, guarded bool, err error) {
	if held = t.files[node]; held != nil {
		return held, false, nil
	}
	held = &file{owners: make(map[uint64]*filelocksOwner), guard: -1, own: -1}
	if f.Apart {
		if err := held.setApart(f); err != nil {
			held.close()
			return nil, false, err
		}
	}
	if t.files == nil {
		t.files = make(map[uint64]*file)
	}
	t.files[node] = held
	return held, f.Apart, nil
}

// tidy forgets a file on which nobody has locks.
func (t *lockTable) tidy(node uint64, held *file) {
	if len(held.owners) == 0 {
		held.close()
		delete(t.files, node)
	}
}

// setApart takes the lock that stands for all owners.
func (held *file) setApart(f lockableFile) (err error) {
	if held.guard, err = f.Open(posix.O_RDWR); err != nil {
		return err
	}
	if err = record(held.guard, FilelocksFileLock{Type: posix.F_WRLCK, End: endless}); err != nil {
		return err
	}
	held.own, err = posix.Temporary("locks")
	return err
}

func (held *file) close() {
	for _, fd := range []int{held.guard, held.own} {
		if fd >= 0 {
			closing(fd)
		}
	}
}

// filelocksOwner returns an owner of the file, with a description of its own.
func (held *file) owner(id uint64, f lockableFile) (o *filelocksOwner, err error) {
	if o = held.owners[id]; o != nil {
		return o, nil
	}
	var fd int
	if held.own >= 0 {
		fd, err = hostfs.ReopenFD(held.own, posix.O_RDWR)
	} else {
		fd, err = open(f)
	}
	if err != nil {
		return nil, err
	}
	o = &filelocksOwner{fd: fd, handles: make(map[uint64]struct{})}
	held.owners[id] = o
	return o, nil
}

// all returns the owners of a file; of none there are none.
func (held *file) all() map[uint64]*filelocksOwner {
	if held == nil {
		return nil
	}
	return held.owners
}

func (held *file) drop(id uint64) {
	closing(held.owners[id].fd)
	delete(held.owners, id)
}

// other returns the process of another owner that may have the lock which was found. The
// host names none for a lock of ours (-1), and one that the client does not know for others.
func (held *file) other(id uint64, found uint32) uint32 {
	if found != ^uint32(0) {
		return 0
	}
	for other, o := range held.owners {
		if other != id {
			return o.pid
		}
	}
	return 0
}

// closing closes a descriptor and gives up its locks.
func closing(fd int) { _ = hostfs.Close(fd) }

// open opens the file for all kinds of locks, or for those that the asking descriptor
// may set.
func open(f lockableFile) (int, error) {
	fd, err := f.Open(posix.O_RDWR)
	if err != nil && f.Access != posix.O_RDWR {
		fd, err = f.Open(f.Access)
	}
	return fd, err
}

func (l FilelocksFileLock) lock() posix.Lock {
	k := posix.Lock{Type: l.Type, Start: int64(min(l.Start, endless))}
	if l.End < endless {
		k.Length = int64(l.End-l.Start) + 1
	}
	return k
}

// record sets a lock of the description fd.
func record(fd int, l FilelocksFileLock) error {
	if l.End < l.Start || l.Start > endless {
		return posix.EINVAL
	}
	err := posix.SetLock(fd, l.lock())
	if errors.Is(err, posix.EACCES) {
		return posix.EAGAIN
	}
	return err
}

// conflict returns a lock that is in the way of l on the description fd.
func conflict(fd int, l FilelocksFileLock) (FilelocksFileLock, error) {
	if l.End < l.Start || l.Start > endless {
		return FilelocksFileLock{}, posix.EINVAL
	}
	k, err := posix.GetLock(fd, l.lock())
	if err != nil {
		return FilelocksFileLock{}, err
	}
	found := FilelocksFileLock{Type: k.Type, Start: uint64(k.Start), End: endless, PID: uint32(k.PID)}
	switch {
	case k.Type == posix.F_UNLCK:
		return FilelocksFileLock{Type: posix.F_UNLCK, Start: l.Start, End: l.End}, nil
	case k.Length > 0:
		found.End = uint64(k.Start + k.Length - 1)
	}
	return found, nil
}
