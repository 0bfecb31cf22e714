package frontend

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync/atomic"
)

// ErrLineTooLong is returned for a line above the limit, which is not kept.
var ErrLineTooLong = errors.New("frontend: line too long")

// maxKept is the largest buffer that is kept for the next line, in bytes.
const maxKept = 4 << 20

// Lines reads what somebody sends line by line, and never keeps more of it than
// the limit. It belongs to one goroutine.
type Lines struct {
	r     *bufio.Reader
	limit int
	line  []byte
	long  []byte // the beginning of a line that is too long, with what was read last
	read  atomic.Int64
}

// NewLines reads lines of at most limit bytes, without their ends, from r.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Next returns the next line without its end (LF or CR LF), valid until the next
// call. A last line without an end is a line. The error is [ErrLineTooLong] as
// soon as a line is above the limit: call Skip then. Any other error is the
// reader's.
func (l *Lines) Next() ([]byte, error) {
	if cap(l.line) > maxKept {
		l.line = nil
	}
	l.line = l.line[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		l.read.Add(int64(len(piece)))
		switch {
		case len(l.line)+len(bytes.TrimRight(piece, "\r\n")) > l.limit:
			l.long, l.line = append(l.line, piece...), nil // not kept for short lines
			return nil, ErrLineTooLong
		case len(l.line) == 0 && err == nil:
			return bytes.TrimRight(piece, "\r\n"), nil // the usual case, not copied
		}
		l.line = append(l.line, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(l.line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		}
		return bytes.TrimRight(l.line, "\r\n"), nil
	}
}

// Skip reads to the end of the line that was too long, keeps nothing of it, and
// returns the value, as JSON, of its top-level field of that name: by it the
// line can be answered. It is nil if there is none.
func (l *Lines) Skip(field string) []byte {
	f := fieldFinder{key: `"` + field + `"`}
	piece := l.long
	l.long = nil
	for {
		f.feed(piece)
		if len(piece) == 0 || piece[len(piece)-1] == '\n' {
			return f.found // an error comes again with the next line
		}
		piece, _ = l.r.ReadSlice('\n')
		l.read.Add(int64(len(piece)))
	}
}

// Pass writes the line that was too long to w, with its end, and keeps nothing of it. The error is of w; one of the reader's comes again with the next line.
func (l *Lines) Pass(w io.Writer) error {
	piece := l.long
	l.long = nil
	for {
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if len(piece) == 0 || piece[len(piece)-1] == '\n' {
			return nil
		}
		piece, _ = l.r.ReadSlice('\n')
		l.read.Add(int64(len(piece)))
	}
}

// Read returns how many bytes were read. It may be called from any goroutine.
func (l *Lines) Read() int64 { return l.read.Load() }

// Blank reports whether a line holds nothing but white space.
func Blank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }

// maxFound is the longest value that a fieldFinder keeps, in bytes.
const maxFound = 2 << 10

// fieldFinder finds the value of a top-level field in an object that is thrown
// away while it is read. It keeps a few bytes only. The last one counts.
type fieldFinder struct {
	key      string // quoted
	depth    int
	inString bool
	escaped  bool
	value    bool   // after a colon at the top level
	word     []byte // the current string or scalar at the top level, cut off
	name     string
	found    []byte
}

func (f *fieldFinder) feed(b []byte) {
	for _, c := range b {
		f.next(c)
	}
}

func (f *fieldFinder) next(c byte) {
	if f.inString {
		f.keep(c)
		switch {
		case f.escaped:
			f.escaped = false
		case c == '\\':
			f.escaped = true
		case c == '"':
			f.inString = false
		}
		return
	}
	switch c {
	case '"':
		f.inString = true
		f.word = f.word[:0]
		f.keep(c)
	case '{', '[':
		f.depth++
		f.word = f.word[:0]
	case '}', ']':
		f.member()
		f.depth--
	case ',':
		f.member()
	case ':':
		if f.depth == 1 {
			f.name, f.value = string(f.word), true
			f.word = f.word[:0]
		}
	case ' ', '\t', '\r', '\n':
	default:
		f.keep(c)
	}
}

func (f *fieldFinder) keep(c byte) {
	if f.depth == 1 && len(f.word) <= maxFound {
		f.word = append(f.word, c)
	}
}

// member is the end of a field.
func (f *fieldFinder) member() {
	if f.depth == 1 && f.value {
		if f.name == f.key {
			f.found = bytes.Clone(f.word)
		}
		f.value = false
		f.word = f.word[:0]
	}
}
