package format

import "github.com/codeagent/sandbox/fsbridge/hostfs"

// Batch collects records that are to be appended at once. The zero value is
// empty. Each method that adds a record returns the batch, so that calls can be
// chained. It is not safe for concurrent use.
type Batch struct{ buf []byte }

// Len is how many bytes the records take.
func (b *Batch) Len() int { return len(b.buf) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf = b.buf[:0] }

// Object adds an inode.
func (b *Batch) Object(r *Object) *Batch { return b.with(r.frame(b.buf)) }

// Xattrs adds the complete set of an object's attributes.
func (b *Batch) Xattrs(obj ObjID, list []hostfs.Xattr) *Batch {
	r := Xattrs{Obj: obj, Xattrs: list}
	return b.with(r.frame(b.buf))
}

// Binding adds the first touch of a name in dir, which binds old, or nothing
// (NoObj).
func (b *Batch) Binding(dir ObjID, name string, old ObjID) *Batch {
	r := Binding{Dir: dir, Name: name, Old: old}
	return b.with(r.frame(b.buf))
}

// Unbind forgets a binding.
func (b *Batch) Unbind(dir ObjID, name string) *Batch { return b.with(frameUnbind(b.buf, dir, name)) }

// Content adds a range of bytes, with its data if it is inline.
func (b *Batch) Content(r *Content, data []byte) *Batch { return b.with(r.frame(b.buf, data)) }

// Retain says that the inode goes to blobs/.
func (b *Batch) Retain(obj ObjID) *Batch { return b.with(frameObj(b.buf, TypeRetain, obj)) }

// Freed says that the inode lost its last name, and everything of it is recorded.
func (b *Batch) Freed(obj ObjID) *Batch { return b.with(frameObj(b.buf, TypeFreed, obj)) }

// Gone says that the number of a freed inode is another's.
func (b *Batch) Gone(obj ObjID) *Batch { return b.with(frameObj(b.buf, TypeGone, obj)) }

// Unprotected says that no more is captured.
func (b *Batch) Unprotected() *Batch { return b.with(frame(b.buf, TypeUnprotected, nil)) }

// Lost says that the content of the object is not kept.
func (b *Batch) Lost(obj ObjID) *Batch { return b.with(frameObj(b.buf, TypeLost, obj)) }

func (b *Batch) with(buf []byte) *Batch {
	b.buf = buf
	return b
}
