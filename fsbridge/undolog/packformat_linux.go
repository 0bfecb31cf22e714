package undolog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/wire"
)

// A pack holds the adopted inodes of one step, compressed in solid groups; its
// format is in doc.go. An adopted directory is in it with all that is inside.

const (
	packMagic  = "SBPACK1\n"
	packEnd    = "SBPACKE\n"
	packFooter = 40
	// packGroup is how many content bytes one zstd frame holds: enough for
	// small files to help each other, small enough to decode on the way to one.
	packGroup = 1 << 20
	// packIndexMax bounds the decoded index, packNodeMax its nodes.
	packIndexMax = 1 << 30
	packNodeMax  = 1 << 26
	// packCached is how many decoded groups a reader keeps.
	packCached = 4
)

var errPack = errors.New("undolog: damaged pack")

// packSegment is a run of data in a file; what is between segments is a hole.
type packSegment struct{ Off, Len int64 }

// packNode is one inode of a pack.
type packNode struct {
	Obj    journal.ObjID // of a root: an adopted inode; journal.NoObj inside a directory
	Parent int           // node of the directory that holds it; -1 for a root
	Name   string        // in that directory
	ID     hostfs.ID
	Meta   journal.Meta
	Xattrs []hostfs.Xattr
	// Link is the earlier node that is the same inode (a hard link); -1 if
	// there is none. Nothing below is set then.
	Link     int
	Segments []packSegment
	Start    int64  // of the first segment's bytes in the content stream
	Sum      uint32 // CRC32C of the segments' bytes
}

func (n *packNode) dataLen() (total int64) {
	for _, s := range n.Segments {
		total += s.Len
	}
	return total
}

type packGroupRef struct {
	off, size, raw int64
	sum            uint32 // CRC32C of the frame
}

// encodePackIndex renders groups (consecutive from the magic on) and nodes.
func encodePackIndex(groups []packGroupRef, nodes []packNode) []byte {
	b := binary.AppendUvarint(nil, uint64(len(groups)))
	for _, g := range groups {
		b = binary.AppendUvarint(b, uint64(g.size))
		b = binary.AppendUvarint(b, uint64(g.raw))
		b = binary.LittleEndian.AppendUint32(b, g.sum)
	}
	b = binary.AppendUvarint(b, uint64(len(nodes)))
	for i := range nodes {
		b = nodes[i].append(b)
	}
	return b
}

func (n *packNode) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(n.Obj))
	b = binary.AppendUvarint(b, uint64(n.Parent+1))
	b = wire.AppendString(b, n.Name)
	b = binary.AppendUvarint(b, uint64(n.Link+1))
	if n.Link >= 0 {
		return b
	}
	b = binary.AppendUvarint(b, n.ID.Dev)
	b = binary.AppendUvarint(b, n.ID.Ino)
	m := &n.Meta
	b = binary.AppendUvarint(b, uint64(m.Mode))
	b = binary.AppendUvarint(b, uint64(m.UID))
	b = binary.AppendUvarint(b, uint64(m.GID))
	b = binary.AppendUvarint(b, m.Rdev)
	b = binary.AppendVarint(b, m.Size)
	b = binary.AppendVarint(b, m.Mtime)
	b = wire.AppendString(b, m.Target)
	b = binary.AppendUvarint(b, uint64(len(n.Xattrs)))
	for _, x := range n.Xattrs {
		b = wire.AppendString(b, x.Name)
		b = wire.AppendString(b, x.Value)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Segments)))
	end := int64(0)
	for _, s := range n.Segments {
		b = binary.AppendUvarint(b, uint64(s.Off-end))
		b = binary.AppendUvarint(b, uint64(s.Len))
		end = s.Off + s.Len
	}
	b = binary.AppendUvarint(b, uint64(n.Start))
	return binary.LittleEndian.AppendUint32(b, n.Sum)
}

func encodePackFooter(indexOff, indexSize, indexRaw int64, index []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(indexOff))
	b = binary.LittleEndian.AppendUint64(b, uint64(indexSize))
	b = binary.LittleEndian.AppendUint64(b, uint64(indexRaw))
	b = binary.LittleEndian.AppendUint32(b, wire.Sum(index))
	b = binary.LittleEndian.AppendUint32(b, wire.Sum(b))
	return append(b, packEnd...)
}

