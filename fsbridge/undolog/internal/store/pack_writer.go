package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// ErrKeepRaw says why an adopted inode stays as it is; it is no failure.
var ErrKeepRaw = errors.New("undolog: not to be packed")

// PackWriter writes a pack to a descriptor, one group at a time. What it wrote
// it decodes again: afterwards the originals are removed.
type PackWriter struct {
	// Read, if it is not nil, is told after each group how many bytes were read so far.
	Read func(bytes int64)
	// Volumes translates the inodes; nil: they stay as the kernel names them.
	Volumes *format.Volumes

	fd     int
	off    int64
	enc    *zstd.Encoder
	dec    *zstd.Decoder
	raw    []byte // of the group that is being filled
	packed []byte
	check  []byte
	total  int64 // bytes of the content stream so far
	groups []groupRef
	nodes  []PackNode
	links  map[hostfs.ID]int // multiply linked files of this root: their node
}

// NewPackWriter begins a pack in the empty file behind fd, which stays the caller's.
func NewPackWriter(fd int) (*PackWriter, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(groupSize), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := &PackWriter{fd: fd, enc: enc, dec: dec, raw: make([]byte, 0, groupSize), links: map[hostfs.ID]int{}}
	return w, w.write([]byte(magic))
}

// Close frees what the writer holds. A pack without [PackWriter.Finish] is none.
func (w *PackWriter) Close() {
	_ = w.enc.Close()
	w.dec.Close()
}

func (w *PackWriter) write(b []byte) error {
	if err := hostfs.PwriteFull(w.fd, b, w.off); err != nil {
		return err
	}
	w.off += int64(len(b))
	return nil
}

// endGroup compresses and writes what is in raw.
func (w *PackWriter) endGroup() error {
	if len(w.raw) == 0 {
		return nil
	}
	w.packed = w.enc.EncodeAll(w.raw, w.packed[:0])
	var err error
	if w.check, err = w.dec.DecodeAll(w.packed, w.check[:0]); err != nil || !bytes.Equal(w.check, w.raw) {
		return fmt.Errorf("undolog: compression does not round-trip: %w", errors.Join(errDamaged, err))
	}
	w.groups = append(w.groups, groupRef{off: w.off, size: int64(len(w.packed)), raw: int64(len(w.raw)),
		sum: format.Sum(w.packed)})
	w.raw = w.raw[:0]
	if w.Read != nil {
		w.Read(w.total)
	}
	return w.write(w.packed)
}

// Finish writes the index and the footer.
func (w *PackWriter) Finish() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	index := encodeIndex(w.groups, w.nodes, w.Volumes)
	packed := w.enc.EncodeAll(index, nil)
	off := w.off
	if err := w.write(packed); err != nil {
		return err
	}
	return w.write(encodeFooter(off, int64(len(packed)), int64(len(index)), packed))
}

// blobCheck decides whether an adopted tree may be packed: not if a handle can
// still change an inode of it, nor if one has a name outside.
type blobCheck struct {
	inUse func(hostfs.ID) bool
	links map[hostfs.ID]uint64 // names still to be found of multiply linked files
}

func (c *blobCheck) allows(st *hostfs.Stat) bool {
	switch st.Type() {
	case posix.S_IFCHR, posix.S_IFBLK:
		return false
	case posix.S_IFDIR:
	default:
		left, seen := c.links[st.ID]
		if !seen {
			left = st.Nlink
		}
		if left--; left > 0 || seen {
			c.links[st.ID] = left
		}
	}
	return !c.inUse(st.ID)
}

// closed says that every name of every file was found.
func (c *blobCheck) closed() bool {
	for _, left := range c.links {
		if left != 0 {
			return false
		}
	}
	return true
}

// AddRoot packs the adopted inode obj, which is name below dirfd. An inode
// that must stay raw, or that changed meanwhile, gives ErrKeepRaw and leaves
// the pack as it was.
func (w *PackWriter) AddRoot(ctx context.Context, obj format.ObjID, dirfd int, name string, inUse func(hostfs.ID) bool) error {
	if w.total > 1<<62 || len(w.nodes) > nodeMax/2 {
		return ErrKeepRaw
	}
	c := blobCheck{inUse: inUse, links: map[hostfs.ID]uint64{}}
	st, err := packable(dirfd, name, &c, 0)
	if err != nil {
		return err
	}
	if !c.closed() {
		return ErrKeepRaw
	}
	clear(w.links)
	first := len(w.nodes)
	err = w.add(ctx, PackNode{Obj: obj, Parent: -1, Link: -1}, dirfd, name, &st)
	if err != nil {
		w.nodes = w.nodes[:first]
		if errors.Is(err, posix.EACCES) {
			err = ErrKeepRaw
		}
	}
	return err
}

// packMaxDepth bounds how deep a packed directory may be: each level holds a
// descriptor while it is read. What is deeper stays as it is.
const packMaxDepth = 100

// packable checks a whole tree before anything of it is written. It returns the stat of its top.
func packable(dirfd int, name string, c *blobCheck, depth int) (hostfs.Stat, error) {
	st, err := hostfs.StatAt(dirfd, name)
	if errors.Is(err, posix.EACCES) { // inside a directory that may not be searched
		return st, ErrKeepRaw
	}
	if err != nil {
		return st, err
	}
	if !c.allows(&st) || depth > packMaxDepth {
		return st, ErrKeepRaw
	}
	if !st.IsDir() {
		return st, nil
	}
	return st, eachEntry(dirfd, name, func(fd int, entry string) error {
		_, err := packable(fd, entry, c, depth+1)
		return err
	})
}

