package format

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	// JournalMagic starts every journal.
	JournalMagic = "SBUNDO1\n"
	// MaxRecord bounds type and payload of one record, in bytes.
	MaxRecord = 16 << 20
	// MaxObjects bounds the objects of one journal.
	MaxObjects = 1 << 26
)

// ObjID numbers the objects of one journal.
type ObjID uint32

const (
	// NoObj is no object.
	NoObj ObjID = 0
	// RootObj is the working folder.
	RootObj ObjID = 1
)

// RecordType says what a record is about.
type RecordType uint8

// The types; the package documentation has their payloads.
const (
	TypeStep RecordType = iota + 1
	TypeObject
	TypeXattrs
	TypeBinding
	TypeUnbind
	TypeContent
	TypeRetain
	TypeFreed
	TypeGone
	TypeUnprotected
	TypeLost
)

// Encoding says how a content record keeps its bytes.
type Encoding uint8

// The encodings.
const (
	EncRaw   Encoding = iota + 1 // inline
	EncZstd                      // inline
	EncHole                      // zeros
	EncClone                     // content blob: a reflink or a copy of the whole file
)

// Step is the JSON of the first record.
type Step struct {
	ID        StepID    `json:"id"`
	Seq       uint64    `json:"seq"`
	StartedAt time.Time `json:"started_at"`
	Type      StepType  `json:"type"`
	Command   string    `json:"command,omitempty"`
	Argv      []string  `json:"argv,omitempty"`
	Dir       string    `json:"dir,omitempty"`
	Folders   []string  `json:"folders,omitempty"`
	// Tick is the moment (a seq) to which the inode numbers of an inverse
	// belong; 0 means Seq.
	Tick uint64 `json:"tick,omitempty"`
	// Group as in [StepInfo].
	Group StepID `json:"group,omitempty"`
}

// Born is the moment to which the journal's inode numbers belong.
func (r *Step) Born() uint64 { return max(r.Tick, r.Seq) }

// Meta is what an inode was like when the step began. Mode holds S_IFMT
// and twelve permission bits; Mtime is nanoseconds since the epoch.
type Meta struct {
	Mode   uint32
	UID    uint32
	GID    uint32
	Rdev   uint64
	Size   int64
	Mtime  int64
	Nlink  uint64
	Target string // of a symlink
}

// MetaOf is what st says; target is where a symlink leads to.
func MetaOf(st *hostfs.Stat, target string) Meta {
	return Meta{Mode: st.Mode, UID: st.UID, GID: st.GID, Rdev: st.Rdev,
		Size: st.Size, Mtime: st.Mtime, Nlink: st.Nlink, Target: target}
}

// Object is one inode.
type Object struct {
	Obj     ObjID
	ID      hostfs.ID
	Created bool
	Parent  ObjID
	Name    string
	// RetainedSeq and RetainedObj name the blob of an older step that held the
	// inode when the step began; RetainedSeq 0 means none.
	RetainedSeq uint64
	RetainedObj ObjID
	Meta        Meta // not of created objects
}

// Binding is the first touch of (Dir, Name).
type Binding struct {
	Dir  ObjID
	Name string
	Old  ObjID
}

// Content is the range [Off, Off+Len) of an object's content. Inline
// data stays in the journal: dataOff and dataLen say where.
type Content struct {
	Obj  ObjID
	Off  int64
	Len  int64
	Enc  Encoding
	Blob uint32 // n of the content blob

	dataOff, dataLen int64
}

// Inline tells where the data of an inline record is in the journal: from which
// byte on, and how many.
func (r *Content) Inline() (off, length int64) { return r.dataOff, r.dataLen }

// Xattrs is the complete set of attributes.
type Xattrs struct {
	Obj    ObjID
	Xattrs []hostfs.Xattr
}

// frame appends one framed record to buf; f appends the payload.
func frame(buf []byte, t RecordType, f func([]byte) []byte) []byte {
	start := len(buf)
	buf = append(BeginRecord(buf), byte(t))
	if f != nil {
		buf = f(buf)
	}
	EndRecord(buf[start:])
	return buf
}

func (r *Step) frame(buf []byte) ([]byte, error) {
	j, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(j) > MaxRecord/2 { // a monstrous command line: keep the step, drop the text
		short := *r
		short.Command, short.Argv = short.Command[:min(len(short.Command), 4096)], nil
		if j, err = json.Marshal(&short); err != nil {
			return nil, err
		}
	}
	return frame(buf, TypeStep, func(b []byte) []byte { return append(b, j...) }), nil
}

const (
	objFlagCreated  = 1
	objFlagRetained = 2
)

func (r *Object) frame(buf []byte) []byte {
	return frame(buf, TypeObject, func(b []byte) []byte {
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
		b = AppendString(b, r.Name)
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
		return AppendString(b, m.Target)
	})
}

func (r *Binding) frame(buf []byte) []byte {
	return frame(buf, TypeBinding, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(r.Dir))
		b = AppendString(b, r.Name)
		return binary.AppendUvarint(b, uint64(r.Old))
	})
}

func frameUnbind(buf []byte, dir ObjID, name string) []byte {
	return frame(buf, TypeUnbind, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(dir))
		return AppendString(b, name)
	})
}

// frameObj frames retain, freed and gone.
func frameObj(buf []byte, t RecordType, obj ObjID) []byte {
	return frame(buf, t, func(b []byte) []byte { return binary.AppendUvarint(b, uint64(obj)) })
}

