package virtiofs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Requests of vhost-user that are served here.
const (
	reqGetFeatures         = 1
	reqSetFeatures         = 2
	reqSetOwner            = 3
	reqResetOwner          = 4
	reqSetMemTable         = 5
	reqSetVringNum         = 8
	reqSetVringAddr        = 9
	reqSetVringBase        = 10
	reqGetVringBase        = 11
	reqSetVringKick        = 12
	reqSetVringCall        = 13
	reqSetVringErr         = 14
	reqGetProtocolFeatures = 15
	reqSetProtocolFeatures = 16
	reqGetQueueNum         = 17
	reqSetVringEnable      = 18
	reqGetConfig           = 24
	reqResetDevice         = 34
	reqGetMaxMemSlots      = 36
	reqAddMemReg           = 37
	reqRemMemReg           = 38
)

// Feature bits: of virtio, and of vhost-user's own.
const (
	featIndirect = 1 << 28
	featEventIdx = 1 << 29
	featProtocol = 1 << 30
	featVersion1 = 1 << 32

	features = featIndirect | featEventIdx | featProtocol | featVersion1

	protoMQ          = 1 << 0
	protoReplyAck    = 1 << 3
	protoConfig      = 1 << 9
	protoResetDevice = 1 << 13
	protoMemSlots    = 1 << 15

	protocolFeatures = protoMQ | protoReplyAck | protoResetDevice | protoMemSlots
)

const (
	wireVersion     = 1
	wireVersionMask = 3
	wireReply       = 1 << 2
	wireNeedReply   = 1 << 3

	wireHeaderBytes = 12
	maxPayload      = 1024
	maxFDs          = 8
)

// message is one of the front-end's, with the descriptors that came with it.
type message struct {
	request, flags uint32
	payload        []byte
	fds            []int
}

// file takes descriptor i, -1 if there is none.
func (m *message) file(i int) int {
	if i >= len(m.fds) {
		return -1
	}
	fd := m.fds[i]
	m.fds[i] = -1
	return fd
}

// close closes the descriptors that nobody took.
func (m *message) close() {
	for i, fd := range m.fds {
		if fd >= 0 {
			_ = unix.Close(fd)
			m.fds[i] = -1
		}
	}
}

func (m *message) u32(off int) uint32 { return binary.LittleEndian.Uint32(m.payload[off:]) }
func (m *message) u64(off int) uint64 { return binary.LittleEndian.Uint64(m.payload[off:]) }

// readMessage reads the next message; the caller closes it. io.EOF is the end
// of the connection between two messages.
func readMessage(c *net.UnixConn) (m *message, err error) {
	m = &message{}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	var head [wireHeaderBytes]byte
	for got := 0; got < len(head); {
		oob := make([]byte, unix.CmsgSpace(4*maxFDs))
		n, oobn, flags, _, err := c.ReadMsgUnix(head[got:], oob)
		if ferr := m.receive(oob[:oobn], flags); ferr != nil {
			return m, ferr
		}
		if err != nil {
			if errors.Is(err, io.EOF) && got > 0 {
				err = io.ErrUnexpectedEOF
			}
			return m, err
		}
		got += n
	}
	m.request = binary.LittleEndian.Uint32(head[:])
	m.flags = binary.LittleEndian.Uint32(head[4:])
	size := binary.LittleEndian.Uint32(head[8:])
	if m.flags&wireVersionMask != wireVersion || size > maxPayload {
		return m, fmt.Errorf("message %d with flags %#x of %d bytes", m.request, m.flags, size)
	}
	m.payload = make([]byte, size)
	// Descriptors that came with these bytes would be dropped by the kernel.
	if _, err := io.ReadFull(c, m.payload); err != nil {
		return m, fmt.Errorf("message %d: %w", m.request, err)
	}
	return m, nil
}

// receive takes the descriptors of a control message.
func (m *message) receive(oob []byte, flags int) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if fds, ferr := unix.ParseUnixRights(&messages[i]); ferr == nil {
			m.fds = append(m.fds, fds...)
		}
	}
	if err == nil && (flags&unix.MSG_CTRUNC != 0 || len(m.fds) > maxFDs) {
		err = fmt.Errorf("more than %d descriptors in a message", maxFDs)
	}
	return err
}

// writeReply answers a request.
func writeReply(c *net.UnixConn, request uint32, payload []byte) error {
	b := make([]byte, wireHeaderBytes, wireHeaderBytes+len(payload))
	binary.LittleEndian.PutUint32(b, request)
	binary.LittleEndian.PutUint32(b[4:], wireVersion|wireReply)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(payload)))
	_, err := c.Write(append(b, payload...))
	return err
}

func u64Reply(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
