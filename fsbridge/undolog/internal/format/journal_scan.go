package format

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// TornError is what Scan returns for a tail that is cut off or
// damaged. offset is where it begins.
type TornError struct {
	offset int64
	reason string
}

func (e *TornError) Error() string {
	return fmt.Sprintf("undolog: journal damaged at byte %d: %s", e.offset, e.reason)
}

// EndsAt says that the journal had size bytes when it was complete: if it has fewer now, it is torn.
func (s *RecordSet) EndsAt(size int64) {
	if s.Torn == nil && s.Size < size {
		s.Torn = &TornError{s.Size, fmt.Sprintf("it ends there, and had %d bytes", size)}
	}
}

// ScanJournal reads the records behind fd in order and calls f with each
// record's type, payload (valid only during the call) and the payload's
// offset. A damaged or torn record ends the scan with a *TornError; an error
// of f ends it with that error.
func ScanJournal(fd int, f func(t RecordType, payload []byte, off int64) error) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if !st.IsRegular() {
		return fmt.Errorf("undolog: journal is not a regular file")
	}
	s := scanner{fd: fd, size: st.Size, buf: make([]byte, 256<<10)}
	head, err := s.next(len(JournalMagic))
	if err != nil {
		return err
	}
	if !bytes.Equal(head, []byte(JournalMagic)) {
		return &TornError{0, "not a journal"}
	}
	for s.off < s.size {
		start := s.off
		head, err := s.next(RecordHeaderSize)
		if err != nil {
			return torn(err, start)
		}
		n, sum := RecordHeader(head)
		if n == 0 && sum == 0 {
			return s.zeros(start)
		}
		if n == 0 || n > MaxRecord {
			return &TornError{start, "impossible record length"}
		}
		body, err := s.next(int(n))
		if err != nil {
			return torn(err, start)
		}
		if Sum(body) != sum {
			return &TornError{start, "wrong checksum"}
		}
		if err := f(RecordType(body[0]), body[1:], start+RecordHeaderSize+1); err != nil {
			return err
		}
	}
	return nil
}

func torn(err error, start int64) error {
	var t *TornError
	if errors.As(err, &t) {
		t.offset = start
	}
	return err
}

// scanner hands out consecutive pieces of a file through one buffer,
// which grows only as far as the file really goes.
type scanner struct {
	fd     int
	size   int64
	off    int64 // of the next byte handed out
	buf    []byte
	lo, hi int // unread bytes of buf
}

// maxRoom is the most room that a journal can have: three pieces, and what is before their pages.
const maxRoom = 4 * roomBytes

// zeros makes sure that there is nothing but zeros any more: room that was made
// for records (see Writer.store). They began at start. Holes are not read: a file may claim to have any length.
func (s *scanner) zeros(start int64) error {
	off := start // the header, too, is nothing but zeros
	for read := int64(0); ; {
		from, to, err := hostfs.NextData(s.fd, off, s.size)
		if err != nil || from >= to {
			return err
		}
		if read += to - from; read > maxRoom {
			return &TornError{start, "too much room"}
		}
		for off = from; off < to; {
			p := s.buf[:min(to-off, int64(len(s.buf)))]
			n, err := hostfs.PreadFull(s.fd, p, off)
			if err != nil {
				return err
			}
			if n == 0 {
				return nil
			}
			for _, c := range p[:n] {
				if c != 0 {
					return &TornError{start, "impossible record length"}
				}
			}
			off += int64(n)
		}
	}
}

func (s *scanner) next(n int) ([]byte, error) {
	if int64(n) > s.size-s.off {
		return nil, &TornError{s.off, "file ends inside a record"}
	}
	if s.hi-s.lo < n {
		if n > len(s.buf) {
			grown := make([]byte, n+n/2)
			s.hi = copy(grown, s.buf[s.lo:s.hi])
			s.buf = grown
		} else {
			s.hi = copy(s.buf, s.buf[s.lo:s.hi])
		}
		s.lo = 0
		m, err := hostfs.PreadFull(s.fd, s.buf[s.hi:], s.off+int64(s.hi))
		if err != nil {
			return nil, err
		}
		s.hi += m
		if s.hi < n {
			return nil, &TornError{s.off, "file ends inside a record"}
		}
	}
	p := s.buf[s.lo : s.lo+n]
	s.lo += n
	s.off += int64(n)
	return p, nil
}
