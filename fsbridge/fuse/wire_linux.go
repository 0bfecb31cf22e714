package fuse

import (
	"encoding/binary"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// notification starts a message to the kernel that answers no request: the
// header has the code in place of the error and no request's number.
func notification(code int32, body int) []byte {
	b := make([]byte, 16, 16+body)
	binary.NativeEndian.PutUint32(b, uint32(16+body))
	binary.NativeEndian.PutUint32(b[4:], uint32(code))
	return b
}

// word appends a 64-bit number as this machine writes it.
func word(b []byte, v uint64) []byte { return binary.NativeEndian.AppendUint64(b, v) }

// The codes of notifications (enum fuse_notify_code).
const (
	notifyInvalInode = 2
	notifyInvalEntry = 3
	notifyIncEpoch   = 8
)

// notifyInode makes the kernel write back and drop all pages of a node, and
// its attributes. It waits for the write-back.
func (s *Server) notifyInode(id uint64) error {
	if id == 0 {
		return nil
	}
	return s.write(outdatedInode(id))
}

func outdatedInode(id uint64) []byte {
	b := notification(notifyInvalInode, 24)
	b = word(b, id)
	b = word(b, 0)
	return word(b, ^uint64(0)) // length -1: to the end
}

// notifyEntry makes the kernel look a name up again. It waits while an
// operation in that directory is served: see apart, which gives fd.
func notifyEntry(fd int, dir uint64, name string) error {
	if dir == 0 {
		return nil
	}
	b := notification(notifyInvalEntry, 16+len(name)+1)
	b = word(b, dir)
	b = word(b, uint64(len(name)))
	b = append(b, name...)
	return send(fd, append(b, 0))
}

// incEpoch makes the kernel look up every name again, when it is next used.
func (s *Server) incEpoch() error {
	if s.noEpoch.Load() {
		return errors.ErrUnsupported
	}
	err := s.write(notification(notifyIncEpoch, 0))
	if errors.Is(err, syscall.EINVAL) {
		s.noEpoch.Store(true)
		return errors.ErrUnsupported
	}
	return err
}

// write sends a notification. That the kernel does not know the inode or the
// entry is as good as having told it. One that waits for a held operation does not
// keep others from being sent, as [os.File.Write] would.
func (s *Server) write(b []byte) error {
	conn, err := s.dev.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := conn.Control(func(fd uintptr) { err = send(int(fd), b) }); cerr != nil {
		return cerr
	}
	return err
}

// send is write on a descriptor; a negative one is of a closed server.
func send(fd int, b []byte) error {
	if fd < 0 {
		return nil
	}
	var err error = syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		_, err = unix.Write(fd, b)
	}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return nil
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENOTCONN):
		return nil // unmounted: there is no cache any more
	}
	return err
}
