package undolog

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// removeTree is [hostfs.RemoveAll] for what is the log's. linked (which may be
// nil) is called before and after one of several names of a file is removed, with
// what the file is; held then counts one less, unless it is nil: they are no names
// of the log's.
func removeTree(ctx context.Context, dirfd int, name string, linked func(st *hostfs.Stat, removed bool) error, held *heldLinks) error {
	return hostfs.RemoveAll(ctx, dirfd, name, remover{linked, held}.unlink)
}

type remover struct {
	linked func(st *hostfs.Stat, removed bool) error
	held   *heldLinks
}

// unlink removes a name that is no directory. Removing one of several names of
// a file changes its ctime, which must not look like an edit.
func (r remover) unlink(dirfd int, name string) error {
	if r.linked == nil {
		return hostfs.UnlinkAt(dirfd, name)
	}
	st, err := hostfs.StatAt(dirfd, name)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return hostfs.UnlinkAt(dirfd, name)
	}
	if st.Nlink == 1 {
		return r.held.change(st.ID, -1, func() error { return hostfs.UnlinkAt(dirfd, name) })
	}
	fd, err := hostfs.OpenVerified(dirfd, name, st.ID, unix.O_PATH)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if err := r.linked(&st, false); err != nil {
		return err
	}
	err = r.held.change(st.ID, -1, func() error { return hostfs.UnlinkAt(dirfd, name) })
	if err := fault.Point("trash.unlinked"); err != nil {
		return err
	}
	now, serr := hostfs.StatFD(fd)
	if serr != nil {
		return errors.Join(err, serr)
	}
	return errors.Join(err, r.linked(&now, true))
}

// emptyTrash deletes what discardDir moved away.
func (l *Log) emptyTrash(ctx context.Context) error {
	fd, err := hostfs.OpenDirAt(l.dir.FD(), "trash")
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	names, err := hostfs.ReadDir(fd)
	if err != nil {
		return err
	}
	for _, d := range names {
		if err = removeTree(ctx, fd, d.Name, l.stamps.relink, &l.held); err != nil {
			break
		}
	}
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	return errors.Join(err, l.stamps.flush())
}

// relink takes in that the log removes a name of its own of an inode. If that is
// as the steps left it, its stamp is a loose one until that is done, and so is
// what a step that ends meanwhile leaves: neither a capture nor a kill makes it
// look like an edit.
func (t *stampTable) relink(st *hostfs.Stat, removed bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if removed {
		delete(t.relinking, st.ID)
	} else {
		if t.relinking == nil {
			t.relinking = map[hostfs.ID]bool{}
		}
		t.relinking[st.ID] = true
	}
	v, ok := t.inodes[st.ID]
	if !ok || !v.fits(st) {
		return nil
	}
	stamp := looseStamp(st)
	if removed {
		stamp = stampOf(st)
	}
	seq := t.seq
	t.seqFor(v.seq)
	t.putInode(st.ID, stamp, v.content)
	t.seqFor(seq)
	if removed { // written with what comes next
		return nil
	}
	return t.flush()
}
