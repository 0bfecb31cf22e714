package undolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/wire"
)

// errKeepRaw says why an adopted inode stays as it is; it is no failure.
var errKeepRaw = errors.New("undolog: not to be packed")

// packWriter writes a pack to a descriptor, one group at a time. What it wrote
// it decodes again: afterwards the originals are removed.
type packWriter struct {
	fd     int
	off    int64
	enc    *zstd.Encoder
	dec    *zstd.Decoder
	raw    []byte // of the group that is being filled
	packed []byte
	check  []byte
	total  int64 // bytes of the content stream so far
	groups []packGroupRef
	nodes  []packNode
	links  map[hostfs.ID]int // multiply linked files of this root: their node
}

func newPackWriter(fd int) (*packWriter, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(packGroup), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := &packWriter{fd: fd, enc: enc, dec: dec, raw: make([]byte, 0, packGroup), links: map[hostfs.ID]int{}}
	return w, w.write([]byte(packMagic))
}

func (w *packWriter) close() {
	_ = w.enc.Close()
	w.dec.Close()
}

func (w *packWriter) write(b []byte) error {
	if err := hostfs.PwriteFull(w.fd, b, w.off); err != nil {
		return err
	}
	w.off += int64(len(b))
	return nil
}

// endGroup compresses and writes what is in raw.
func (w *packWriter) endGroup() error {
	if len(w.raw) == 0 {
		return nil
	}
	w.packed = w.enc.EncodeAll(w.raw, w.packed[:0])
	var err error
	if w.check, err = w.dec.DecodeAll(w.packed, w.check[:0]); err != nil || !bytes.Equal(w.check, w.raw) {
		return fmt.Errorf("undolog: compression does not round-trip: %w", errors.Join(errPack, err))
	}
	w.groups = append(w.groups, packGroupRef{off: w.off, size: int64(len(w.packed)), raw: int64(len(w.raw)),
		sum: wire.Sum(w.packed)})
	w.raw = w.raw[:0]
	return w.write(w.packed)
}

// finish writes the index and the footer.
func (w *packWriter) finish() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	index := encodePackIndex(w.groups, w.nodes)
	packed := w.enc.EncodeAll(index, nil)
	off := w.off
	if err := w.write(packed); err != nil {
		return err
	}
	return w.write(encodePackFooter(off, int64(len(packed)), int64(len(index)), packed))
}

// blobCheck decides whether an adopted tree may be packed: not if a handle can
// still change an inode of it, nor if one has a name outside.
type blobCheck struct {
	inUse func(hostfs.ID) bool
	links map[hostfs.ID]uint64 // names still to be found of multiply linked files
}

