package undolog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// formatVersion is the version of the directory format.
const formatVersion = 2

const (
	journalMagic = "SBUNDO1\n"
	frameHeader  = 8
	// maxRecord bounds type and payload of one record, in bytes.
	maxRecord = 16 << 20
	// maxObjects bounds the objects of one journal.
	maxObjects = 1 << 26
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// objID numbers the objects of one journal; rootObj is the working folder.
type objID uint32

const (
	noObj   objID = 0
	rootObj objID = 1
)

type recordType uint8

// The record types; doc.go has their payloads.
const (
	recStep recordType = iota + 1
	recObject
	recXattrs
	recBinding
	recUnbind
	recContent
	recRetain
	recFreed
	recGone
	recUnprotected
)

// Encodings of a content record.
type encoding uint8

const (
	encRaw     encoding = iota + 1 // inline
	encZstd                        // inline
	encHole                        // zeros
	encRawBlob                     // content blob: a reflink of the whole file
)

// stepRecord is the JSON of the first record.
type stepRecord struct {
	ID        StepID    `json:"id"`
	Seq       uint64    `json:"seq"`
	StartedAt time.Time `json:"started_at"`
	Type      StepType  `json:"type"`
	Command   string    `json:"command,omitempty"`
	Argv      []string  `json:"argv,omitempty"`
	Dir       string    `json:"dir,omitempty"`
	// Tick is the moment (a seq) to which the inode numbers of an inverse
	// belong; 0 means Seq.
	Tick uint64 `json:"tick,omitempty"`
}

// objectMeta is what an inode was like when the step began. Mode holds S_IFMT
// and twelve permission bits; Mtime is nanoseconds since the epoch.
type objectMeta struct {
	Mode   uint32
	UID    uint32
	GID    uint32
	Rdev   uint64
	Size   int64
	Mtime  int64
	Nlink  uint64
	Target string // of a symlink
}

// objectRecord is one inode.
type objectRecord struct {
	Obj     objID
	ID      hostfs.ID
	Created bool
	Parent  objID
	Name    string
	// RetainedSeq and RetainedObj name the blob of an older step that held the
	// inode when the step began; RetainedSeq 0 means none.
	RetainedSeq uint64
	RetainedObj objID
	Meta        objectMeta // not of created objects
}

// bindingRecord is the first touch of (Dir, Name).
type bindingRecord struct {
	Dir  objID
	Name string
	Old  objID
}

// contentRecord is the range [Off, Off+Len) of an object's content. Inline
// data stays in the journal: dataOff and dataLen say where.
type contentRecord struct {
	Obj  objID
	Off  int64
	Len  int64
	Enc  encoding
	Blob uint32 // n of the content blob

	dataOff, dataLen int64
}

// xattrsRecord is the complete set of attributes.
type xattrsRecord struct {
	Obj    objID
	Xattrs []hostfs.Xattr
}

// errRecord is wrapped by every decoding error.
var errRecord = errors.New("undolog: malformed record")

// frame appends one framed record to buf; f appends the payload.
func frame(buf []byte, t recordType, f func([]byte) []byte) []byte {
	start := len(buf)
	buf = append(buf, 0, 0, 0, 0, 0, 0, 0, 0, byte(t))
	if f != nil {
		buf = f(buf)
	}
	body := buf[start+frameHeader:]
	binary.LittleEndian.PutUint32(buf[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(buf[start+4:], crc32.Checksum(body, castagnoli))
	return buf
}

func appendString[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func (r *stepRecord) frame(buf []byte) ([]byte, error) {
	j, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(j) > maxRecord/2 { // a monstrous command line: keep the step, drop the text
		short := *r
		short.Command, short.Argv = short.Command[:min(len(short.Command), 4096)], nil
		if j, err = json.Marshal(&short); err != nil {
			return nil, err
		}
	}
	return frame(buf, recStep, func(b []byte) []byte { return append(b, j...) }), nil
}

const (
	objFlagCreated  = 1
	objFlagRetained = 2
)

func (r *objectRecord) frame(buf []byte) []byte {
	return frame(buf, recObject, func(b []byte) []byte {
		flags := uint64(0)
		if r.Created {
			flags |= objFlagCreated
		}
		if r.RetainedSeq != 0 {
			flags |= objFlagRetained
		}
		b = binary.AppendUvarint(b, uint64(r.Obj))
		b = binary.AppendUvarint(b, flags)
		b = binary.AppendUvarint(b, r.ID.Dev)
		b = binary.AppendUvarint(b, r.ID.Ino)
		b = binary.AppendUvarint(b, uint64(r.Parent))
		b = appendString(b, r.Name)
		if r.RetainedSeq != 0 {
			b = binary.AppendUvarint(b, r.RetainedSeq)
			b = binary.AppendUvarint(b, uint64(r.RetainedObj))
		}
		if r.Created {
			return b
		}
		m := &r.Meta
		b = binary.AppendUvarint(b, uint64(m.Mode))
		b = binary.AppendUvarint(b, uint64(m.UID))
		b = binary.AppendUvarint(b, uint64(m.GID))
		b = binary.AppendUvarint(b, m.Rdev)
		b = binary.AppendVarint(b, m.Size)
		b = binary.AppendVarint(b, m.Mtime)
		b = binary.AppendUvarint(b, m.Nlink)
		return appendString(b, m.Target)
	})
}

func (r *bindingRecord) frame(buf []byte) []byte {
	return frame(buf, recBinding, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(r.Dir))
		b = appendString(b, r.Name)
		return binary.AppendUvarint(b, uint64(r.Old))
	})
}

func frameUnbind(buf []byte, dir objID, name string) []byte {
	return frame(buf, recUnbind, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(dir))
		return appendString(b, name)
	})
}