func (r *Xattrs) frame(buf []byte) []byte {
	return frame(buf, TypeXattrs, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(r.Obj))
		b = binary.AppendUvarint(b, uint64(len(r.Xattrs)))
		for _, x := range r.Xattrs {
			b = AppendString(b, x.Name)
			b = AppendString(b, x.Value)
		}
		return b
	})
}

// frame appends the record with its inline data (nil for holes and blobs).
func (r *Content) frame(buf, data []byte) []byte {
	return frame(buf, TypeContent, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(r.Obj))
		b = binary.AppendUvarint(b, uint64(r.Off))
		b = binary.AppendUvarint(b, uint64(r.Len))
		b = binary.AppendUvarint(b, uint64(r.Enc))
		switch r.Enc {
		case EncRaw, EncZstd:
			b = AppendString(b, data)
		case EncClone:
			b = binary.AppendUvarint(b, uint64(r.Blob))
		}
		return b
	})
}

// decoder reads the payload of a record.
type decoder struct{ Decoder }

func newDecoder(p []byte) decoder { return decoder{NewDecoder(p)} }

func (d *decoder) obj() ObjID { return ObjID(d.Uint(MaxObjects)) }

// someObj is an object number that is not 0.
func (d *decoder) someObj() ObjID {
	o := d.obj()
	if o == NoObj {
		d.Fail("object number 0")
	}
	return o
}

func (d *decoder) name() string {
	s := string(d.Bytes())
	if d.Err() == nil {
		d.check(s)
	}
	return s
}

// check makes sure that s is a name.
func (d *decoder) check(s string) {
	if err := hostfs.CheckName(s); err != nil {
		d.Fail(err.Error())
	}
}

// DecodeObject decodes the payload of a [TypeObject], as [ScanJournal] gives it.
func DecodeObject(p []byte) (Object, error) {
	d := newDecoder(p)
	var r Object
	r.Obj = d.someObj()
	flags := d.Uint(objFlagCreated | objFlagRetained)
	r.Created = flags&objFlagCreated != 0
	r.ID.Dev, r.ID.Ino = d.Uint(math.MaxUint64), d.Uint(math.MaxUint64)
	r.Parent = d.obj()
	if name := d.Bytes(); r.Parent != NoObj {
		r.Name = string(name)
		d.check(r.Name)
	} else if len(name) != 0 {
		d.Fail("name without parent")
	}
	if flags&objFlagRetained != 0 {
		if r.RetainedSeq = d.Uint(math.MaxInt64); r.RetainedSeq == 0 {
			d.Fail("retained by step 0")
		}
		r.RetainedObj = d.someObj()
	}
	if !r.Created {
		m := &r.Meta
		m.Mode = uint32(d.Uint(0o177777))
		m.UID, m.GID = uint32(d.Uint(math.MaxUint32)), uint32(d.Uint(math.MaxUint32))
		m.Rdev = d.Uint(math.MaxUint64)
		m.Size, m.Mtime = d.Int(), d.Int()
		m.Nlink = d.Uint(math.MaxUint64)
		m.Target = string(d.Bytes())
		if m.Size < 0 || len(m.Target) > 1<<16 {
			d.Fail("bad metadata")
		}
	}
	return r, d.End()
}

func decodeXattrs(p []byte) (Xattrs, error) {
	d := newDecoder(p)
	r := Xattrs{Obj: d.someObj()}
	n := d.Uint(uint64(len(p)) / 2)
	for i := uint64(0); i < n && d.Err() == nil; i++ {
		x := hostfs.Xattr{Name: string(d.Bytes()), Value: append([]byte(nil), d.Bytes()...)}
		if x.Name == "" || len(x.Name) > 255 || len(x.Value) > hostfs.XattrMax {
			d.Fail("bad attribute")
		}
		r.Xattrs = append(r.Xattrs, x)
	}
	return r, d.End()
}

// DecodeBinding decodes the payload of a [TypeBinding], as [ScanJournal] gives it.
func DecodeBinding(p []byte) (Binding, error) {
	d := newDecoder(p)
	r := Binding{Dir: d.someObj(), Name: d.name(), Old: d.obj()}
	return r, d.End()
}

func decodeUnbind(p []byte) (dir ObjID, name string, err error) {
	d := newDecoder(p)
	dir, name = d.someObj(), d.name()
	return dir, name, d.End()
}

// DecodeObj decodes the payload of a record that only names an object.
func DecodeObj(p []byte) (ObjID, error) {
	d := newDecoder(p)
	o := d.someObj()
	return o, d.End()
}

// decodeContent decodes a record whose payload starts at byte base of the
// journal.
func decodeContent(p []byte, base int64) (Content, error) {
	d := newDecoder(p)
	r := Content{Obj: d.someObj()}
	r.Off, r.Len = int64(d.Uint(math.MaxInt64)), int64(d.Uint(math.MaxInt64))
	r.Enc = Encoding(d.Uint(255))
	if r.Len <= 0 || r.Off > math.MaxInt64-r.Len {
		d.Fail("bad range")
	}
	switch r.Enc {
	case EncRaw, EncZstd:
		s := d.Bytes()
		r.dataLen = int64(len(s))
		r.dataOff = base + int64(d.Off()) - r.dataLen
		if r.Enc == EncRaw && r.dataLen != r.Len {
			d.Fail("data and range differ in length")
		}
		if r.Len > MaxRecord {
			d.Fail("inline range too long")
		}
	case EncHole:
	case EncClone:
		if r.Blob = uint32(d.Uint(math.MaxUint32)); r.Blob == 0 {
			d.Fail("content blob 0")
		}
	default:
		d.Fail("unknown encoding")
	}
	return r, d.End()
}
