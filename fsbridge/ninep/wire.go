package ninep

import (
	"encoding/binary"
	"errors"
)

// The envelope: size[4] type[1] tag[2], the size including itself.
const headerBytes = 7

// Numbers with a meaning of their own.
const (
	noTag = 0xFFFF
	noFID = 0xFFFFFFFF
)

// version is the only protocol that is spoken here.
const version = "9P2000.L"

// maxNames is the most components of one Twalk (P9_MAXWELEM).
const maxNames = 16

// Types of qids.
const (
	qidDir     = 0x80
	qidSymlink = 0x02
)

// qid identifies a file to the client.
type qid struct {
	kind    uint8
	version uint32
	path    uint64
}

// errMalformed: a message is shorter or longer than its type says.
var errMalformed = errors.New("ninep: malformed message")

// codec reads or writes the fields of a message, so that one description of
// each message serves both directions. Decoding copies no data: byte slices are
// parts of buf.
type codec struct {
	buf      []byte // what is left to decode, or what was encoded
	decoding bool
	bad      bool
}

// message is the body of one message.
type message interface {
	fields(c *codec)
}

// decode fills m from a body. All of it must be used.
func decode(body []byte, m message) error {
	c := codec{buf: body, decoding: true}
	m.fields(&c)
	if c.bad || len(c.buf) > 0 {
		return errMalformed
	}
	return nil
}

// encode appends the whole message, envelope included, to buf, which is empty.
func encode(buf []byte, typ uint8, tag uint16, m message) []byte {
	c := codec{buf: append(buf, 0, 0, 0, 0, typ, byte(tag), byte(tag>>8))}
	m.fields(&c)
	binary.LittleEndian.PutUint32(c.buf, uint32(len(c.buf)))
	return c.buf
}

// take returns the next n bytes to decode, or nil if there are not as many.
func (c *codec) take(n int) []byte {
	if c.bad || n > len(c.buf) {
		c.bad = true
		return nil
	}
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	return b
}

func (c *codec) u8(v *uint8) {
	if !c.decoding {
		c.buf = append(c.buf, *v)
	} else if b := c.take(1); b != nil {
		*v = b[0]
	}
}

func (c *codec) u16(v *uint16) {
	if !c.decoding {
		c.buf = binary.LittleEndian.AppendUint16(c.buf, *v)
	} else if b := c.take(2); b != nil {
		*v = binary.LittleEndian.Uint16(b)
	}
}

func (c *codec) u32(v *uint32) {
	if !c.decoding {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, *v)
	} else if b := c.take(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

func (c *codec) u64(v *uint64) {
	if !c.decoding {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *v)
	} else if b := c.take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *codec) u32s(vs ...*uint32) {
	for _, v := range vs {
		c.u32(v)
	}
}

func (c *codec) u64s(vs ...*uint64) {
	for _, v := range vs {
		c.u64(v)
	}
}

// str is a string of at most 65,535 bytes, of any kind.
func (c *codec) str(v *string) {
	n := uint16(len(*v))
	c.u16(&n)
	if !c.decoding {
		c.buf = append(c.buf, (*v)[:n]...)
	} else {
		*v = string(c.take(int(n)))
	}
}

// data is bytes behind their count.
func (c *codec) data(v *[]byte) {
	n := uint32(len(*v))
	c.u32(&n)
	if !c.decoding {
		c.buf = append(c.buf, *v...)
	} else {
		*v = c.take(int(n))
	}
}

func (c *codec) qid(v *qid) {
	c.u8(&v.kind)
	c.u32(&v.version)
	c.u64(&v.path)
}

// names is the list of a Twalk.
func (c *codec) names(v *[]string) { list(c, v, (*codec).str) }

// qids is the list of an Rwalk.
func (c *codec) qids(v *[]qid) { list(c, v, (*codec).qid) }

// list is one of at most maxNames; each is what reads or writes one of it.
func list[T any](c *codec, v *[]T, each func(*codec, *T)) {
	n := uint16(len(*v))
	c.u16(&n)
	if c.decoding {
		if c.bad || n > maxNames {
			c.bad = true
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}
