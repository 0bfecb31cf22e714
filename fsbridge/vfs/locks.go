package vfs

import (
	"errors"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// FileLock is a record lock as fcntl(2) describes it.
type FileLock = FilelocksFileLock

const (
	// Who waits for a lock looks again after lockPause, and then ever more rarely, up to
	// maxLockPause: the host does not say when somebody outside gives up a lock.
	lockPause    = time.Millisecond
	maxLockPause = 20 * time.Millisecond

	// leavingAfter is how long who does not wait for a lock (LOCK_NB, F_SETLK) waits if the open
	// file that may have it was closed by somebody, and no RELEASE of it has come: the kernel sends that only
	// when the last descriptor is closed and what it reads ahead is there. Who has waited in vain does not
	// wait for the same close again.
	leavingAfter = 100 * time.Millisecond

	// recently is how long a file that was just changed may be changed again without new
	// times: one tick of a kernel before 6.13 at 100 Hz, twice.
	recently = 20 * time.Millisecond

	// walIndex ends the name of the file through which SQLite shares the index of a
	// write-ahead log, in a mapping (sqlite.org/walformat.html).
	walIndex = "-shm"
	wal      = "-wal"
)

// SetLock sets or gives up a record lock of owner, through an open file. If wait, it
// waits for others that have it, until r.Cancel.
func (t *Tree) SetLock(r Request, node, fh, owner uint64, l FileLock, wait bool) error {
	return t.lockSoon(r, OpSetlk, node, fh, wait, func(h *handle) error {
		n := h.Node
		guarded, err := t.locks.Set(lockKey{Node: n.id, Owner: owner}, fh, l, n.lockable(h))
		if err == nil && l.Type != posix.F_UNLCK {
			t.lookForNews(n, guarded)
		}
		return err
	})
}

// Flock does what flock(2) does with an open file.
func (t *Tree) Flock(r Request, node, fh uint64, how int, wait bool) error {
	return t.lockSoon(r, OpSetlk, node, fh, wait, func(h *handle) error {
		err := posix.Flock(h.FD, how|posix.LOCK_NB)
		if err == nil {
			t.locks.Flocked(node, fh, how != posix.LOCK_UN)
			if how != posix.LOCK_UN {
				t.lookForNews(h.Node, false)
			}
		}
		return err
	})
}

// TestLock returns a lock that would be in the way of l, or l with F_UNLCK.
func (t *Tree) TestLock(r Request, node, fh, owner uint64, l FileLock) (found FileLock, err error) {
	err = t.lockSoon(r, OpGetlk, node, fh, false, func(h *handle) error {
		found, err = t.locks.Test(lockKey{Node: h.Node.id, Owner: owner}, l, h.Node.lockable(h))
		if err == nil && found.Type != posix.F_UNLCK {
			err = posix.EAGAIN
		}
		return err
	})
	if errors.Is(err, posix.EAGAIN) {
		err = nil
	}
	return found, err
}

// Flush gives up the record locks of owner, who has closed a descriptor of the open file fh.
func (t *Tree) Flush(node, fh, owner uint64) {
	t.counts[OpFlush].Add(1)
	t.locks.Closed(lockKey{Node: node, Owner: owner}, fh)
}

// lockSoon is lock, but who does not wait does for a moment, if the open file that may have
// the lock may be about to go.
func (t *Tree) lockSoon(r Request, op Operation, node, fh uint64, wait bool, try func(h *handle) error) error {
	// Asked before: between the try and the question it may be gone, and its lock be free.
	leaving := !wait && t.locks.Leaving(node)
	err := t.lock(r, op, node, fh, wait, try)
	// Also if none is under way any more: the lock may have gone with it just now.
	if !wait && errors.Is(err, posix.EAGAIN) && t.released(r.Cancel) {
		err = t.lock(r, op, node, fh, wait, try)
	}
	if !leaving || !errors.Is(err, posix.EAGAIN) {
		return err
	}
	over := make(chan struct{})
	timer := time.AfterFunc(t.leaving, func() { close(over) })
	defer timer.Stop()
	soon := r
	soon.Cancel = over
	if err = t.lock(soon, op, node, fh, true, try); errors.Is(err, posix.EINTR) {
		t.locks.Stay(node)
		err = posix.EAGAIN
	}
	return err
}

// lock calls try with an open file, again and again if wait, as long as it fails with EAGAIN.
func (t *Tree) lock(r Request, op Operation, node, fh uint64, wait bool, try func(h *handle) error) error {
	if wait && op == OpSetlk {
		op = OpSetlkw
	}
	h, err := t.use(op, node, fh)
	if err != nil {
		return err
	}
	defer t.used(h)
	for pause := lockPause; ; pause = min(2*pause, maxLockPause) {
		var freed <-chan struct{}
		if wait {
			freed = t.locks.Freed()
		}
		err := try(h)
		if !wait || !errors.Is(err, posix.EAGAIN) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-freed:
		case <-timer.C:
		case <-r.Cancel:
			err = posix.EINTR
		}
		timer.Stop()
		switch {
		case errors.Is(err, posix.EINTR):
			return err
		case t.closed.Load():
			return posix.ENOTCONN
		}
	}
}

// lockable tells the table of locks how to reach the file.
func (n *node) lockable(h *handle) lockableFile {
	f := lockableFile{Access: posix.O_RDONLY, Apart: n.isWalIndex()}
	if h.Writer {
		f.Access = posix.O_WRONLY
	}
	f.Open = func(flags int) (int, error) {
		fd, _, err := n.open(flags)
		if err == nil && fd >= n.tree.maxFD {
			_ = hostfs.Close(fd)
			return -1, posix.ENOLCK
		}
		return fd, err
	}
	return f
}

func (n *node) isWalIndex() bool {
	b := n.names.Load()
	return b != nil && strings.HasSuffix(b.Name, walIndex)
}

// lookForNews has the client drop what it knows of a file on which somebody inside has
// just got a lock, if somebody else may have changed it under his. guarded says that it
// is the index of a write-ahead log that others may have used until now: then their
// database and log are looked at, too.
func (t *Tree) lookForNews(n *node, guarded bool) {
	if t.onLock == nil {
		return
	}
	var news []uint64
	if n.hasNews() || guarded {
		news = append(news, n.id)
	}
	if guarded {
		news = append(news, t.besideIndex(n)...)
	}
	if len(news) > 0 {
		t.onLock(news)
	}
}

// hasNews tells whether the file may be another than the client was last told, and notes
// that the client asks again.
func (n *node) hasNews() bool {
	st, err := n.stat()
	if err != nil {
		return true
	}
	news := !n.noted(&st) || time.Since(time.Unix(0, max(st.Mtime, st.Ctime))) < recently
	n.note(&st)
	return news
}

// besideIndex returns the database and the log that the index of a write-ahead log is
// of, if the client knows them.
func (t *Tree) besideIndex(index *node) (nodes []uint64) {
	b := index.names.Load()
	if b == nil {
		return nil
	}
	d, err := t.dirs.acquire(b.Parent)
	if err != nil {
		return nil
	}
	defer t.dirs.Release(d)
	name := strings.TrimSuffix(b.Name, walIndex)
	for _, name := range []string{name, name + wal} {
		if st, err := hostfs.StatAt(d.FD, name); err == nil {
			if n := t.find(st.ID); n != nil {
				nodes = append(nodes, n.id)
			}
		}
	}
	return nodes
}
