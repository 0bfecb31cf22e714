package network

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
)

// Cable carries ethernet frames between a guest and its network. Take is called
// by one goroutine, Put and Flush by another; Close ends both.
type Cable interface {
	// Take reads the guest's next frame and returns its length. 0: it did not fit.
	Take(frame []byte) (int, error)
	// Put sends the guest a frame that lies in these parts. It may be kept until Flush.
	Put(parts [][]byte) error
	Flush() error
	Close() error
}

// LocalCable is a [Cable] to a device of this machine's kernel. TCP and UDP checksums are
// left out in both directions: nothing between the two ends damages a frame.
type LocalCable interface {
	Cable
	Local()
}

// lengthSize is the size of the length before each frame of a [stream].
const lengthSize = 4

// stream is a cable of QEMU's.
type stream struct {
	net.Conn
	in    *bufio.Reader
	batch []byte
}

func newStream(c net.Conn) *stream { return &stream{Conn: c, in: bufio.NewReaderSize(c, 256<<10)} }

// Take implements [Cable].
func (s *stream) Take(frame []byte) (int, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(s.in, length[:]); err != nil {
		return 0, err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > int64(len(frame)) {
		_, err := io.CopyN(io.Discard, s.in, size)
		return 0, err
	}
	return io.ReadFull(s.in, frame[:size])
}

// Put implements [Cable].
func (s *stream) Put(parts [][]byte) error {
	at := len(s.batch)
	s.batch = append(s.batch, make([]byte, lengthSize)...)
	for _, p := range parts {
		s.batch = append(s.batch, p...)
	}
	binary.BigEndian.PutUint32(s.batch[at:], uint32(len(s.batch)-at-lengthSize))
	return nil
}

// Flush implements [Cable].
func (s *stream) Flush() error {
	_, err := s.Write(s.batch)
	s.batch = s.batch[:0]
	return err
}