func (c *blobCheck) allows(st *hostfs.Stat) bool {
	switch st.Type() {
	case unix.S_IFCHR, unix.S_IFBLK:
		return false
	case unix.S_IFDIR:
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

// addRoot packs the adopted inode obj, which is name below dirfd. An inode
// that must stay raw, or that changed meanwhile, gives errKeepRaw and leaves
// the pack as it was.
func (w *packWriter) addRoot(ctx context.Context, obj journal.ObjID, dirfd int, name string, inUse func(hostfs.ID) bool) error {
	if w.total > 1<<62 || len(w.nodes) > packNodeMax/2 {
		return errKeepRaw
	}
	c := blobCheck{inUse: inUse, links: map[hostfs.ID]uint64{}}
	if err := packable(dirfd, name, &c, 0); err != nil {
		return err
	}
	if !c.closed() {
		return errKeepRaw
	}
	clear(w.links)
	first := len(w.nodes)
	err := w.add(ctx, packNode{Obj: obj, Parent: -1, Link: -1}, dirfd, name)
	if err != nil {
		w.nodes = w.nodes[:first]
		if errors.Is(err, unix.EACCES) {
			err = errKeepRaw
		}
	}
	return err
}

// packDepth bounds how deep a packed directory may be: each level holds a
// descriptor while it is read. What is deeper stays as it is.
const packDepth = 100

// packable checks a whole tree before anything of it is written.
func packable(dirfd int, name string, c *blobCheck, depth int) error {
	st, err := hostfs.StatAt(dirfd, name)
	if errors.Is(err, unix.EACCES) { // inside a directory that may not be searched
		return errKeepRaw
	}
	if err != nil {
		return err
	}
	if !c.allows(&st) || depth > packDepth {
		return errKeepRaw
	}
	if !st.IsDir() {
		return nil
	}
	return eachEntry(dirfd, name, func(fd int, entry string) error { return packable(fd, entry, c, depth+1) })
}

func eachEntry(dirfd int, name string, f func(fd int, entry string) error) error {
	fd, err := hostfs.OpenDirAt(dirfd, name)
	if err != nil {
		if errors.Is(err, unix.EACCES) {
			return errKeepRaw
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

// add writes one inode and, for a directory, all that is inside.
func (w *packWriter) add(ctx context.Context, n packNode, dirfd int, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st, err := hostfs.StatAt(dirfd, name)
	if err != nil {
		return err
	}
	if at, ok := w.links[st.ID]; ok && n.Obj == journal.NoObj {
		n.Link = at
		w.nodes = append(w.nodes, n)
		return nil
	}
	n.ID = st.ID
	n.Meta = journal.Meta{Mode: st.Mode, UID: st.UID, GID: st.GID, Rdev: st.Rdev, Size: st.Size, Mtime: st.Mtime, Nlink: st.Nlink}
	if n.Xattrs, err = hostfs.AllXattrsAt(dirfd, name); err != nil {
		return err
	}
	n.Start = w.total
	switch st.Type() {
	case unix.S_IFREG:
		err = w.addContent(&n, dirfd, name, &st)
	case unix.S_IFLNK:
		n.Meta.Target, err = hostfs.ReadlinkAt(dirfd, name)
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
		return w.add(ctx, packNode{Parent: at, Name: entry, Link: -1}, fd, entry)
	})
}

// addContent copies a file's data into groups. A file that changes meanwhile
// is an error: nobody may write to it.
func (w *packWriter) addContent(n *packNode, dirfd int, name string, st *hostfs.Stat) error {
	if st.Size == 0 {
		return nil
	}
	fd, err := hostfs.OpenVerified(dirfd, name, st.ID, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	for off := int64(0); off < st.Size; {
		start, end, err := w.nextData(fd, off, st)
		if err != nil {
			return err
		}
		if start >= end {
			break
		}
		n.Segments = append(n.Segments, packSegment{start, end - start})
		if err := w.copyData(n, fd, start, end); err != nil {
			return err
		}
		off = end
	}
	now, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if now.Size != st.Size || now.Mtime != st.Mtime || now.Ctime != st.Ctime {
		return fmt.Errorf("undolog: adopted file %s changed while it was read", name)
	}
	return nil
}

func (w *packWriter) nextData(fd int, off int64, st *hostfs.Stat) (start, end int64, err error) {
	if st.Blocks*512 >= st.Size { // no holes
		return off, st.Size, nil
	}
	return hostfs.NextData(fd, off, st.Size)
}

func (w *packWriter) copyData(n *packNode, fd int, off, end int64) error {
	for off < end {
		have := len(w.raw)
		want := int(min(int64(packGroup-have), end-off))
		m, err := hostfs.PreadFull(fd, w.raw[have:have+want], off)
		if err != nil {
			return err
		}
		if m < want {
			return fmt.Errorf("undolog: adopted file is shorter than it was")
		}
		w.raw = w.raw[:have+m]
		n.Sum = wire.AddSum(n.Sum, w.raw[have:])
		off, w.total = off+int64(m), w.total+int64(m)
		if len(w.raw) == packGroup {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptedBlob is one entry below blobs/ that is an adopted inode.
type adoptedBlob struct {
	obj  journal.ObjID
	stat hostfs.Stat
}

// adoptedBlobs lists the adopted inodes of a step directory by number. Names
// that are not ours are left out, content blobs as well: others counts them.
func adoptedBlobs(dirfd int) (blobs []adoptedBlob, others int, err error) {
	err = eachEntry(dirfd, "blobs", func(fd int, shard string) error {
		n, err := strconv.ParseUint(shard, 10, 32)
		if err != nil || strconv.FormatUint(n, 10) != shard {
			others++
			return nil
		}
		return eachEntry(fd, shard, func(fd int, name string) error {
			obj, err := strconv.ParseUint(name, 10, 32)
			if err != nil || blobName(journal.ObjID(obj)) != name || shardOf(journal.ObjID(obj)) != n || obj == 0 || obj > journal.MaxObjects {
				others++
				return nil
			}
			st, err := hostfs.StatAt(fd, name)
			if err == nil {
				blobs = append(blobs, adoptedBlob{journal.ObjID(obj), st})
			}
			return err
		})
	})
	if errors.Is(err, unix.ENOENT) && blobs == nil {
		err = nil
	}
	slices.SortFunc(blobs, func(a, b adoptedBlob) int { return int(a.obj) - int(b.obj) })
	return blobs, others, err
}

// fdReaderAt reads a descriptor as an io.ReaderAt.
type fdReaderAt int

func (fd fdReaderAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := hostfs.PreadFull(int(fd), b, off)
	if err == nil && n < len(b) {
		err = errShortRead
	}
	return n, err
}

var errShortRead = errors.New("undolog: file ends early")

// stepPack is the pack of a step directory, open for reading.
type stepPack struct {
	*packReader
	fd int
}

// openPack opens the pack of the step directory behind dirfd. A step without
// one gives nil and no error; a damaged one an error wrapping [ErrDamaged].
func openPack(dirfd int) (*stepPack, error) {
	fd, err := hostfs.OpenRegular(dirfd, "pack")
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	st, err := hostfs.StatFD(fd)
	if err == nil {
		var p *packReader
		if p, err = newPackReader(fdReaderAt(fd), st.Size); err == nil {
			return &stepPack{p, fd}, nil
		}
	}
	_ = hostfs.Close(fd)
	return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
}

// openSound is openPack for a pack whose groups are all as they were written.
func openSound(dirfd int) (*stepPack, error) {
	p, err := openPack(dirfd)
	if err != nil || p == nil {
		return p, err
	}
	if err := p.verify(); err != nil {
		p.close()
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return p, nil
}

// verifyContents looks at the content blobs that the records name: what is
// missing shall be known before an undo changes anything. What is inline has
// the sums of the journal.
func (d *stepDir) verifyContents(rec *journal.Set) error {
	for _, list := range rec.Contents {
		for i := range list {
			if err := d.verifyContent(&list[i]); err != nil {
				return fmt.Errorf("%w: content of object %d: %w", ErrDamaged, list[i].Obj, err)
			}
		}
	}
	return nil
}

func (d *stepDir) verifyContent(c *journal.Content) error {
	if c.Enc != journal.EncClone {
		return nil
	}
	fd, err := d.openContentBlob(c.Obj, c.Blob)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err == nil && st.Size < c.Off+c.Len {
		err = errShortRead
	}
	return err
}

func (p *stepPack) close() {
	p.packReader.close()
	_ = hostfs.Close(p.fd)
}
