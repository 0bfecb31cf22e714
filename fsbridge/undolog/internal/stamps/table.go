package stamps

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// The stamp table remembers how the kept steps left what they touched, so that
// an edit from outside is seen when an undo would destroy it. It holds:
//
//   - for each touched name (directory, name): which inode it binds, or none;
//   - for each of those inodes: a hash of its attributes, the stamp;
//   - which directories the sandbox made, so that everything inside is known
//     and a stranger in them stands out;
//   - the barriers.
//
// Keys are inode numbers and names, never paths: renaming a directory above or
// writing through another hard link must not look like an edit from outside.
// A name that is not in the table is unknown, and unknown makes no barrier.
//
// Everything is behind mu, which is a leaf
// lock: nothing else is locked and no callback is called under it.
type Table struct {
	cfg Config

	Mu      sync.Mutex
	root    hostfs.ID
	volumes *format.Volumes
	coarse  bool // ctime is tick-grained: small contents are hashed, too

	dirs   map[hostfs.ID]uint32
	homes  []home // by directory number
	names  map[nameKey]nameValue
	inodes map[hostfs.ID]inodeValue

	relinking map[hostfs.ID]int // inodes that just now lose names in the log: how many

	barriers []barrier // by id
	seq      uint64    // of the step that the next entries belong to
	doubt    uint64    // of steps up to this seq a part was lost; 0: nothing was

	budget left              // of hashes of what files hold, for the step that ends
	was    map[string]uint64 // of what was accepted: by path, what it had been

	applying bool // an apply, or the end of a step: what is in the folder is in motion

	gen    uint64    // counts changes of stamps, for external
	forgot time.Time // when the table was last made to forget something

	overtaken []string // see Overtaken
	buf       []byte   // operations not yet written
	file      Sink
	size      int64 // bytes in the file
	// lacks: something could not be written. What comes next may build on it, so
	// the file is written as a whole.
	lacks bool
}

type home struct {
	id hostfs.ID
	// full: everything inside was stamped, so what is unknown is foreign.
	full bool
	seq  uint64
}

type nameKey struct {
	hash uint64
	dir  uint32
}

type nameValue struct {
	ino uint64 // 0: absent
	seq uint64 // newest step that touched it
	// same is a hash of what the steps left under it, or 0. What is accepted as an edit does not change it.
	same uint64
	// edited: what is there was taken in as an edit from outside, after the steps.
	edited bool
	left   uint64 // if it is edited: the inode that the steps had left, or 0
}

type inodeValue struct {
	stamp   uint64
	content uint64 // hash of a small content where ctime is coarse, or 0
	seq     uint64
	edit    edit
}

// edit says whether what an inode holds is somebody else's.
type edit byte

const (
	none   edit = iota
	taken       // it was taken in as an edit: a redo asks before it overwrites it
	stayed      // it was left when an undo or a redo was forced: that was asked for, and the steps' records do not fit it
)

// barrier is a [format.Barrier] with the order of its step.
type barrier struct {
	id    uint64
	after format.StepID
	seq   uint64
	at    time.Time
	paths []string
	// was has, by path, a hash of what the steps had left there, or absent: where that is again, nothing would be lost.
	was map[string]uint64
}

// Sink is where the table writes. Append is all or nothing as far as the
// reader is concerned: a frame that is torn is cut.
type Sink interface {
	Append(frame []byte) error
	Replace(content []byte) error
}

const (
	magic       = "undostm1"
	frameMax    = 1 << 20 // payload bytes written into one frame
	frameAccept = 2 << 20 // payload bytes accepted in one frame
	numberMax   = 1 << 26 // directory numbers accepted
)

