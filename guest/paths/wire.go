package paths

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/codeagent/sandbox/guest/control"
)

// MaxFrame is how many bytes a frame has at most, without the five that begin it. DataFrame is how many bytes of a file one carries.
const (
	MaxFrame  = 256 << 10
	DataFrame = 128 << 10
)

// AliveEvery is how often the program says that it works, while it does. One that says nothing was stopped, by whoever else runs inside.
const AliveEvery = 5 * time.Second

// The kinds of frames.
const (
	FrameRequest = 'R'
	FrameGo      = 'G'
	FrameData    = 'D'
	FrameEnd     = 'E'
	FrameReady   = 'I'
	FrameList    = 'L'
	FrameEvents  = 'W'
	FrameTake    = 'T'
	FrameAlive   = 'A'
	FrameDone    = 'F'
)

// ErrWire is what is wrong with what the other side has sent.
var ErrWire = errors.New("paths: malformed frame")

// frameHead is how many bytes begin a frame.
const frameHead = 5

// Reader reads frames. It is used by one goroutine.
type Reader struct {
	in   io.Reader
	head [frameHead]byte
	buf  []byte
}

// NewReader makes one.
func NewReader(in io.Reader) *Reader { return &Reader{in: in} }

// Next returns the next frame; its payload is valid until the next call. The error is io.EOF at the end between two frames, io.ErrUnexpectedEOF in one, and wraps [ErrWire] if a frame is too long.
func (r *Reader) Next() (kind byte, payload []byte, err error) {
	if _, err := io.ReadFull(r.in, r.head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(r.head[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrWire, n)
	}
	if int(n) > cap(r.buf) {
		r.buf = make([]byte, max(int(n), 4<<10))
	}
	if _, err := io.ReadFull(r.in, r.buf[:n]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return r.head[0], r.buf[:n], nil
}

// Write writes a frame, in one piece. The payload has at most [MaxFrame] bytes.
func Write(out io.Writer, kind byte, payload []byte) error {
	frame := make([]byte, frameHead, frameHead+len(payload))
	_, err := out.Write(append(begun(frame, kind, len(payload)), payload...))
	return err
}

// begun puts the beginning of a frame at the front of a buffer.
func begun(buf []byte, kind byte, n int) []byte {
	buf[0] = kind
	binary.BigEndian.PutUint32(buf[1:], uint32(n))
	return buf
}

// WriteJSON writes a frame with a value.
func WriteJSON(out io.Writer, kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > MaxFrame {
		return fmt.Errorf("%w: %d bytes", ErrWire, len(text))
	}
	return Write(out, kind, text)
}

// Copy sends what in gives as data, until its end, which it does not send. It returns how many bytes that were. stop is asked before each frame; its error ends the copy.
func Copy(out io.Writer, in io.Reader, stop func() error) (n int64, err error) {
	buf := make([]byte, frameHead+DataFrame)
	for {
		if err := stop(); err != nil {
			return n, err
		}
		k, err := in.Read(buf[frameHead:])
		if k > 0 {
			if _, err := out.Write(begun(buf, FrameData, k)[:frameHead+k]); err != nil {
				return n, err
			}
			n += int64(k)
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Text is a name or a path, which need not be UTF-8.
type Text = control.Text

// The operations.
const (
	OpStat   = "stat"
	OpList   = "list"
	OpRead   = "read"
	OpMkdir  = "mkdir"
	OpMove   = "move"
	OpRemove = "remove"
	OpWrite  = "write"
	OpWatch  = "watch"
)

// Request is what the host asks for. Paths are absolute and clean.
type Request struct {
	Op   string `json:"op"`
	Path Text   `json:"path"`
	To   Text   `json:"to,omitempty"` // move
	// list: as deep as this, 1 for the entries alone, and so many entries.
	Depth int `json:"depth,omitempty"`
	Limit int `json:"limit,omitempty"`
	// read: from there, and so many bytes; 0: all.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// mkdir, write: of what is new; the umask is taken from it.
	Mode uint32 `json:"mode,omitempty"`
	// remove, watch: also what is below.
	Recursive bool `json:"recursive,omitempty"`
	// move, write: nothing may be there.
	New bool `json:"new,omitempty"`
	// stat: what a symlink at the end leads to.
	Follow bool `json:"follow,omitempty"`
	// read, write: the file itself is lent to the host if it lies on this device (as [DeviceOf] has it); 0: it is not.
	Lend uint64 `json:"lend,omitempty"`
}

// Extent is how many bytes a read is to give of a file that has size bytes. Files that say that they have none, as those of the proc file system, are read to their end: then all is true. What is written to a file after it was opened is not
// waited for.
func (r *Request) Extent(size int64) (n int64, all bool) {
	if size == 0 && r.Length == 0 {
		return 0, true
	}
	if size == 0 {
		return r.Length, false
	}
	n = max(0, size-r.Offset)
	if r.Length > 0 {
		n = min(n, r.Length)
	}
	return n, false
}

// Info describes a file.
type Info struct {
	Path    Text   `json:"path,omitempty"` // of a list: relative
	Type    string `json:"type"`           // file, directory, symlink, other
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"` // the last 12 bits
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Owner   Text   `json:"owner,omitempty"`
	Group   Text   `json:"group,omitempty"`
	MTimeNS int64  `json:"mtime_ns"` // since 1970
	Target  Text   `json:"target,omitempty"`
	// TargetType is the type of what a symlink leads to; empty: nothing.
	TargetType string `json:"target_type,omitempty"`
}

// Reply is what there is to say before something is changed or read, and at the end.
type Reply struct {
	// Real and RealTo are where the paths lead, without symlinks (but for the last name, where that is meant itself).
	Real   Text `json:"real,omitempty"`
	RealTo Text `json:"real_to,omitempty"`
	// Info is of the file as it is, or has become; nil: there is none.
	Info      *Info `json:"info,omitempty"`
	Existed   bool  `json:"existed,omitempty"`
	Truncated bool  `json:"truncated,omitempty"`
	// Lent: with this comes a descriptor of the file, to be read, or to be filled.
	Lent bool `json:"lent,omitempty"`
	// Errno is the name of the error that ended it, as "ENOENT"; Error says more, for people. Regular: it is no regular file.
	Errno     string `json:"errno,omitempty"`
	Error     Text   `json:"error,omitempty"`
	Irregular bool   `json:"irregular,omitempty"`
}

// Event is something that happened to what is watched.
type Event struct {
	Type string `json:"type"` // create, write, remove, rename, chmod, overflow
	Path Text   `json:"path,omitempty"`
}

// Parse decodes a payload; the error wraps [ErrWire].
func Parse[T any](payload []byte) (v T, err error) {
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, fmt.Errorf("%w: %v", ErrWire, err)
	}
	return v, nil
}
