package hostfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Walk calls f for everything below the directory behind dirfd (which may be
// O_PATH), a directory before what is in it. d is an entry of the directory behind
// fd, and path leads from dirfd to it. No symlink is followed. [fs.SkipDir] leaves
// out what is in d, [fs.SkipAll] ends the walk without an error, and any other
// error is returned. A directory that cannot be read, is gone, or lies deeper than
// depth directories, is passed to f but what is in it is left out. The walk holds
// one descriptor for each level.
func Walk(dirfd, depth int, f func(fd int, path string, d *Dirent) error) error {
	fd, err := OpenSelf(dirfd, posix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = Close(fd) }()
	entries, err := ReadDir(fd)
	if err != nil {
		return err
	}
	if err = walk(fd, "", entries, depth, f); errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return err
}

func walk(fd int, prefix string, entries []Dirent, depth int, f func(fd int, path string, d *Dirent) error) error {
	for i := range entries {
		d := &entries[i]
		err := f(fd, prefix+d.Name, d)
		if errors.Is(err, fs.SkipDir) {
			continue
		}
		if err != nil {
			return err
		}
		if depth <= 0 || d.Type != posix.DT_DIR && d.Type != posix.DT_UNKNOWN {
			continue
		}
		sub, err := OpenDirAt(fd, d.Name)
		if err != nil {
			continue
		}
		if inside, rerr := ReadDir(sub); rerr == nil {
			err = walk(sub, prefix+d.Name+"/", inside, depth-1, f)
		}
		_ = Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}

// removeDepth is how many directories are open at once while a tree is removed.
// What is deeper is moved up first.
const removeDepth = 64

// RemoveAll removes name below dirfd with everything in it. It never follows a
// symlink, and gives itself the rights on directories that deny it. A name that
// does not exist is fine. A very deep tree is moved up in pieces, under names of
// its own below dirfd. If unlink is not nil, it removes what is no directory, in
// place of [UnlinkAt]: it is called for directories, too, and returns EISDIR then.
func RemoveAll(ctx context.Context, dirfd int, name string, unlink func(dirfd int, name string) error) error {
	if unlink == nil {
		unlink = UnlinkAt
	}
	r := remover{ctx: ctx, top: dirfd, unlink: unlink}
	err := r.remove(dirfd, name, 0)
	for err == nil && len(r.later) > 0 {
		name, r.later = r.later[0], r.later[1:]
		err = r.remove(dirfd, name, 0)
	}
	return err
}

type remover struct {
	ctx    context.Context
	top    int
	unlink func(dirfd int, name string) error
	later  []string // names below top
	n      int
}

func (r *remover) remove(dirfd int, name string, depth int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	err := r.unlink(dirfd, name)
	if err == nil || errors.Is(err, posix.ENOENT) {
		return nil
	}
	if !errors.Is(err, posix.EISDIR) && !errors.Is(err, posix.EPERM) {
		return err
	}
	if err := RmdirAt(dirfd, name); err == nil {
		return nil // most directories are empty
	}
	fd := -1
	_, _, err = AllowAt(dirfd, name, 0o700, func() (err error) { fd, err = OpenDirAt(dirfd, name); return err })
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = Close(fd) }()
	give(fd, 0o700)
	if depth >= removeDepth {
		return r.moveUp(dirfd, name)
	}
	entries, err := ReadDir(fd)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := r.remove(fd, e.Name, depth+1); err != nil {
			return err
		}
	}
	if err := RmdirAt(dirfd, name); err != nil && !errors.Is(err, posix.ENOENT) {
		return err
	}
	return nil
}

// moveUp takes a deep directory out of its tree, to be removed on its own.
func (r *remover) moveUp(dirfd int, name string) error {
	for {
		r.n++
		to := fmt.Sprintf("deep.%d", r.n)
		err := RenameNew(dirfd, name, r.top, to)
		if errors.Is(err, posix.EEXIST) {
			continue
		}
		if err == nil {
			r.later = append(r.later, to)
		}
		return err
	}
}
