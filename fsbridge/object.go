package fsbridge

import (
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Place is how the undo log reaches an Object on the host. The bridge that
// made the Object implements it. Methods may be called concurrently.
type Place interface {
	// Binding returns the name by which the bridge knows the object at this
	// moment, and the directory that holds it. ok is false for the root of the
	// working folder and for an object without a name (unlinked, O_TMPFILE).
	Binding() (parent *Object, name string, ok bool)

	// Known is Binding without a question to the host, for a directory: somebody outside may
	// have moved it meanwhile.
	Known() (parent *Object, name string, ok bool)

	// Open opens the object itself with the given flags (O_RDONLY, O_PATH,
	// O_DIRECTORY ...), never following a symlink, and verifies that it is the
	// same inode; ErrChanged (hostfs) otherwise. It must work for an unlinked
	// file that is still held open. The caller closes the descriptor.
	Open(flags int) (fd int, err error)

	// Writers tells how many handles or mappings that can change the content
	// are alive in this bridge, and Handles how many of any kind.
	Writers() int
	Handles() int
}

// Protection bits of an Object in one epoch.
const (
	// ProtMeta: mode, owner, times and xattrs are captured.
	ProtMeta uint8 = 1 << iota
	// ProtContent: the whole content is captured, or there is none to capture.
	ProtContent
	// ProtExtents: parts of the content are captured; ask [Object.Extents].
	ProtExtents
	// ProtCreated: the inode did not exist when the step began. It needs no
	// capture of anything, and names below it (for a directory) neither.
	ProtCreated
)

// Object is one host inode that a bridge knows. A bridge makes one per inode,
// before sharing it; two Objects for one inode are allowed (a forgotten node
// that is looked up again), they only cost a second look into the log.
type Object struct {
	// ID and Type (S_IFMT bits) never change.
	ID    hostfs.ID
	Type  uint32
	Place Place

	// epoch<<8 | protection bits
	prot    atomic.Uint64
	extents atomic.Pointer[Extents]
}

// Protected returns the protection bits that hold in the given epoch.
func (o *Object) Protected(epoch uint64) uint8 {
	v := o.prot.Load()
	if v>>8 != epoch&(1<<56-1) {
		return 0
	}
	return uint8(v)
}

// Protect adds bits for the given epoch, dropping those of older epochs. Only
// the undo log calls it, after the capture is in the journal.
func (o *Object) Protect(epoch uint64, bits uint8) {
	epoch &= 1<<56 - 1
	for {
		old := o.prot.Load()
		if old>>8 > epoch {
			return
		}
		v := epoch<<8 | uint64(bits)
		if old>>8 == epoch {
			v |= old
		}
		if o.prot.CompareAndSwap(old, v) {
			return
		}
	}
}

// Extents returns the captured ranges of the given epoch, or nil.
func (o *Object) Extents(epoch uint64) *Extents {
	e := o.extents.Load()
	if e == nil || e.Epoch != epoch {
		return nil
	}
	return e
}

// SetExtents publishes the captured ranges. Only the undo log calls it.
func (o *Object) SetExtents(e *Extents) { o.extents.Store(e) }

// ExtentBytes is the granule of partial captures: a page, so that random small
// writes to a large file keep little more than they change. A set for 1 TiB
// takes 32 MiB.
const ExtentBytes = 4 << 10

// Extents says which granules of a file's first-touch content are captured. It
// covers [0, Size); bytes beyond were not there when the step began.
type Extents struct {
	Epoch uint64
	Size  int64 // bytes, at first touch
	bits  []atomic.Uint64
}

// NewExtents makes an empty set for a file of the given size in bytes.
func NewExtents(epoch uint64, size int64) *Extents {
	granules := (size + ExtentBytes - 1) / ExtentBytes
	return &Extents{Epoch: epoch, Size: size, bits: make([]atomic.Uint64, (granules+63)/64)}
}

// Covers reports whether every captured-worthy byte of [off, off+length) is
// captured. It does not allocate.
func (e *Extents) Covers(off, length int64) bool {
	for g, last := e.span(off, length); g < last; g++ {
		if e.bits[g/64].Load()&(1<<(g%64)) == 0 {
			return false
		}
	}
	return true
}

// Missing calls f for each granule of the range that is not captured yet, as
// a byte range clipped to Size.
func (e *Extents) Missing(off, length int64, f func(start, end int64) error) error {
	for g, last := e.span(off, length); g < last; g++ {
		if e.bits[g/64].Load()&(1<<(g%64)) != 0 {
			continue
		}
		if err := f(g*ExtentBytes, min((g+1)*ExtentBytes, e.Size)); err != nil {
			return err
		}
	}
	return nil
}

// Mark notes the granule that starts at byte start as captured.
func (e *Extents) Mark(start int64) {
	g := start / ExtentBytes
	e.bits[g/64].Or(1 << (g % 64))
}

func (e *Extents) span(off, length int64) (first, last int64) {
	if off < 0 || length <= 0 || off >= e.Size {
		return 0, 0
	}
	end := e.Size
	if length < e.Size-off {
		end = off + length
	}
	return off / ExtentBytes, (end + ExtentBytes - 1) / ExtentBytes
}
