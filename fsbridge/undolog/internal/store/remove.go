package store

import (
	"context"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// RemoveTree is [hostfs.RemoveAll] for what is the log's. linked (which may be
// nil) is called before and after one of several names of a file is removed, with
// a descriptor of it; held then counts one less, unless it is nil: they are no names
// of the log's.
func RemoveTree(ctx context.Context, dirfd int, name string, linked func(fd int, removed bool) error, held *Links) error {
	return hostfs.RemoveAll(ctx, dirfd, name, Unlinker(linked, held))
}

// Unlinker returns what [RemoveTree] removes a name with that is no directory.
func Unlinker(linked func(fd int, removed bool) error, held *Links) func(dirfd int, name string) error {
	return remover{linked, held}.unlink
}

type remover struct {
	linked func(fd int, removed bool) error
	held   *Links
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
		return r.held.Change(st.ID, -1, func() error { return hostfs.UnlinkAt(dirfd, name) })
	}
	fd, err := hostfs.OpenVerified(dirfd, name, st.ID, posix.O_PATH)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if err := r.linked(fd, false); err != nil {
		return err
	}
	err = r.held.Change(st.ID, -1, func() error { return hostfs.UnlinkAt(dirfd, name) })
	if err := fault.Point("trash.unlinked"); err != nil {
		return err
	}
	return errors.Join(err, r.linked(fd, true))
}
