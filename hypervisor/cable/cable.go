package cable

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/codeagent/sandbox/guest/control"
)

const (
	nic          = 1
	lengthBytes  = 4 // before each frame
	headerBytes  = 14
	frameBytes   = control.CableMTU + headerBytes
	bufferBytes  = 4 << 20   // of a stream, in each direction
	queueFrames  = 512       // that wait for QEMU to take them
	batchBytes   = 256 << 10 // about what is written at once
	longestPause = 5 * time.Second
	hostMAC      = tcpip.LinkAddress("\x52\x55\x0a\x09\x50\x01")
)

// Cable is the host's end of a machine's cable. Methods are safe for concurrent
// use.
type Cable struct {
	conn    net.Conn
	log     *slog.Logger
	stack   *stack.Stack
	link    *channel.Endpoint
	streams []*Stream

	ctx    context.Context // ends with the cable
	cancel context.CancelFunc
	done   chan struct{}
}

// New serves the guest at the other end of conn, which it takes over, also on
// error, until the cable is cut or Close. There are so many streams; log may be nil.
func New(conn net.Conn, streams int, log *slog.Logger) (*Cable, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Cable{
		conn: conn, log: log, done: make(chan struct{}),
		link: channel.New(queueFrames, frameBytes, hostMAC),
		stack: stack.New(stack.Options{
			NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol},
			TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
		}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.configure(streams); err != nil {
		c.end()
		return nil, fmt.Errorf("cable: %w", err)
	}
	go c.run()
	return c, nil
}

func (c *Cable) configure(streams int) error {
	sack := tcpip.TCPSACKEnabled(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: bufferBytes, Max: bufferBytes}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: bufferBytes, Max: bufferBytes}
	retries := tcpip.TCPMaxRetriesOption(math.MaxInt64)
	pause := tcpip.TCPMaxRTOOption(longestPause)
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &receive, &send, &retries, &pause} {
		if err := c.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return stackError("option", err)
		}
	}
	if err := c.stack.CreateNIC(nic, ethernet.New(c.link)); err != nil {
		return stackError("interface", err)
	}
	host, err := netip.ParsePrefix(control.CableHost)
	if err != nil {
		return err
	}
	at := tcpip.AddressWithPrefix{Address: tcpip.AddrFromSlice(host.Addr().AsSlice()), PrefixLen: host.Bits()}
	if err := c.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: at}, stack.AddressProperties{}); err != nil {
		return stackError("address", err)
	}
	c.stack.SetRouteTable([]tcpip.Route{{Destination: at.Subnet(), NIC: nic}})
	for i := range streams {
		l, err := gonet.ListenTCP(c.stack, tcpip.FullAddress{NIC: nic, Addr: at.Address, Port: uint16(control.CablePort + i)}, ipv4.ProtocolNumber)
		if err != nil {
			return err
		}
		s := &Stream{cable: c, listener: l, accepted: make(chan struct{})}
		c.streams = append(c.streams, s)
		go s.accept()
	}
	return nil
}

func stackError(what string, err tcpip.Error) error {
	return errors.New(what + ": " + strings.ToLower(err.String()))
}

// Stream returns the i-th stream. It may be used before the guest has connected.
func (c *Cable) Stream(i int) *Stream { return c.streams[i] }

// Done is closed when the cable is cut and nothing is left of it.
func (c *Cable) Done() <-chan struct{} { return c.done }

// Close cuts the cable and waits for its end.
func (c *Cable) Close() error {
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// run carries frames until the cable is cut.
func (c *Cable) run() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := c.write(); err != nil {
			_ = c.conn.Close() // so that the reader ends, too
		}
	}()
	if err := c.read(); err != nil {
		c.log.Warn("a guest's cable broke", "err", err)
	}
	c.cancel()
	_ = c.conn.Close()
	<-written
	c.end()
}

// end takes everything down: what reads a stream finds its end.
func (c *Cable) end() {
	c.cancel()
	_ = c.conn.Close()
	for _, s := range c.streams {
		_ = s.Close()
	}
	for _, e := range c.stack.RegisteredEndpoints() {
		e.Abort()
	}
	c.stack.Destroy()
	c.link.Close()
	close(c.done)
}

// write sends the stack's frames.
func (c *Cable) write() error {
	var batch []byte
	for {
		pkt := c.link.ReadContext(c.ctx)
		if pkt == nil {
			return nil
		}
		batch = batch[:0]
		for pkt != nil {
			batch = binary.BigEndian.AppendUint32(batch, uint32(pkt.Size()))
			for _, part := range pkt.AsSlices() {
				batch = append(batch, part...)
			}
			pkt.DecRef()
			if len(batch) >= batchBytes {
				break
			}
			pkt = c.link.Read()
		}
		if _, err := c.conn.Write(batch); err != nil {
			return err
		}
	}
}

// read hands the guest's frames to the stack. A panic of the stack's is an error:
// the guest loses its folders, the session goes on.
func (c *Cable) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cable: the stack failed on a frame: %v\n%s", p, debug.Stack())
		}
	}()
	r := bufio.NewReaderSize(c.conn, batchBytes)
	for {
		var length [lengthBytes]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return nil // QEMU is gone, or we closed
		}
		size := int64(binary.BigEndian.Uint32(length[:]))
		if size < headerBytes || size > frameBytes {
			if _, err := io.CopyN(io.Discard, r, size); err != nil {
				return nil
			}
			continue
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(r, frame); err != nil {
			return nil
		}
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
		c.link.InjectInbound(0, pkt)
		pkt.DecRef()
	}
}

// Stream is one byte stream, of which the guest's end connects once. Read and
// Write wait for that. Methods are safe for concurrent use.
type Stream struct {
	cable    *Cable
	listener *gonet.TCPListener
	accepted chan struct{} // closed when conn is what it will be
	conn     net.Conn      // nil: nobody will connect any more
}

var _ io.ReadWriteCloser = (*Stream)(nil)

// accept takes the first connection and no other.
func (s *Stream) accept() {
	defer close(s.accepted)
	conn, err := s.listener.Accept()
	s.listener.Shutdown()
	_ = s.listener.Close()
	if err == nil {
		s.conn = conn
	}
}

// Read implements [io.Reader]. The end of the cable is the stream's end.
func (s *Stream) Read(b []byte) (int, error) {
	if <-s.accepted; s.conn == nil {
		return 0, io.EOF
	}
	n, err := s.conn.Read(b)
	if err != nil && s.cable.ctx.Err() != nil {
		err = io.EOF
	}
	return n, err
}

// Write implements [io.Writer].
func (s *Stream) Write(b []byte) (int, error) {
	if <-s.accepted; s.conn == nil {
		return 0, io.ErrClosedPipe
	}
	return s.conn.Write(b)
}

// Close implements [io.Closer]. Who reads or writes is let go.
func (s *Stream) Close() error {
	s.listener.Shutdown()
	if <-s.accepted; s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
