package hostfs

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// copyDepth is how deep a tree may be that is copied: two descriptors are open for each level.
const copyDepth = 256

// CopyTree copies what is in the directory behind src into the empty one behind dst, and makes dst's own mode, owner and times those of src: files as clones where the file system can, and
// else with their holes; symlinks as they are; names of one file as names of one file; modes, times, extended attributes, and, if root asks, owners. What is no file, directory or symlink is left out, and counted. A file that its
// owner may not read is read all the same, and lent for the moment. No symlink is followed, and nothing outside of src is read, whoever changes it meanwhile; what is changed meanwhile may be there as it was, or as it is. After an error, or the end of ctx, a part is there.
func CopyTree(ctx context.Context, dst, src int) (left int, err error) {
	c := treeCopy{ctx: ctx, links: map[ID]string{}}
	if c.top, err = OpenSelf(dst, posix.O_RDONLY); err != nil {
		return 0, err
	}
	defer func() { _ = Close(c.top) }()
	from, err := OpenSelf(src, posix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer func() { _ = Close(from) }()
	if err := c.directory(dst, from, "", copyDepth); err != nil {
		return c.left, err
	}
	st, err := StatFD(src)
	if err == nil {
		err = c.finish(dst, &st, nil)
	}
	return c.left, err
}

// treeCopy is one copy.
type treeCopy struct {
	ctx   context.Context
	top   int           // of the copy
	links map[ID]string // files that have several names: the first one's path below top
	left  int
}

// directory copies what is in the directory behind src. path leads from the top to it: empty, or with a "/" at its end.
func (c *treeCopy) directory(dst, src int, path string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%s: it is deeper than %d directories", path, copyDepth)
	}
	entries, err := ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		err := c.entry(dst, src, path, e.Name, depth)
		if errors.Is(err, posix.ENOENT) {
			continue // it is gone meanwhile
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry copies one name.
func (c *treeCopy) entry(dst, src int, path, name string, depth int) error {
	fd, err := OpenAt(src, name, posix.O_PATH, 0)
	if err != nil {
		return err
	}
	fd, st, err := Described(fd)
	if err != nil {
		return err
	}
	defer func() { _ = Close(fd) }()
	if !st.IsDir() && !st.IsRegular() && !st.IsSymlink() {
		c.left++
		return nil
	}
	if first, ok := c.links[st.ID]; ok {
		return c.link(first, dst, name)
	}
	target := ""
	if st.IsSymlink() {
		if target, err = ReadlinkAt(src, name); err != nil {
			return err
		}
	}
	attributes, err := AttributesFD(fd, st.Type(), nil)
	if err != nil {
		return err
	}
	out, err := MakeAt(dst, name, st.Type()|0o600, target, func(out int) error {
		SetFlagsFD(out, attributes) // some only while it is empty
		return c.fill(out, fd, &st, path+name+"/", depth)
	})
	if err != nil {
		return err
	}
	defer func() { _ = Close(out) }()
	if st.IsRegular() && st.Nlink > 1 {
		c.links[st.ID] = path + name
	}
	return c.finish(out, &st, attributes)
}

// fill gives what was made its content.
func (c *treeCopy) fill(out, fd int, st *Stat, path string, depth int) error {
	flags := posix.O_RDONLY | posix.O_NONBLOCK
	if st.IsDir() {
		flags = posix.O_RDONLY | posix.O_DIRECTORY
	}
	in, err := ReopenLent(fd, flags, nil)
	if err != nil {
		return err
	}
	defer func() { _ = Close(in) }()
	if st.IsDir() {
		return c.directory(out, in, path, depth-1)
	}
	return CopyData(out, in, st.Size)
}

// link gives a file that was copied already another name.
func (c *treeCopy) link(first string, dst int, name string) error {
	fd, err := OpenBeneath(c.top, first, posix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = Close(fd) }()
	return LinkFD(fd, dst, name)
}

// finish gives what was made all but its content.
func (c *treeCopy) finish(fd int, st *Stat, attributes []Xattr) error {
	if posix.Geteuid() == 0 {
		if err := ChownFD(fd, int(st.UID), int(st.GID)); err != nil {
			return err
		}
	}
	if st.IsSymlink() {
		return UtimesFD(fd, st.Atime, st.Mtime)
	}
	for _, a := range attributes { // some cannot be set by who may read them
		_ = SetXattrFD(fd, a.Name, a.Value, 0)
	}
	if err := ChmodFD(fd, st.Mode&0o7777); err != nil {
		return err
	}
	return UtimesFD(fd, st.Atime, st.Mtime)
}
