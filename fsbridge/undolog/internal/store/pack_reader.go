package store

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
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// A pack holds the adopted inodes of one step, compressed in solid groups; its
// format is in doc.go. An adopted directory is in it with all that is inside.

const (
	magic      = "SBPACK1\n"
	endMagic   = "SBPACKE\n"
	footerSize = 40
	// groupSize is how many content bytes one zstd frame holds: enough for
	// small files to help each other, small enough to decode on the way to one.
	groupSize = 1 << 20
	// indexMax bounds the decoded index, nodeMax its nodes.
	indexMax = 1 << 30
	nodeMax  = 1 << 26
	// cachedGroups is how many decoded groups a reader keeps.
	cachedGroups = 4
)

var errDamaged = errors.New("undolog: damaged pack")

// PackSegment is a run of data in a file; what is between segments is a hole.
type PackSegment struct{ Off, Len int64 }

// PackNode is one inode of a pack.
type PackNode struct {
	Obj    format.ObjID // of a root: an adopted inode; journal.NoObj inside a directory
	Parent int          // node of the directory that holds it; -1 for a root
	Name   string       // in that directory
	ID     hostfs.ID
	Meta   format.Meta
	Xattrs []hostfs.Xattr
	// Link is the earlier node that is the same inode (a hard link); -1 if
	// there is none. Nothing below is set then.
	Link     int
	Segments []PackSegment
	Start    int64  // of the first segment's bytes in the content stream
	Sum      uint32 // CRC32C of the segments' bytes
}

func (n *PackNode) dataLen() (total int64) {
	for _, s := range n.Segments {
		total += s.Len
	}
	return total
}

type groupRef struct {
	off, size, raw int64
	sum            uint32 // CRC32C of the frame
}

// encodeIndex renders groups (consecutive from the magic on) and nodes.
func encodeIndex(groups []groupRef, nodes []PackNode, v *format.Volumes) []byte {
	b := binary.AppendUvarint(nil, uint64(len(groups)))
	for _, g := range groups {
		b = binary.AppendUvarint(b, uint64(g.size))
		b = binary.AppendUvarint(b, uint64(g.raw))
		b = binary.LittleEndian.AppendUint32(b, g.sum)
	}
	b = binary.AppendUvarint(b, uint64(len(nodes)))
	for i := range nodes {
		b = nodes[i].append(b, v)
	}
	return b
}

