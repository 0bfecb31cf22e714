package undolog

import (
	"fmt"
	"math"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/wire"
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
		if len(b) < wire.HeaderSize {
			return good, fmt.Errorf("%w: torn frame", errStamps)
		}
		n, sum := wire.Header(b)
		if n > stampDecode || int(n) > len(b)-wire.HeaderSize {
			return good, fmt.Errorf("%w: torn frame", errStamps)
		}
		payload := b[wire.HeaderSize:][:n]
		if wire.Sum(payload) != sum {
			return good, fmt.Errorf("%w: wrong checksum", errStamps)
		}
		if err := t.replay(payload); err != nil {
			return good, err
		}
		b = b[wire.HeaderSize+n:]
		good += wire.HeaderSize + int64(n)
	}
	return good, nil
}

// replay applies the operations of one frame.
func (t *stampTable) replay(p []byte) error {
	d := stampDecoder{Decoder: wire.NewDecoder(p)}
	for d.Left() > 0 {
		op := d.Byte()
		t.replayOp(op, &d)
		t.buf = t.buf[:0]
		if d.Err() != nil {
			return fmt.Errorf("%w: operation %d", errStamps, op)
		}
	}
	return nil
}

// opLen returns the length of the operation at the start of p.
func opLen(p []byte) (int, error) {
	d := stampDecoder{Decoder: wire.NewDecoder(p), skim: true}
	(*stampTable)(nil).replayOp(d.Byte(), &d)
	return d.Off(), d.Err()
}

// replayOp decodes one operation; with d.skim it only measures it.
func (t *stampTable) replayOp(op byte, d *stampDecoder) {
	switch op {
	case stampOpSeq:
		if seq := d.uint(); d.use() {
			t.setSeq(seq)
		}
	case stampOpDir:
		n, id, full := d.uint(), d.id(), d.Byte()
		d.check(n <= stampNumMax)
		if d.use() && d.check(n <= uint64(len(t.homes))) {
			t.putDir(uint32(n), t.fromFile(id), full == 1)
		}
	case stampOpName:
		n, hash, ino := d.uint(), d.Uint64(), d.uint()
		if d.use() && d.check(n < uint64(len(t.homes))) {
			t.putNameHash(nameKey{hash: hash, dir: uint32(n)}, ino)
		}
	case stampOpInode:
		id, stamp, content := d.id(), d.Uint64(), d.uint()
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
		b := barrier{id: d.uint(), after: StepID(d.Int()), seq: d.uint(), at: time.Unix(0, d.Int())}
		if d.use() {
			t.putBarrier(b)
		}
	case stampOpPath:
		id, path := d.uint(), d.Bytes()
		if d.use() {
			t.addBarrierPath(id, string(path))
		}
	case stampOpCrossed:
		if id := d.uint(); d.use() {
			t.dropBarrier(id)
		}
	default:
		d.check(false)
	}
}

func (t *stampTable) fromFile(id hostfs.ID) hostfs.ID {
	if id.Dev == 0 {
		id.Dev = t.root.Dev
	}
	return id
}

// stampDecoder reads operations; with skim it only measures them.
type stampDecoder struct {
	wire.Decoder
	skim bool
}

// use says that the operation is complete and to be applied.
func (d *stampDecoder) use() bool { return d.Err() == nil && !d.skim }

func (d *stampDecoder) check(ok bool) bool {
	if !ok {
		d.Fail("impossible number")
	}
	return ok
}

func (d *stampDecoder) uint() uint64 { return d.Uint(math.MaxUint64) }

func (d *stampDecoder) id() hostfs.ID {
	dev := d.uint()
	return hostfs.ID{Dev: dev, Ino: d.uint()}
}
