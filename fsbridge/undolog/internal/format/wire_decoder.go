package format

import (
	"encoding/binary"
	"fmt"
)

// Decoder reads a payload. After the first field that is malformed every other
// one is zero and Err tells what was wrong. The zero value reads nothing.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder reads b, which must not change meanwhile.
func NewDecoder(b []byte) Decoder { return Decoder{b: b} }

// Fail makes the payload a malformed one, unless it is one already.
func (d *Decoder) Fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s at byte %d", ErrMalformed, what, d.off)
	}
}

// Err is the first error.
func (d *Decoder) Err() error { return d.err }

// Off is how many bytes were read.
func (d *Decoder) Off() int { return d.off }

// Left is how many bytes there are still to read.
func (d *Decoder) Left() int { return len(d.b) - d.off }

// EndRecord returns the first error; bytes that are left are one.
func (d *Decoder) End() error {
	if d.err == nil && d.off != len(d.b) {
		d.Fail("trailing bytes")
	}
	return d.err
}

// Uint reads an unsigned varint of at most limit.
func (d *Decoder) Uint(limit uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 || v > limit {
		d.Fail("bad number")
		return 0
	}
	d.off += n
	return v
}

// Int reads a zigzag varint.
func (d *Decoder) Int() int64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Varint(d.b[d.off:])
	if n <= 0 {
		d.Fail("bad number")
		return 0
	}
	d.off += n
	return v
}

// Bytes reads a string. It is a part of the payload, not a copy.
func (d *Decoder) Bytes() []byte { return d.take(d.Uint(uint64(len(d.b)))) }

func (d *Decoder) take(n uint64) []byte {
	if d.err == nil && n > uint64(len(d.b)-d.off) {
		d.Fail("cut off")
	}
	if d.err != nil {
		return nil
	}
	s := d.b[d.off : d.off+int(n)]
	d.off += int(n)
	return s
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint32 reads four bytes.
func (d *Decoder) Uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 reads eight bytes.
func (d *Decoder) Uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