func eachEntry(dirfd int, name string, f func(fd int, entry string) error) error {
	fd, err := hostfs.OpenDirAt(dirfd, name)
	if err != nil {
		if errors.Is(err, posix.EACCES) {
			return ErrKeepRaw
		}
		return err
	}
	defer hostfs.Close(fd)
	entries, err := hostfs.ReadDir(fd)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b hostfs.Dirent) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for _, e := range entries {
		if err := f(fd, e.Name); err != nil {
			return err
		}
	}
	return nil
}

// add writes one inode, which looks like st, and, for a directory, all that is inside.
func (w *PackWriter) add(ctx context.Context, n PackNode, dirfd int, name string, st *hostfs.Stat) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := w.links[st.ID]; ok && n.Obj == format.NoObj {
		n.Link = at
		w.nodes = append(w.nodes, n)
		return nil
	}
	n.ID = st.ID
	n.Meta = format.Meta{Mode: st.Mode, UID: st.UID, GID: st.GID, Rdev: st.Rdev, Size: st.Size, Mtime: st.Mtime, Nlink: st.Nlink}
	n.Start = w.total
	var err error
	if st.IsRegular() {
		err = w.addFile(&n, dirfd, name, st)
	} else {
		err = addOther(&n, dirfd, name, st)
	}
	if err != nil {
		return err
	}
	at := len(w.nodes)
	w.nodes = append(w.nodes, n)
	if !st.IsDir() {
		if st.Nlink > 1 {
			w.links[st.ID] = at
		}
		return nil
	}
	return eachEntry(dirfd, name, func(fd int, entry string) error {
		st, err := hostfs.StatAt(fd, entry)
		if err != nil {
			return err
		}
		return w.add(ctx, PackNode{Parent: at, Name: entry, Link: -1}, fd, entry, &st)
	})
}

// addOther adds to n what there is of an inode that is not opened.
func addOther(n *PackNode, dirfd int, name string, st *hostfs.Stat) (err error) {
	if n.Xattrs, err = hostfs.AttributesAt(dirfd, name, st.Type()); err == nil && st.IsSymlink() {
		n.Meta.Target, err = hostfs.ReadlinkAt(dirfd, name)
	}
	return err
}

// addFile adds to n the attributes of a regular file, and copies its data into groups. A file
// that changes meanwhile is an error: nobody may write to it.
func (w *PackWriter) addFile(n *PackNode, dirfd int, name string, st *hostfs.Stat) error {
	fd, err := hostfs.OpenAt(dirfd, name, posix.O_RDONLY|posix.O_NONBLOCK, 0)
	if errors.Is(err, posix.EACCES) && st.Size == 0 {
		return addOther(n, dirfd, name, st) // there is nothing to be read
	}
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if n.Xattrs, err = hostfs.AttributesFD(fd, st.Type(), nil); err != nil {
		return err
	}
	if err := w.addContent(n, fd, st); err != nil {
		return err
	}
	now, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if now.ID != st.ID || now.Size != st.Size || now.Mtime != st.Mtime || now.Ctime != st.Ctime {
		return fmt.Errorf("undolog: adopted file %s changed while it was read", name)
	}
	return nil
}

// addContent copies the data of the file behind fd, which looks like st, into groups.
func (w *PackWriter) addContent(n *PackNode, fd int, st *hostfs.Stat) error {
	for off := int64(0); off < st.Size; {
		start, end := off, st.Size
		if !oneBlock(n, st) {
			var err error
			if start, end, err = hostfs.NextData(fd, off, st.Size); err != nil {
				return err
			}
		}
		if start >= end {
			break
		}
		n.Segments = append(n.Segments, PackSegment{start, end - start})
		if err := w.copyData(n, fd, start, end); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// oneBlock tells whether a file is one block of data, and no hole: what is allocated is not of an attribute, either.
func oneBlock(n *PackNode, st *hostfs.Stat) bool {
	return st.Size <= 4096 && st.Blocks*512 >= st.Size && len(n.Xattrs) == 0
}

func (w *PackWriter) copyData(n *PackNode, fd int, off, end int64) error {
	for off < end {
		have := len(w.raw)
		want := int(min(int64(groupSize-have), end-off))
		m, err := hostfs.PreadFull(fd, w.raw[have:have+want], off)
		if err != nil {
			return err
		}
		if m < want {
			return fmt.Errorf("undolog: adopted file is shorter than it was")
		}
		w.raw = w.raw[:have+m]
		n.Sum = format.AddSum(n.Sum, w.raw[have:])
		off, w.total = off+int64(m), w.total+int64(m)
		if len(w.raw) == groupSize {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// OpenPack opens the pack of the step directory behind dirfd. A step without
// one gives nil and no error; a damaged one an error wrapping [format.ErrDamaged].
func OpenPack(dirfd int) (*PackReader, error) {
	fd, err := hostfs.OpenRegular(dirfd, "pack")
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	st, err := hostfs.StatFD(fd)
	if err == nil {
		var p *PackReader
		if p, err = newReader(hostfs.ReaderAt(fd), st.Size); err == nil {
			p.fd = fd
			return p, nil
		}
	}
	_ = hostfs.Close(fd)
	return nil, fmt.Errorf("%w: %w", format.ErrDamaged, err)
}

// OpenSoundPack is Open for a pack whose groups are all as they were written.
func OpenSoundPack(dirfd int) (*PackReader, error) {
	p, err := OpenPack(dirfd)
	if err != nil || p == nil {
		return p, err
	}
	if err := p.verify(); err != nil {
		p.Close()
		return nil, fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	return p, nil
}