// frameObj frames retain, freed and gone.
func frameObj(buf []byte, t recordType, obj objID) []byte {
	return frame(buf, t, func(b []byte) []byte { return binary.AppendUvarint(b, uint64(obj)) })
}

func (r *xattrsRecord) frame(buf []byte) []byte {
	return frame(buf, recXattrs, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(r.Obj))
		b = binary.AppendUvarint(b, uint64(len(r.Xattrs)))
		for _, x := range r.Xattrs {
			b = appendString(b, x.Name)
			b = appendString(b, x.Value)
		}
		return b
	})
}

// frame appends the record with its inline data (nil for holes and blobs).
func (r *contentRecord) frame(buf, data []byte) []byte {
	return frame(buf, recContent, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(r.Obj))
		b = binary.AppendUvarint(b, uint64(r.Off))
		b = binary.AppendUvarint(b, uint64(r.Len))
		b = binary.AppendUvarint(b, uint64(r.Enc))
		switch r.Enc {
		case encRaw, encZstd:
			b = appendString(b, data)
		case encRawBlob:
			b = binary.AppendUvarint(b, uint64(r.Blob))
		}
		return b
	})
}

// decoder reads a payload; the first malformed field makes all later ones
// zero and sets err.
type decoder struct {
	b   []byte
	off int
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s at byte %d", errRecord, what, d.off)
	}
}

func (d *decoder) uint(limit uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 || v > limit {
		d.fail("bad number")
		return 0
	}
	d.off += n
	return v
}

func (d *decoder) int() int64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Varint(d.b[d.off:])
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.off += n
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uint(uint64(len(d.b)))
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.b)-d.off) {
		d.fail("string too long")
		return nil
	}
	s := d.b[d.off : d.off+int(n)]
	d.off += int(n)
	return s
}

func (d *decoder) obj() objID { return objID(d.uint(maxObjects)) }

// someObj is an object number that is not 0.
func (d *decoder) someObj() objID {
	o := d.obj()
	if o == noObj {
		d.fail("object number 0")
	}
	return o
}

func (d *decoder) name() string {
	s := string(d.bytes())
	if d.err == nil {
		if err := hostfs.CheckName(s); err != nil {
			d.fail(err.Error())
		}
	}
	return s
}