// Operations of the stamps file.
const (
	opSeq     = 1  // uvarint seq
	opDir     = 2  // uvarint number, dev, ino; byte full
	opName    = 3  // uvarint directory; 8 bytes hash; uvarint ino
	opInode   = 4  // uvarint dev, ino; 8 bytes stamp; uvarint content
	opGone    = 5  // uvarint dev, ino
	opForget  = 6  // drop names, inodes and directories
	opBarrier = 7  // uvarint id; varint after; uvarint seq; varint unix ns
	opPath    = 8  // uvarint barrier id; uvarint length; path
	opCrossed = 9  // uvarint barrier id: it is no more
	opDoubt   = 10 // uvarint seq
	opSame    = 11 // uvarint directory; 8 bytes hash of a name that is known; 8 bytes hash of what it holds
	opWas     = 12 // uvarint barrier id; uvarint length; path; 8 bytes hash of what the steps left there, or absent
	opNameEd  = 13 // uvarint directory; 8 bytes hash of a name that is known: it was edited; uvarint ino that the steps had left
	opInodeEd = 14 // uvarint dev, ino, that are known; byte: 1: it was edited, 2: that stayed
)

var errDamaged = errors.New("undolog: damaged stamps file")

func newTable(root hostfs.ID, v *format.Volumes, sink Sink) *Table {
	t := &Table{root: root, volumes: v, file: sink}
	t.clear()
	return t
}

func (t *Table) clear() {
	t.dirs = map[hostfs.ID]uint32{t.root: 0}
	t.homes = []home{{id: t.root}}
	t.names = make(map[nameKey]nameValue)
	t.inodes = make(map[hostfs.ID]inodeValue)
}

func nameHash(name string) uint64 {
	var b [hostfs.NameMax]byte
	h := sha256.Sum256(b[:copy(b[:], name)])
	return binary.LittleEndian.Uint64(h[:])
}

// stampOf hashes what identifies the state of an inode. A directory's times
// and size change with its entries, which have stamps of their own.
func stampOf(st *hostfs.Stat) uint64 {
	var b [96]byte
	p := b[:0]
	p = binary.LittleEndian.AppendUint32(p, st.Mode)
	p = binary.LittleEndian.AppendUint32(p, st.UID)
	p = binary.LittleEndian.AppendUint32(p, st.GID)
	if !st.IsDir() {
		p = binary.LittleEndian.AppendUint64(p, uint64(st.Size))
		p = binary.LittleEndian.AppendUint64(p, uint64(st.Mtime))
		p = binary.LittleEndian.AppendUint64(p, uint64(st.Ctime))
		p = binary.LittleEndian.AppendUint64(p, st.Rdev)
	}
	h := sha256.Sum256(p)
	return binary.LittleEndian.Uint64(h[:])
}

// looseStamp is stampOf without the ctime: what stays when the log removes a
// name of its own of an inode that has others.
func looseStamp(st *hostfs.Stat) uint64 {
	loose := *st
	loose.Ctime = 0
	return stampOf(&loose)
}

// stampFor is stampOf, or looseStamp while the log removes a name of the inode.
// It needs mu.
func (t *Table) stampFor(st *hostfs.Stat) uint64 {
	if t.relinking[st.ID] > 0 {
		return looseStamp(st)
	}
	return stampOf(st)
}

// fits says that an inode is as the table has it.
func (v *inodeValue) fits(st *hostfs.Stat) bool {
	return v.stamp == stampOf(st) || v.stamp == looseStamp(st)
}

// The put functions change the table and note the change for the file. They
// need mu.

// dirNumber gives a directory its number.
func (t *Table) dirNumber(id hostfs.ID) uint32 {
	if n, ok := t.dirs[id]; ok {
		return n
	}
	n := uint32(len(t.homes))
	t.putDir(n, id, false)
	return n
}

func (t *Table) putDir(n uint32, id hostfs.ID, full bool) {
	for uint32(len(t.homes)) <= n {
		t.homes = append(t.homes, home{})
	}
	if old := t.homes[n]; old.id != id && t.dirs[old.id] == n {
		delete(t.dirs, old.id)
	}
	t.homes[n] = home{id: id, full: full, seq: t.seq}
	t.dirs[id] = n
	b := append(t.buf, opDir)
	b = binary.AppendUvarint(b, uint64(n))
	b = t.appendID(b, id)
	t.buf = append(b, boolByte(full))
}