// packReader reads a pack. It may be used concurrently.
type packReader struct {
	r      io.ReaderAt
	groups []packGroupRef
	starts []int64 // of each group in the content stream
	total  int64   // bytes of the content stream
	nodes  []packNode
	roots  map[journal.ObjID]int
	kids   map[int][]int // nodes inside a directory node

	mu    sync.Mutex
	dec   *zstd.Decoder
	cache []*cachedGroup // most recently used last
}

// newPackReader checks and loads the index of a pack of size bytes.
func newPackReader(r io.ReaderAt, size int64) (*packReader, error) {
	var head [len(packMagic)]byte
	foot := make([]byte, packFooter)
	if size < int64(len(head)+packFooter) {
		return nil, fmt.Errorf("%w: too short", errPack)
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if _, err := r.ReadAt(foot, size-packFooter); err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if string(head[:]) != packMagic || string(foot[32:]) != packEnd ||
		wire.Sum(foot[:28]) != binary.LittleEndian.Uint32(foot[28:]) {
		return nil, fmt.Errorf("%w: not a pack, or cut off", errPack)
	}
	off, n, raw := binary.LittleEndian.Uint64(foot), binary.LittleEndian.Uint64(foot[8:]), binary.LittleEndian.Uint64(foot[16:])
	room := uint64(size - packFooter)
	if off < uint64(len(head)) || off > room || n != room-off || raw > packIndexMax {
		return nil, fmt.Errorf("%w: impossible footer", errPack)
	}
	packed := make([]byte, n)
	if _, err := r.ReadAt(packed, int64(off)); err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if wire.Sum(packed) != binary.LittleEndian.Uint32(foot[24:]) {
		return nil, fmt.Errorf("%w: wrong checksum of the index", errPack)
	}
	// Every frame has a sum of our own, which takes a tenth of the time of theirs.
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(hostfs.Workers()), zstd.WithDecoderMaxMemory(packIndexMax), zstd.IgnoreChecksum(true))
	if err != nil {
		return nil, err
	}
	p := &packReader{r: r, dec: dec, roots: map[journal.ObjID]int{}, kids: map[int][]int{}}
	index, err := dec.DecodeAll(packed, nil)
	if err == nil && uint64(len(index)) != raw {
		err = errors.New("wrong length")
	}
	if err == nil {
		err = p.decodeIndex(index, int64(off))
	}
	if err != nil {
		dec.Close()
		return nil, fmt.Errorf("%w: index: %w", errPack, err)
	}
	return p, nil
}

func (p *packReader) close() { p.dec.Close() }

func (p *packReader) decodeIndex(index []byte, end int64) error {
	d := wire.NewDecoder(index)
	off := int64(len(packMagic))
	for n := d.Uint(uint64(len(index))); n > 0 && d.Err() == nil; n-- {
		g := packGroupRef{off: off, size: int64(d.Uint(uint64(end))), raw: int64(d.Uint(packGroup)), sum: d.Uint32()}
		if off += g.size; off > end || g.raw == 0 {
			d.Fail("impossible group")
		}
		p.groups = append(p.groups, g)
		p.starts = append(p.starts, p.total)
		p.total += g.raw
	}
	for n := d.Uint(min(packNodeMax, uint64(len(index)))); n > 0 && d.Err() == nil; n-- {
		p.addNode(&d)
	}
	return d.End()
}

// addNode decodes one node and checks it against those before it.
func (p *packReader) addNode(d *wire.Decoder) {
	i := len(p.nodes)
	n := decodePackNode(d, i)
	if d.Err() != nil {
		return
	}
	_, dup := p.roots[n.Obj]
	root := n.Obj != journal.NoObj
	switch {
	case root != (n.Parent < 0), root && (n.Name != "" || dup || n.Link >= 0):
		d.Fail("misplaced node")
	case !root && hostfs.CheckName(n.Name) != nil:
		d.Fail("bad name")
	case !root && p.nodes[n.Parent].Meta.Mode&modeType != modeDir:
		d.Fail("parent is no directory")
	case n.Link >= 0 && (p.nodes[n.Link].Link >= 0 || p.nodes[n.Link].Meta.Mode&modeType == modeDir):
		d.Fail("bad link")
	case n.Start > p.total || n.dataLen() > p.total-n.Start:
		d.Fail("content outside the pack")
	}
	if d.Err() != nil {
		return
	}
	p.nodes = append(p.nodes, n)
	if root {
		p.roots[n.Obj] = i
	} else {
		p.kids[n.Parent] = append(p.kids[n.Parent], i)
	}
}