func (n *PackNode) append(b []byte, v *format.Volumes) []byte {
	b = binary.AppendUvarint(b, uint64(n.Obj))
	b = binary.AppendUvarint(b, uint64(n.Parent+1))
	b = format.AppendString(b, n.Name)
	b = binary.AppendUvarint(b, uint64(n.Link+1))
	if n.Link >= 0 {
		return b
	}
	id := v.Disk(n.ID)
	b = binary.AppendUvarint(b, id.Dev)
	b = binary.AppendUvarint(b, id.Ino)
	m := &n.Meta
	b = binary.AppendUvarint(b, uint64(m.Mode))
	b = binary.AppendUvarint(b, uint64(m.UID))
	b = binary.AppendUvarint(b, uint64(m.GID))
	b = binary.AppendUvarint(b, m.Rdev)
	b = binary.AppendVarint(b, m.Size)
	b = binary.AppendVarint(b, m.Mtime)
	b = format.AppendString(b, m.Target)
	b = binary.AppendUvarint(b, uint64(len(n.Xattrs)))
	for _, x := range n.Xattrs {
		b = format.AppendString(b, x.Name)
		b = format.AppendString(b, x.Value)
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

func encodeFooter(indexOff, indexSize, indexRaw int64, index []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(indexOff))
	b = binary.LittleEndian.AppendUint64(b, uint64(indexSize))
	b = binary.LittleEndian.AppendUint64(b, uint64(indexRaw))
	b = binary.LittleEndian.AppendUint32(b, format.Sum(index))
	b = binary.LittleEndian.AppendUint32(b, format.Sum(b))
	return append(b, endMagic...)
}

// PackReader reads a pack. It may be used concurrently.
type PackReader struct {
	r      io.ReaderAt
	fd     int // of r, to be closed; -1: none
	groups []groupRef
	starts []int64 // of each group in the content stream
	total  int64   // bytes of the content stream
	nodes  []PackNode
	roots  map[format.ObjID]int
	kids   map[int][]int // nodes inside a directory node

	mu    sync.Mutex
	dec   *zstd.Decoder
	cache []*cachedGroup // most recently used last
}

// newReader checks and loads the index of a pack of size bytes.
func newReader(r io.ReaderAt, size int64) (*PackReader, error) {
	var head [len(magic)]byte
	foot := make([]byte, footerSize)
	if size < int64(len(head)+footerSize) {
		return nil, fmt.Errorf("%w: too short", errDamaged)
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if _, err := r.ReadAt(foot, size-footerSize); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if string(head[:]) != magic || string(foot[32:]) != endMagic ||
		format.Sum(foot[:28]) != binary.LittleEndian.Uint32(foot[28:]) {
		return nil, fmt.Errorf("%w: not a pack, or cut off", errDamaged)
	}
	off, n, raw := binary.LittleEndian.Uint64(foot), binary.LittleEndian.Uint64(foot[8:]), binary.LittleEndian.Uint64(foot[16:])
	room := uint64(size - footerSize)
	if off < uint64(len(head)) || off > room || n != room-off || raw > indexMax {
		return nil, fmt.Errorf("%w: impossible footer", errDamaged)
	}
	packed := make([]byte, n)
	if _, err := r.ReadAt(packed, int64(off)); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if format.Sum(packed) != binary.LittleEndian.Uint32(foot[24:]) {
		return nil, fmt.Errorf("%w: wrong checksum of the index", errDamaged)
	}
	// Every frame has a sum of our own, which takes a tenth of the time of theirs.
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(hostfs.Workers()), zstd.WithDecoderMaxMemory(indexMax), zstd.IgnoreChecksum(true))
	if err != nil {
		return nil, err
	}
	p := &PackReader{r: r, fd: -1, dec: dec, roots: map[format.ObjID]int{}, kids: map[int][]int{}}
	index, err := dec.DecodeAll(packed, nil)
	if err == nil && uint64(len(index)) != raw {
		err = errors.New("wrong length")
	}
	if err == nil {
		err = p.decodeIndex(index, int64(off))
	}
	if err != nil {
		dec.Close()
		return nil, fmt.Errorf("%w: index: %w", errDamaged, err)
	}
	return p, nil
}

// Live makes the pack's inodes those of now.
func (p *PackReader) Live(v *format.Volumes) *PackReader {
	for i := range p.nodes {
		p.nodes[i].ID = v.Live(p.nodes[i].ID)
	}
	return p
}

// Close frees what the reader holds.
func (p *PackReader) Close() {
	p.dec.Close()
	if p.fd >= 0 {
		_ = hostfs.Close(p.fd)
	}
}

func (p *PackReader) decodeIndex(index []byte, end int64) error {
	d := format.NewDecoder(index)
	off := int64(len(magic))
	for n := d.Uint(uint64(len(index))); n > 0 && d.Err() == nil; n-- {
		g := groupRef{off: off, size: int64(d.Uint(uint64(end))), raw: int64(d.Uint(groupSize)), sum: d.Uint32()}
		if off += g.size; off > end || g.raw == 0 {
			d.Fail("impossible group")
		}
		p.groups = append(p.groups, g)
		p.starts = append(p.starts, p.total)
		p.total += g.raw
	}
	for n := d.Uint(min(nodeMax, uint64(len(index)))); n > 0 && d.Err() == nil; n-- {
		p.addNode(&d)
	}
	return d.End()
}

// addNode decodes one node and checks it against those before it.
func (p *PackReader) addNode(d *format.Decoder) {
	i := len(p.nodes)
	n := decodeNode(d, i)
	if d.Err() != nil {
		return
	}
	_, dup := p.roots[n.Obj]
	root := n.Obj != format.NoObj
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

func decodeNode(d *format.Decoder, i int) PackNode {
	n := PackNode{Obj: format.ObjID(d.Uint(format.MaxObjects)), Parent: int(d.Uint(uint64(i))) - 1}
	n.Name = string(d.Bytes())
	n.Link = int(d.Uint(uint64(i))) - 1
	if n.Link >= 0 {
		return n
	}
	n.ID = hostfs.ID{Dev: d.Uint(math.MaxUint64), Ino: d.Uint(math.MaxUint64)}
	n.Meta = format.Meta{
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
		n.Segments = append(n.Segments, PackSegment{end + gap, length})
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

// Has tells whether the pack holds the adopted inode obj.
func (p *PackReader) Has(obj format.ObjID) bool { return p.Root(obj) >= 0 }

// PackNode returns the adopted inode obj, or nil.
func (p *PackReader) Node(obj format.ObjID) *PackNode {
	if i := p.Root(obj); i >= 0 {
		return &p.nodes[i]
	}
	return nil
}

// Root returns the number of the adopted inode obj's node, or -1.
func (p *PackReader) Root(obj format.ObjID) int {
	if i, ok := p.roots[obj]; ok {
		return i
	}
	return -1
}

// At returns node i.
func (p *PackReader) At(i int) *PackNode { return &p.nodes[i] }

// Inside returns the nodes that are in the directory node i.
func (p *PackReader) Inside(i int) []int { return p.kids[i] }

// verify checks the sums of all groups, without decoding them: what is damaged
// shall be known before an undo changes anything.
func (p *PackReader) verify() error {
	var buf []byte
	for i, g := range p.groups {
		if int64(cap(buf)) < g.size {
			buf = make([]byte, g.size)
		}
		if _, err := p.r.ReadAt(buf[:g.size], g.off); err != nil {
			return fmt.Errorf("%w: group %d: %w", errDamaged, i, err)
		}
		if format.Sum(buf[:g.size]) != g.sum {
			return fmt.Errorf("%w: wrong checksum of group %d", errDamaged, i)
		}
	}
	return nil
}