func (t *Table) putName(dir uint32, name string, ino uint64) {
	t.putNameHash(nameKey{hash: nameHash(name), dir: dir}, ino)
}

func (t *Table) putNameHash(k nameKey, ino uint64) {
	t.names[k] = nameValue{ino: ino, seq: t.seq}
	b := append(t.buf, opName)
	b = binary.AppendUvarint(b, uint64(k.dir))
	b = binary.LittleEndian.AppendUint64(b, k.hash)
	t.buf = binary.AppendUvarint(b, ino)
}

func (t *Table) putInode(id hostfs.ID, stamp, content uint64) {
	t.inodes[id] = inodeValue{stamp: stamp, content: content, seq: t.seq}
	b := t.appendID(append(t.buf, opInode), id)
	b = binary.LittleEndian.AppendUint64(b, stamp)
	t.buf = binary.AppendUvarint(b, content)
}

// editedName notes that what a name binds was edited from outside, until a step, an undo or a redo leaves it anew. left is the
// inode that these had left there, or 0.
func (t *Table) editedName(k nameKey, left uint64) {
	if v, ok := t.names[k]; ok {
		v.edited, v.left = true, left
		t.names[k] = v
		b := binary.LittleEndian.AppendUint64(binary.AppendUvarint(append(t.buf, opNameEd), uint64(k.dir)), k.hash)
		t.buf = binary.AppendUvarint(b, left)
	}
}

// editedInode is editedName for an inode.
func (t *Table) editedInode(id hostfs.ID, e edit) {
	if v, ok := t.inodes[id]; ok && e != none {
		v.edit = e
		t.inodes[id] = v
		t.buf = append(t.appendID(append(t.buf, opInodeEd), id), byte(e))
	}
}

func (t *Table) dropInode(id hostfs.ID) {
	if _, ok := t.inodes[id]; !ok {
		return
	}
	delete(t.inodes, id)
	t.buf = t.appendID(append(t.buf, opGone), id)
}

func (t *Table) setSeq(seq uint64) {
	t.seq = seq
	t.gen++
	t.buf = binary.AppendUvarint(append(t.buf, opSeq), seq)
}

// forget drops every stamp: after writes that nobody saw, nothing is known.
func (t *Table) forget() {
	t.clear()
	t.doubt = 0
	t.buf = append(t.buf, opForget)
}

// setDoubt says that of steps up to seq not all is known.
func (t *Table) setDoubt(seq uint64) {
	t.doubt = seq
	t.buf = binary.AppendUvarint(append(t.buf, opDoubt), seq)
}

// remap gives directories the numbers that they have now, old to new: all at
// once, since one may have got what was another's.
func (t *Table) remap(made map[hostfs.ID]hostfs.ID) {
	moved := map[uint32]hostfs.ID{}
	for old, id := range made {
		if n, ok := t.dirs[old]; ok && n != 0 && old != id {
			moved[n] = id
		}
	}
	for n := range moved {
		delete(t.dirs, t.homes[n].id)
	}
	for n, id := range moved {
		t.putDir(n, id, t.homes[n].full)
	}
}

// appendID writes the inode as the log names it.
func (t *Table) appendID(b []byte, id hostfs.ID) []byte {
	id = t.volumes.Disk(id)
	return binary.AppendUvarint(binary.AppendUvarint(b, id.Dev), id.Ino)
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// flush writes the noted operations as frames. It needs mu.
func (t *Table) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	if t.lacks {
		return t.compact(0)
	}
	out := frames(nil, t.buf)
	t.buf = t.buf[:0]
	if cap(t.buf) > 1<<20 {
		t.buf = nil
	}
	if t.size == 0 {
		out = append([]byte(magic), out...)
	}
	if err := t.file.Append(out); err != nil {
		t.lacks = true
		return err
	}
	t.size += int64(len(out))
	return nil
}

// frames cuts operations into frames. An operation may not span two, so it
// walks them.
func frames(out, ops []byte) []byte {
	for len(ops) > 0 {
		n := 0
		for n < len(ops) {
			size, err := opLen(ops[n:])
			if err != nil || (n > 0 && n+size > frameMax) {
				break
			}
			n += size
		}
		start := len(out)
		out = append(format.BeginRecord(out), ops[:n]...)
		format.EndRecord(out[start:])
		ops = ops[n:]
	}
	return out
}