// S_IFMT and its values, the same on every system that a log may come from.
const (
	modeType    = 0o170000
	modeDir     = 0o040000
	modeRegular = 0o100000
	modeSymlink = 0o120000
	modeFIFO    = 0o010000
	modeSocket  = 0o140000
)

func decodePackNode(d *wire.Decoder, i int) packNode {
	n := packNode{Obj: journal.ObjID(d.Uint(journal.MaxObjects)), Parent: int(d.Uint(uint64(i))) - 1}
	n.Name = string(d.Bytes())
	n.Link = int(d.Uint(uint64(i))) - 1
	if n.Link >= 0 {
		return n
	}
	n.ID = hostfs.ID{Dev: d.Uint(math.MaxUint64), Ino: d.Uint(math.MaxUint64)}
	n.Meta = journal.Meta{
		Mode: uint32(d.Uint(math.MaxUint32)), UID: uint32(d.Uint(math.MaxUint32)), GID: uint32(d.Uint(math.MaxUint32)),
		Rdev: d.Uint(math.MaxUint64), Size: d.Int(), Mtime: d.Int(), Nlink: 1,
	}
	n.Meta.Target = string(d.Bytes())
	for c := d.Uint(uint64(d.Left())); c > 0 && d.Err() == nil; c-- {
		n.Xattrs = append(n.Xattrs, hostfs.Xattr{Name: string(d.Bytes()), Value: bytes.Clone(d.Bytes())})
	}
	end := int64(0)
	for c := d.Uint(uint64(d.Left())); c > 0 && d.Err() == nil; c-- {
		gap, length := int64(d.Uint(math.MaxInt64)), int64(d.Uint(math.MaxInt64))
		if n.Meta.Size < 0 || gap > n.Meta.Size-end || length > n.Meta.Size-end-gap {
			d.Fail("segment beyond the file's end")
			break
		}
		n.Segments = append(n.Segments, packSegment{end + gap, length})
		end += gap + length
	}
	n.Start = int64(d.Uint(math.MaxInt64))
	n.Sum = d.Uint32()
	switch n.Meta.Mode & modeType {
	case modeDir, modeRegular, modeSymlink, modeFIFO, modeSocket:
	default:
		d.Fail("unknown file type")
	}
	return n
}

// has tells whether the pack holds the adopted inode obj.
func (p *packReader) has(obj journal.ObjID) bool {
	_, ok := p.roots[obj]
	return ok
}

// order returns the adopted inodes in the order in which their contents lie in
// the pack: going through them so decodes each group once.
func (p *packReader) order() []journal.ObjID {
	out := make([]journal.ObjID, 0, len(p.roots))
	for i := range p.nodes {
		if p.nodes[i].Obj != journal.NoObj {
			out = append(out, p.nodes[i].Obj)
		}
	}
	return out
}

// node returns the inode obj, or nil.
func (p *packReader) node(obj journal.ObjID) *packNode {
	i, ok := p.roots[obj]
	if !ok {
		return nil
	}
	return &p.nodes[i]
}

// verify checks the sums of all groups, without decoding them: what is damaged
// shall be known before an undo changes anything.
func (p *packReader) verify() error {
	var buf []byte
	for i, g := range p.groups {
		if int64(cap(buf)) < g.size {
			buf = make([]byte, g.size)
		}
		if _, err := p.r.ReadAt(buf[:g.size], g.off); err != nil {
			return fmt.Errorf("%w: group %d: %w", errPack, i, err)
		}
		if wire.Sum(buf[:g.size]) != g.sum {
			return fmt.Errorf("%w: wrong checksum of group %d", errPack, i)
		}
	}
	return nil
}
