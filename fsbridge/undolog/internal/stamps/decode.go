package stamps

import (
	"fmt"
	"math"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// load reads the content of a stamps file into an empty table and returns how
// many bytes of it are sound. An error says that the rest is not, torn or
// damaged; what was read before holds.
func (t *Table) load(content []byte) (good int64, err error) {
	if len(content) == 0 {
		return 0, nil
	}
	if len(content) < len(magic) || string(content[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: not a stamps file of this version", errDamaged)
	}
	b := content[len(magic):]
	good = int64(len(magic))
	for len(b) > 0 {
		if len(b) < format.RecordHeaderSize {
			return good, fmt.Errorf("%w: torn frame", errDamaged)
		}
		n, sum := format.RecordHeader(b)
		if n > frameAccept || int(n) > len(b)-format.RecordHeaderSize {
			return good, fmt.Errorf("%w: torn frame", errDamaged)
		}
		payload := b[format.RecordHeaderSize:][:n]
		if format.Sum(payload) != sum {
			return good, fmt.Errorf("%w: wrong checksum", errDamaged)
		}
		if err := t.replay(payload); err != nil {
			return good, err
		}
		b = b[format.RecordHeaderSize+n:]
		good += format.RecordHeaderSize + int64(n)
	}
	return good, nil
}

// replay applies the operations of one frame.
func (t *Table) replay(p []byte) error {
	d := decoder{Decoder: format.NewDecoder(p)}
	for d.Left() > 0 {
		op := d.Byte()
		t.replayOp(op, &d)
		t.buf = t.buf[:0]
		if d.Err() != nil {
			return fmt.Errorf("%w: operation %d", errDamaged, op)
		}
	}
	return nil
}

// opLen returns the length of the operation at the start of p.
func opLen(p []byte) (int, error) {
	d := decoder{Decoder: format.NewDecoder(p), skim: true}
	(*Table)(nil).replayOp(d.Byte(), &d)
	return d.Off(), d.Err()
}

// replayOp decodes one operation; with d.skim it only measures it.
func (t *Table) replayOp(op byte, d *decoder) {
	switch op {
	case opSeq:
		if seq := d.uint(); d.use() {
			t.setSeq(seq)
		}
	case opDir:
		n, id, full := d.uint(), d.id(), d.Byte()
		d.check(n <= numberMax)
		if d.use() && d.check(n <= uint64(len(t.homes))) {
			t.putDir(uint32(n), t.fromFile(id), full == 1)
		}
	case opName:
		n, hash, ino := d.uint(), d.Uint64(), d.uint()
		if d.use() && d.check(n < uint64(len(t.homes))) {
			t.putNameHash(nameKey{hash: hash, dir: uint32(n)}, ino)
		}
	case opSame:
		n, hash, same := d.uint(), d.Uint64(), d.Uint64()
		if d.use() && d.check(n < uint64(len(t.homes))) {
			t.putSame(nameKey{hash: hash, dir: uint32(n)}, same)
		}
	case opInode:
		id, stamp, content := d.id(), d.Uint64(), d.uint()
		if d.use() {
			t.putInode(t.fromFile(id), stamp, content)
		}
	case opNameEd:
		n, hash, left := d.uint(), d.Uint64(), d.uint()
		if d.use() && d.check(n < uint64(len(t.homes))) {
			t.editedName(nameKey{hash: hash, dir: uint32(n)}, left)
		}
	case opInodeEd:
		id, e := d.id(), edit(d.Byte())
		if d.use() && d.check(e == taken || e == stayed) {
			t.editedInode(t.fromFile(id), e)
		}
	case opGone:
		if id := d.id(); d.use() {
			t.dropInode(t.fromFile(id))
		}
	case opForget:
		if d.use() {
			t.forget()
		}
	case opBarrier:
		b := barrier{id: d.uint(), after: format.StepID(d.Int()), seq: d.uint(), at: time.Unix(0, d.Int())}
		if d.use() {
			t.putBarrier(b)
		}
	case opPath:
		id, path := d.uint(), d.Bytes()
		if d.use() {
			t.addBarrierPath(id, string(path))
		}
	case opWas:
		id, path, was := d.uint(), d.Bytes(), d.Uint64()
		if d.use() {
			t.setWas(id, string(path), was)
		}
	case opCrossed:
		if id := d.uint(); d.use() {
			t.dropBarrier(id)
		}
	case opDoubt:
		if seq := d.uint(); d.use() {
			t.setDoubt(seq)
		}
	default:
		d.check(false)
	}
}

func (t *Table) fromFile(id hostfs.ID) hostfs.ID {
	return t.volumes.Live(id)
}

// decoder reads operations; with skim it only measures them.
type decoder struct {
	format.Decoder
	skim bool
}

// use says that the operation is complete and to be applied.
func (d *decoder) use() bool { return d.Err() == nil && !d.skim }

func (d *decoder) check(ok bool) bool {
	if !ok {
		d.Fail("impossible number")
	}
	return ok
}

func (d *decoder) uint() uint64 { return d.Uint(math.MaxUint64) }

func (d *decoder) id() hostfs.ID {
	dev := d.uint()
	return hostfs.ID{Dev: dev, Ino: d.uint()}
}
