package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// lineReader reads lines of at most MaxLine bytes.
type lineReader struct {
	r    *bufio.Reader
	line []byte
}

// errLineTooLong is returned for a line above MaxLine, which was skipped.
var errLineTooLong = errors.New("stdio: line too long")

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next line without its end, valid until the next call. Of a
// line that is too long the beginning is returned, with errLineTooLong, and the
// rest is skipped without being kept. A last line without an end is a line.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	tooLong := false
	for {
		piece, err := l.r.ReadSlice('\n')
		if !tooLong && len(l.line)+len(bytes.TrimRight(piece, "\r\n")) > MaxLine {
			tooLong = true
			l.line = l.line[:min(len(l.line), 4<<10)]
		}
		if !tooLong {
			if len(l.line) == 0 && err == nil {
				return bytes.TrimRight(piece, "\r\n"), nil // the usual case, not copied
			}
			l.line = append(l.line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(l.line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case tooLong:
			begin := bytes.Clone(l.line)
			l.line = nil // a buffer of MaxLine is not kept for short lines
			return begin, errLineTooLong
		}
		return bytes.TrimRight(l.line, "\r\n"), nil
	}
}

// findRequestID looks for the request_id in the beginning of a line.
func findRequestID(begin []byte) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(begin))
	depth := 0
	for name := true; ; {
		t, err := d.Token()
		if err != nil {
			return "", false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
			name = true
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			name = true
			continue
		}
		if depth == 1 && name && t == "request_id" {
			id, err := d.Token()
			s, ok := id.(string)
			return s, err == nil && ok && s != "" && len(s) <= MaxRequestID
		}
		if depth == 1 {
			name = !name
		}
	}
}
