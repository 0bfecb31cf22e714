package files

import (
	"context"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Read reads a part of a regular file; anything else gives [ErrNotRegular] and
// is not opened. An offset at or behind the end gives no data.
func (f *Folder) Read(ctx context.Context, r ReadRequest) (Content, error) {
	_, leave, err := f.enter(ctx)
	if err != nil {
		return Content{}, err
	}
	defer leave()
	if r.Offset < 0 || r.Limit < 0 || r.MaxBytes < 0 {
		return Content{}, fmt.Errorf("%w: offset and limit cannot be negative", ErrRequest)
	}
	rel, err := f.Rel(r.Path)
	if err != nil {
		return Content{}, err
	}
	c, err := f.read(rel, r)
	if err != nil {
		return Content{}, fail("read", rel, err)
	}
	return c, nil
}

func (f *Folder) read(rel string, r ReadRequest) (Content, error) {
	t, err := f.resolve(rel)
	if err != nil {
		return Content{}, err
	}
	defer t.close()
	fd, err := t.openRegular()
	if err != nil {
		return Content{}, err
	}
	defer hostfs.Close(fd)
	most := r.MaxBytes
	if most == 0 {
		most = DefaultReadBytes
	}
	if r.Limit > 0 {
		most = min(most, r.Limit)
	}
	c := Content{Size: t.st.Size, Offset: r.Offset, Mode: t.st.Mode & 0o7777, ModTime: t.st.ModTime()}
	c.Path, _ = Escape(rel)
	if left := t.st.Size - r.Offset; left > 0 {
		c.Data = make([]byte, min(most, left))
		n, err := hostfs.PreadFull(fd, c.Data, r.Offset)
		if err != nil {
			return Content{}, err
		}
		c.Truncated = n == len(c.Data) && left > int64(n)
		c.Data = c.Data[:n]
	}
	return c, nil
}

// openRegular opens the target for reading if it is a regular file: opening a
// FIFO or a device would wait for somebody or do something.
func (t *target) openRegular() (int, error) {
	switch {
	case t.st.IsDir():
		return -1, fmt.Errorf("%w: it is a directory", ErrNotRegular)
	case !t.st.IsRegular():
		return -1, ErrNotRegular
	}
	return hostfs.ReopenFD(t.fd, posix.O_RDONLY|posix.O_NONBLOCK)
}

// List lists a directory, and to the given depth what is below it, but not what
// is in a repository's .git. Symlinks are not followed, other than in the path
// itself.
func (f *Folder) List(ctx context.Context, r ListRequest) (Listing, error) {
	ctx, leave, err := f.enter(ctx)
	if err != nil {
		return Listing{}, err
	}
	defer leave()
	most, err := limit("limit", r.Limit, DefaultList)
	if err != nil {
		return Listing{}, err
	}
	if r.Depth < 0 {
		return Listing{}, fmt.Errorf("%w: depth is negative", ErrRequest)
	}
	rel, err := f.Rel(r.Path)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Entries: []Entry{}}
	l.Path, _ = Escape(rel)
	w := &walker{f: f, depth: max(r.Depth, 1), visit: func(d *dir, name string, _ uint8) (bool, error) {
		st, err := hostfs.StatAt(d.fd, name)
		if err != nil || f.hidden.Inode(st.ID) {
			return false, nil // gone, or nothing that anybody may know of
		}
		if len(l.Entries) == most {
			l.Truncated = true
			return false, errEnough
		}
		l.Entries = append(l.Entries, entry(d, name, &st))
		return name != ".git", nil
	}}
	if err := w.walk(ctx, rel); err != nil {
		return Listing{}, fail("list", rel, err)
	}
	l.Truncated = l.Truncated || w.cut
	return l, nil
}

func entry(d *dir, name string, st *hostfs.Stat) Entry {
	e := Entry{Type: "other", Size: st.Size, Mode: st.Mode & 0o7777, ModTime: st.ModTime()}
	e.Path, e.Escaped = Escape(join(d.shown, name))
	switch st.Type() {
	case posix.S_IFREG:
		e.Type = "file"
	case posix.S_IFDIR:
		e.Type = "directory"
	case posix.S_IFLNK:
		e.Type = "symlink"
		if text, err := hostfs.ReadlinkAt(d.fd, name); err == nil {
			var escaped bool
			e.Target, escaped = Escape(text)
			e.Escaped = e.Escaped || escaped
		}
	}
	return e
}