func (d *decoder) end() error {
	if d.err == nil && d.off != len(d.b) {
		d.fail("trailing bytes")
	}
	return d.err
}

const (
	maxU32 = 1<<32 - 1
	maxU64 = 1<<64 - 1
	maxI64 = 1<<63 - 1
)

func decodeObject(p []byte) (objectRecord, error) {
	d := decoder{b: p}
	var r objectRecord
	r.Obj = d.someObj()
	flags := d.uint(objFlagCreated | objFlagRetained)
	r.Created = flags&objFlagCreated != 0
	r.ID.Dev, r.ID.Ino = d.uint(maxU64), d.uint(maxU64)
	r.Parent = d.obj()
	if name := d.bytes(); r.Parent != noObj {
		r.Name = string(name)
		if err := hostfs.CheckName(r.Name); err != nil && d.err == nil {
			d.fail(err.Error())
		}
	} else if len(name) != 0 {
		d.fail("name without parent")
	}
	if flags&objFlagRetained != 0 {
		if r.RetainedSeq = d.uint(maxI64); r.RetainedSeq == 0 {
			d.fail("retained by step 0")
		}
		r.RetainedObj = d.someObj()
	}
	if !r.Created {
		m := &r.Meta
		m.Mode = uint32(d.uint(0o177777))
		m.UID, m.GID = uint32(d.uint(maxU32)), uint32(d.uint(maxU32))
		m.Rdev = d.uint(maxU64)
		m.Size, m.Mtime = d.int(), d.int()
		m.Nlink = d.uint(maxU64)
		m.Target = string(d.bytes())
		if m.Size < 0 || len(m.Target) > 1<<16 {
			d.fail("bad metadata")
		}
	}
	return r, d.end()
}

func decodeXattrs(p []byte) (xattrsRecord, error) {
	d := decoder{b: p}
	r := xattrsRecord{Obj: d.someObj()}
	n := d.uint(uint64(len(p)) / 2)
	for i := uint64(0); i < n && d.err == nil; i++ {
		x := hostfs.Xattr{Name: string(d.bytes()), Value: append([]byte(nil), d.bytes()...)}
		if x.Name == "" || len(x.Name) > 255 || len(x.Value) > hostfs.XattrMax {
			d.fail("bad attribute")
		}
		r.Xattrs = append(r.Xattrs, x)
	}
	return r, d.end()
}

func decodeBinding(p []byte) (bindingRecord, error) {
	d := decoder{b: p}
	r := bindingRecord{Dir: d.someObj(), Name: d.name(), Old: d.obj()}
	return r, d.end()
}

func decodeUnbind(p []byte) (dir objID, name string, err error) {
	d := decoder{b: p}
	dir, name = d.someObj(), d.name()
	return dir, name, d.end()
}

func decodeObj(p []byte) (objID, error) {
	d := decoder{b: p}
	o := d.someObj()
	return o, d.end()
}

// decodeContent decodes a record whose payload starts at byte base of the
// journal.
func decodeContent(p []byte, base int64) (contentRecord, error) {
	d := decoder{b: p}
	r := contentRecord{Obj: d.someObj()}
	r.Off, r.Len = int64(d.uint(maxI64)), int64(d.uint(maxI64))
	r.Enc = encoding(d.uint(255))
	if r.Len <= 0 || r.Off > maxI64-r.Len {
		d.fail("bad range")
	}
	switch r.Enc {
	case encRaw, encZstd:
		s := d.bytes()
		r.dataLen = int64(len(s))
		r.dataOff = base + int64(d.off) - r.dataLen
		if r.Enc == encRaw && r.dataLen != r.Len {
			d.fail("data and range differ in length")
		}
		if r.Len > maxRecord {
			d.fail("inline range too long")
		}
	case encHole:
	case encRawBlob:
		if r.Blob = uint32(d.uint(maxU32)); r.Blob == 0 {
			d.fail("content blob 0")
		}
	default:
		d.fail("unknown encoding")
	}
	return r, d.end()
}