// snapshot encodes the whole table, without what only steps older than oldest
// touched: a directory that loses a name by that is not full any more. It needs mu.
func (t *Table) snapshot(oldest uint64) []byte {
	s := newTable(t.root, t.volumes, nil)
	used, cut := make([]bool, len(t.homes)), make([]bool, len(t.homes))
	for k, v := range t.names {
		switch {
		case int(k.dir) >= len(used):
		case v.seq >= oldest:
			used[k.dir] = true
		case v.ino != 0:
			cut[k.dir] = true
		}
	}
	renumber := make([]uint32, len(t.homes))
	for n, d := range t.homes {
		if n == 0 || (!used[n] && d.seq < oldest) || d.id == (hostfs.ID{}) {
			continue
		}
		s.seqFor(d.seq)
		renumber[n] = uint32(len(s.homes))
		s.putDir(renumber[n], d.id, d.full && !cut[n])
	}
	for k, v := range t.names {
		if v.seq < oldest || int(k.dir) >= len(used) || (k.dir != 0 && renumber[k.dir] == 0) {
			continue
		}
		s.seqFor(v.seq)
		to := nameKey{hash: k.hash, dir: renumber[k.dir]}
		s.putNameHash(to, v.ino)
		s.putSame(to, v.same)
		if v.edited {
			s.editedName(to, v.left)
		}
	}
	for id, v := range t.inodes {
		if v.seq >= oldest {
			s.seqFor(v.seq)
			s.putInode(id, v.stamp, v.content)
			s.editedInode(id, v.edit)
		}
	}
	for _, b := range t.barriers {
		s.putBarrier(b)
	}
	if t.doubt != 0 && t.doubt >= oldest {
		s.setDoubt(t.doubt)
	}
	s.seqFor(t.seq)
	t.doubt = s.doubt
	t.dirs, t.homes, t.names, t.inodes = s.dirs, s.homes, s.names, s.inodes
	return frames([]byte(magic), s.buf)
}

func (t *Table) seqFor(seq uint64) {
	if t.seq != seq {
		t.setSeq(seq)
	}
}

// compact drops what only evicted steps touched and rewrites the file. It
// needs mu.
func (t *Table) compact(oldest uint64) error {
	t.buf, t.lacks = nil, true
	content := t.snapshot(oldest)
	if err := t.file.Replace(content); err != nil {
		return err
	}
	t.lacks = false
	t.size = int64(len(content))
	return nil
}

// wasteful says that compaction is worth while: the file is much larger than
// what the table needs.
func (t *Table) wasteful() bool {
	live := int64(24*len(t.names) + 20*len(t.inodes) + 16*len(t.homes))
	return t.size > 1<<20 && t.size > 4*live
}

// Relink takes in that the log removes a name of its own of the inode behind fd, or, with
// removed, that it has. If that inode is as the steps left it, its stamp is a loose one until
// that is done, and so is what a step that ends meanwhile leaves: neither a capture nor a kill
// makes it look like an edit. The inode is looked at here, with the lock held: what somebody saw
// before may be older than a stamp that a step has left since.
func (t *Table) Relink(fd int, removed bool) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	t.gen++
	if t.relinking == nil {
		t.relinking = map[hostfs.ID]int{}
	}
	if !removed {
		t.relinking[st.ID]++
	} else if t.relinking[st.ID]--; t.relinking[st.ID] <= 0 {
		delete(t.relinking, st.ID)
	}
	v, ok := t.inodes[st.ID]
	if !ok || !v.fits(&st) {
		return nil
	}
	seq := t.seq
	t.seqFor(v.seq)
	t.putInode(st.ID, t.stampFor(&st), v.content)
	t.editedInode(st.ID, v.edit)
	t.seqFor(seq)
	if removed { // written with what comes next
		return nil
	}
	return t.flush()
}
