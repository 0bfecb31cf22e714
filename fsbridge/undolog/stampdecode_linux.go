package undolog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// load reads the content of a stamps file into an empty table and returns how
// many bytes of it are sound. An error says that the rest is not, torn or
// damaged; what was read before holds.
func (t *stampTable) load(content []byte) (good int64, err error) {
	if len(content) == 0 {
		return 0, nil
	}
	if len(content) < len(stampMagic) || string(content[:len(stampMagic)]) != stampMagic {
		return 0, fmt.Errorf("%w: not a stamps file of this version", errStamps)
	}
	b := content[len(stampMagic):]
	good = int64(len(stampMagic))
	for len(b) > 0 {
		if len(b) < 8 {
			return good, fmt.Errorf("%w: torn frame", errStamps)
		}
		n, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if n > stampDecode || int(n) > len(b)-8 {
			return good, fmt.Errorf("%w: torn frame", errStamps)
		}
		payload := b[8 : 8+n]
		if crc32.Checksum(payload, castagnoli) != sum {
			return good, fmt.Errorf("%w: wrong checksum", errStamps)
		}
		if err := t.replay(payload); err != nil {
			return good, err
		}
		b = b[8+n:]
		good += 8 + int64(n)
	}
	return good, nil
}

// replay applies the operations of one frame.
func (t *stampTable) replay(p []byte) error {
	for len(p) > 0 {
		d := stampDecoder{b: p[1:]}
		t.replayOp(p[0], &d)
		t.buf = t.buf[:0]
		if d.bad {
			return fmt.Errorf("%w: operation %d", errStamps, p[0])
		}
		p = d.b
	}
	return nil
}

// opLen returns the length of the operation at the start of p.
func opLen(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, errStamps
	}
	d := stampDecoder{b: p[1:], skim: true}
	(*stampTable)(nil).replayOp(p[0], &d)
	if d.bad {
		return 0, errStamps
	}
	return len(p) - len(d.b), nil
}

// replayOp decodes one operation; with d.skim it only measures it.
func (t *stampTable) replayOp(op byte, d *stampDecoder) {
	switch op {
	case stampOpSeq:
		if seq := d.uvarint(); d.use() {
			t.setSeq(seq)
		}
	case stampOpDir:
		n, id, full := d.uvarint(), d.id(), d.byte()
		d.check(n <= stampNumMax)
		if d.use() && d.check(n <= uint64(len(t.homes))) {
			t.putDir(uint32(n), t.fromFile(id), full == 1)
		}
	case stampOpName:
		n, hash, ino := d.uvarint(), d.uint64(), d.uvarint()
		if d.use() && d.check(n < uint64(len(t.homes))) {
			t.putNameHash(nameKey{hash: hash, dir: uint32(n)}, ino)
		}
	case stampOpInode:
		id, stamp, content := d.id(), d.uint64(), d.uvarint()
		if d.use() {
			t.putInode(t.fromFile(id), stamp, content)
		}
	case stampOpGone:
		if id := d.id(); d.use() {
			t.dropInode(t.fromFile(id))
		}
	case stampOpForget:
		if d.use() {
			t.forget()
		}
	case stampOpBarrier:
		b := barrier{id: d.uvarint(), after: StepID(d.varint()), seq: d.uvarint(), at: time.Unix(0, d.varint())}
		if d.use() {
			t.putBarrier(b)
		}
	case stampOpPath:
		id, path := d.uvarint(), d.bytes()
		if d.use() {
			t.addBarrierPath(id, string(path))
		}
	case stampOpCrossed:
		if id := d.uvarint(); d.use() {
			t.dropBarrier(id)
		}
	default:
		d.bad = true
	}
}

func (t *stampTable) fromFile(id hostfs.ID) hostfs.ID {
	if id.Dev == 0 {
		id.Dev = t.root.Dev
	}
	return id
}

// stampDecoder reads operations and remembers that one was cut short.
type stampDecoder struct {
	b    []byte
	bad  bool
	skim bool
}

// use says that the operation is complete and to be applied.
func (d *stampDecoder) use() bool { return !d.bad && !d.skim }

func (d *stampDecoder) check(ok bool) bool {
	d.bad = d.bad || !ok
	return ok
}

func (d *stampDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if !d.check(n > 0) {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *stampDecoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if !d.check(n > 0) {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *stampDecoder) take(n uint64) []byte {
	if !d.check(n <= uint64(len(d.b))) {
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *stampDecoder) byte() byte {
	if v := d.take(1); len(v) == 1 {
		return v[0]
	}
	return 0
}

func (d *stampDecoder) uint64() uint64 {
	if v := d.take(8); len(v) == 8 {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (d *stampDecoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *stampDecoder) id() hostfs.ID {
	dev := d.uvarint()
	return hostfs.ID{Dev: dev, Ino: d.uvarint()}
}
