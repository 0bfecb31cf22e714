package past

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// maxDepth bounds how deep directories are copied.
const maxDepth = 4000

// targetWriter writes a part of a view as the journal and blobs of a target.
type targetWriter struct {
	v    *View
	dir  *store.StepDir
	w    *format.Writer
	objs map[*thing]format.ObjID // of what is copied, and of the files that stay
	dirs map[*thing]format.ObjID // of the directories that stay
	next format.ObjID
	back []binding        // which get what they had, when all that stays is known
	gone map[place]*thing // of these names, what is there now
	// edited are paths of files with several names that somebody else has changed since, by any of them.
	edited []string
	// linked are the names in the folder of files that have several; nil: not looked for yet.
	linked map[hostfs.ID][]foundName
}

// place is a name in a directory of the folder.
type place struct {
	dir  *thing
	name string
}

// binding is a name in a directory that is in the folder, and what it was.
type binding struct {
	dir  format.ObjID
	name string
	was  *thing
}

// WriteTarget writes what the view shows at a path, as the records and blobs of a new step
// directory: applied, it brings the path back. Without force it fails with [format.ErrElsewhere] if what had another
// path then would be nowhere after that, and returns which files would be overwritten that have other names, and were changed by any of
// them since: the paths that an edit from outside is known by need not be below path.
func WriteTarget(ctx context.Context, v *View, dir *store.StepDir, step format.Step, path []string, force bool) (edited []string, err error) {
	w := &targetWriter{v: v, dir: dir, objs: map[*thing]format.ObjID{}, dirs: map[*thing]format.ObjID{}, gone: map[place]*thing{}}
	if err := w.write(ctx, step, path); err != nil || force {
		return nil, err
	}
	return w.edited, w.elsewhere()
}

// overwrites notes that what t holds becomes what it was.
func (w *targetWriter) overwrites(t *thing) error {
	if t.typ == posix.S_IFDIR || w.v.Edited == nil {
		return nil
	}
	st, err := t.stat()
	if err == nil && st.Nlink > 1 && w.v.Edited(hostfs.ID{}, "", &st) {
		w.edited = append(w.edited, t.folder().path())
	}
	return err
}

func (w *targetWriter) write(ctx context.Context, step format.Step, parts []string) (err error) {
	if w.w, err = format.CreateJournal(w.dir.FD, &step, false); err != nil {
		return err
	}
	defer func() {
		if cerr := w.w.Close(); err == nil {
			err = cerr
		}
	}()
	w.next = format.RootObj
	top, err := w.keep(w.v.top, format.NoObj, "", len(parts) == 0)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		if err := w.inside(ctx, w.v.top, top); err != nil {
			return err
		}
		return w.bringBack(ctx)
	}
	was, now, dir := w.v.top, w.v.top, top
	for _, name := range parts[:len(parts)-1] {
		if was, err = w.v.lookup(was, name); err != nil {
			return err
		}
		if now, err = w.v.present(now, name); err != nil {
			return err
		}
		if was == nil || was.typ != posix.S_IFDIR {
			return fmt.Errorf("%w: its directory %q did not exist then", posix.ENOENT, name)
		}
		if now == nil || now.typ != posix.S_IFDIR {
			return fmt.Errorf("%w: its directory %q does not exist now; restore that first", posix.ENOENT, name)
		}
		if dir, err = w.keep(now, dir, name, false); err != nil {
			return err
		}
	}
	name := parts[len(parts)-1]
	in := now
	if was, err = w.v.lookup(was, name); err != nil {
		return err
	}
	if now, err = w.v.present(in, name); err != nil {
		return err
	}
	if was == nil && now == nil {
		return fmt.Errorf("%w: it is not there now, and was not then", posix.ENOENT)
	}
	if err := w.name(ctx, in, dir, name, was, now); err != nil {
		return err
	}
	return w.bringBack(ctx)
}

// name keeps what is name in the directory in, the object dir, if it was that then, or notes what it was.
func (w *targetWriter) name(ctx context.Context, in *thing, dir format.ObjID, name string, was, now *thing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case was == nil && now == nil:
		return nil
	case was == now:
		if touched, err := w.v.touched(was); err != nil || !touched {
			return err
		}
		if w.objs[was] != format.NoObj { // by another name
			return nil
		}
		if err := w.overwrites(now); err != nil {
			return err
		}
		id, err := w.keep(now, dir, name, true)
		if err != nil {
			return err
		}
		if was.typ != posix.S_IFDIR {
			w.objs[was] = id
			return nil
		}
		return w.inside(ctx, was, id)
	}
	w.back = append(w.back, binding{dir, name, was})
	if now != nil {
		w.gone[place{in, name}] = now
	}
	return nil
}

// bringBack gives the noted names what they had: a file that stays by another name, or a copy.
func (w *targetWriter) bringBack(ctx context.Context) error {
	for _, b := range w.back {
		old := format.NoObj
		if b.was != nil {
			var err error
			if old, err = w.copy(ctx, b.was, 0); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
		}
		if err := w.w.Append(new(format.Batch).Binding(b.dir, b.name, old)); err != nil {
			return err
		}
	}
	return nil
}

// inside goes through a directory that is in the folder now as it was then.
func (w *targetWriter) inside(ctx context.Context, d *thing, id format.ObjID) error {
	names, err := w.v.names(d)
	if err != nil {
		return err
	}
	now, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range now {
		names[name] = true
	}
	sorted := make([]string, 0, len(names))
	for n := range names {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	for _, n := range sorted {
		was, err := w.v.lookup(d, n)
		if err != nil {
			return err
		}
		now, err := w.v.present(d, n)
		if err != nil {
			return err
		}
		if err := w.name(ctx, d, id, n, was, now); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

// keep records an object that stays in the folder: as it was then, or (its
// parents) as it is now.
func (w *targetWriter) keep(t *thing, parent format.ObjID, name string, past bool) (format.ObjID, error) {
	id := w.next
	w.next++
	if t.typ == posix.S_IFDIR {
		w.dirs[t] = id
	}
	r := format.Object{Obj: id, ID: w.dir.Volumes.Disk(t.id), Parent: parent, Name: name}
	var xattrs []hostfs.Xattr
	has := false
	if past {
		var err error
		if r.Meta, xattrs, has, err = w.v.meta(t, false); err != nil {
			return format.NoObj, err
		}
	} else {
		st, err := t.stat()
		if err != nil {
			return format.NoObj, err
		}
		r.Meta = format.MetaOf(&st, "")
	}
	records := new(format.Batch).Object(&r)
	if has {
		records.Xattrs(id, xattrs)
	}
	if err := w.w.Append(records); err != nil {
		return format.NoObj, err
	}
	if past && t.typ == posix.S_IFREG {
		return id, w.ranges(t, id, r.Meta.Size)
	}
	return id, nil
}

// ranges records the bytes of a file that the layers captured.
func (w *targetWriter) ranges(t *thing, id format.ObjID, size int64) error {
	type span struct{ off, end int64 }
	var spans []span
	for _, l := range w.v.layers {
		if n := t.as(l); n != nil && !n.Created {
			for _, c := range l.Rec.Contents[n.Obj] {
				spans = append(spans, span{c.Off, min(c.Off+c.Len, size)})
			}
			if n.Meta.Size < size { // shorter in between
				spans = append(spans, span{n.Meta.Size, size})
			}
		}
	}
	if len(spans) == 0 {
		return nil
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.off-b.off, -1), 1)) })
	err := w.dir.WithBlobDir(id, true, func(dir int) error {
		fd, err := hostfs.OpenAt(dir, store.ContentBlobName(id, 1), posix.O_RDWR|posix.O_CREAT|posix.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(w.v.writePast(t, fd), hostfs.Close(fd))
	})
	if err != nil {
		return err
	}
	var records format.Batch
	for end, i := int64(0), 0; i < len(spans); i++ {
		s := span{max(spans[i].off, end), spans[i].end}
		if s.off < s.end {
			r := format.Content{Obj: id, Off: s.off, Len: s.end - s.off, Enc: format.EncClone, Blob: 1}
			records.Content(&r, nil)
			end = s.end
		}
	}
	return w.w.Append(&records)
}

// copy puts a copy of a thing of the past, and all that was inside, into the
// target's blobs and records it as retained there. Another name of the same
// file is the same object.
func (w *targetWriter) copy(ctx context.Context, t *thing, depth int) (format.ObjID, error) {
	if id := w.objs[t]; id != format.NoObj {
		return id, nil
	}
	if id, err := w.otherName(t); id != format.NoObj || err != nil {
		return id, err
	}
	if err := ctx.Err(); err != nil {
		return format.NoObj, err
	}
	if depth > maxDepth {
		return format.NoObj, fmt.Errorf("directories too deep: %w", posix.ENAMETOOLONG)
	}
	m, xattrs, has, err := w.v.meta(t, true)
	if err != nil {
		return format.NoObj, err
	}
	id := w.next
	w.next++
	w.objs[t] = id
	m.Mode = m.Mode&0o7777 | t.typ
	var st hostfs.Stat
	err = w.dir.WithBlobDir(id, true, func(dir int) (err error) {
		st, err = w.copyOne(t, &m, dir, store.BlobName(id), xattrs, has)
		return err
	})
	if err != nil {
		return format.NoObj, err
	}
	r := format.Object{Obj: id, ID: w.dir.Volumes.Disk(st.ID), Meta: m}
	records := new(format.Batch).Object(&r)
	if has {
		records.Xattrs(id, xattrs)
	}
	if err := w.w.Append(records.Retain(id)); err != nil {
		return format.NoObj, err
	}
	if t.typ != posix.S_IFDIR {
		return id, nil
	}
	names, err := w.v.names(t)
	if err != nil {
		return format.NoObj, err
	}
	for name := range names {
		was, err := w.v.lookup(t, name)
		if err != nil || was == nil {
			return format.NoObj, errors.Join(err, fmt.Errorf("%w: %q is not in the past", format.ErrDamaged, name))
		}
		old, err := w.copy(ctx, was, depth+1)
		if err != nil {
			return format.NoObj, err
		}
		if err := w.w.Append(new(format.Batch).Binding(id, name, old)); err != nil {
			return format.NoObj, err
		}
	}
	return id, nil
}

func (w *targetWriter) copyOne(t *thing, m *format.Meta, dir int, name string, xattrs []hostfs.Xattr, has bool) (st hostfs.Stat, err error) {
	fd, err := hostfs.MakeAt(dir, name, t.typ|0o600, m.Target, func(fd int) error {
		if err := layer.Bare(fd, t.typ, xattrs); err != nil {
			return err
		}
		if t.typ == posix.S_IFDIR {
			return nil
		}
		return w.v.write(t, fd)
	})
	if err != nil {
		return st, err
	}
	defer hostfs.Close(fd)
	if t.typ != posix.S_IFDIR {
		err = layer.OwnerAside(layer.SetMeta(fd, m, xattrs, has))
	}
	if err != nil {
		return st, err
	}
	return hostfs.StatFD(fd)
}
