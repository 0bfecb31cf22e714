package ninep

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/posixmeta"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func TestMain(m *testing.M) {
	hostfs.ClearUmask()
	os.Exit(m.Run())
}

// lab is a server of a fresh folder.
type lab struct {
	*Server
	t    *testing.T
	host string
	root *hostfs.Root
	conn net.Conn // the client's end
}

func newLab(t *testing.T, configure func(*Options)) *lab {
	t.Helper()
	return newLabOf(t, t.TempDir(), configure)
}

// newLabOf is newLab of a folder that is there.
func newLabOf(t *testing.T, host string, configure func(*Options)) *lab {
	t.Helper()
	root, err := hostfs.OpenRoot(host)
	must(t, err)
	o := Options{}
	o.Tree.Root = root
	o.Tree.Logger = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	if runtime.GOOS == "windows" {
		asPosix(t, &o)
	}
	if configure != nil {
		configure(&o)
	}
	ours, theirs := net.Pipe()
	s, err := Serve(ours, o)
	must(t, err)
	l := &lab{Server: s, t: t, host: host, root: root, conn: theirs}
	t.Cleanup(func() {
		theirs.Close()
		s.Close()
		// Held requests still use the folder.
		waitFor(t, "the last request", func() bool { return s.InFlight() == 0 })
		root.Close()
	})
	return l
}

// asPosix serves the folder as one of a file system that is not POSIX, as the program does on Windows.
func asPosix(t *testing.T, o *Options) {
	t.Helper()
	store, err := posixmeta.Open(filepath.Join(t.TempDir(), "posixmeta.db"), posixmeta.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	o.Tree.Posix = posixmeta.NewOverlay(store, func() (int64, bool) { return 1, true })
}

func (l *lab) path(name string) string { return filepath.Join(l.host, name) }

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor polls, for a state that nothing announces.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// client speaks the protocol message by message, pipelined as one likes.
type client struct {
	t    *testing.T
	conn net.Conn

	writing sync.Mutex
	mu      sync.Mutex
	next    uint16
	calls   map[uint16]*call
	order   []uint16 // of answers
	closed  bool
}

// call is a request that was sent.
type call struct {
	tag  uint16
	typ  uint8
	done chan struct{}
	rtyp uint8
	body []byte // nil if the connection ended
}

// dial makes a session with a root fid 0.
func (l *lab) dial() *client {
	c := l.raw()
	var v tversion
	must(l.t, c.rpc(typTversion, &tversion{1 << 20, version}, &v))
	if v.version != version {
		l.t.Fatalf("version %q", v.version)
	}
	must(l.t, c.rpc(typTattach, &tattach{fid: 0, afid: noFID, uid: noFID}, new(rqid)))
	return c
}

// raw begins without a Tversion.
func (l *lab) raw() *client {
	c := &client{t: l.t, conn: l.conn, calls: make(map[uint16]*call)}
	go c.read()
	return c
}

func (c *client) read() {
	for {
		var head [headerBytes]byte
		_, err := io.ReadFull(c.conn, head[:])
		body := []byte{}
		if err == nil {
			body = make([]byte, binary.LittleEndian.Uint32(head[:])-headerBytes)
			_, err = io.ReadFull(c.conn, body)
		}
		c.mu.Lock()
		if err != nil {
			c.closed = true
			for _, call := range c.calls {
				close(call.done)
			}
			c.calls = nil
			c.mu.Unlock()
			return
		}
		tag := binary.LittleEndian.Uint16(head[5:])
		if call := c.calls[tag]; call != nil {
			delete(c.calls, tag)
			call.rtyp, call.body = head[4], body
			c.order = append(c.order, tag)
			close(call.done)
		} else {
			c.t.Errorf("an answer to nothing: type %d, tag %d", head[4], tag)
		}
		c.mu.Unlock()
	}
}

// start sends a message.
func (c *client) start(typ uint8, m message) *call {
	frame := encode(nil, typ, 0, m)
	return c.send(frame)
}

// send gives a frame a tag and sends it.
func (c *client) send(frame []byte) *call {
	call := &call{typ: frame[4], done: make(chan struct{})}
	c.mu.Lock()
	c.next++
	call.tag = c.next
	if c.closed {
		close(call.done)
	} else {
		c.calls[call.tag] = call
	}
	c.mu.Unlock()
	binary.LittleEndian.PutUint16(frame[5:], call.tag)
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.conn.Write(frame)
	return call
}

// end waits for the answer: an Errno, or into reply.
func (c *client) end(call *call, reply message) error {
	c.t.Helper()
	select {
	case <-call.done:
	case <-time.After(5 * time.Minute):
		c.t.Fatalf("no answer to a message of type %d", call.typ)
	}
	switch {
	case call.body == nil:
		return io.EOF
	case call.rtyp == typRlerror:
		var e rlerror
		must(c.t, decode(call.body, &e))
		return posix.Errno(e.errno)
	case call.rtyp != call.typ+1:
		c.t.Fatalf("type %d answered by %d", call.typ, call.rtyp)
	}
	if err := decode(call.body, reply); err != nil {
		c.t.Fatalf("%T: %v", reply, err)
	}
	return nil
}

func (c *client) rpc(typ uint8, m, reply message) error {
	c.t.Helper()
	return c.end(c.start(typ, m), reply)
}

// walk makes a new fid.
func (c *client) walk(from, to uint32, names ...string) error {
	c.t.Helper()
	var r rwalk
	err := c.rpc(typTwalk, &twalk{from, to, names}, &r)
	if err == nil && len(r.qids) < len(names) {
		return posix.ENOENT
	}
	return err
}

func (c *client) clunk(f uint32) error { return c.rpc(typTclunk, &tfid{f}, new(empty)) }

func (c *client) open(from, to, flags uint32, names ...string) error {
	c.t.Helper()
	if err := c.walk(from, to, names...); err != nil {
		return err
	}
	return c.rpc(typTlopen, &tlopen{to, flags}, new(ropen))
}

func (c *client) write(f uint32, off uint64, data string) error {
	c.t.Helper()
	var r rwrite
	err := c.rpc(typTwrite, &twrite{f, off, []byte(data)}, &r)
	if err == nil && int(r.count) != len(data) {
		return io.ErrShortWrite
	}
	return err
}

func (c *client) readAt(f uint32, off uint64, count uint32) (string, error) {
	c.t.Helper()
	var r rread
	err := c.rpc(typTread, &tread{f, off, count}, &r)
	return string(r.data), err
}

// hooks is an Interceptor: it holds what it is told to and then, if there is a
// log, captures. Like the real one it does not take an interrupt for death, but
// asks.
type hooks struct {
	guard   fsbridge.Guard
	hold    func(op *fsbridge.Op) bool
	arrived chan fsbridge.Kind
	release chan error
	pid     func(pid uint32) (uint32, error)
	log     *undolog.Log

	mu   sync.Mutex
	seen []fsbridge.Kind
}

func newHooks(hold func(op *fsbridge.Op) bool) *hooks {
	return &hooks{hold: hold, arrived: make(chan fsbridge.Kind, 100), release: make(chan error, 100)}
}

func onName(name string) func(op *fsbridge.Op) bool {
	return func(op *fsbridge.Op) bool { return op.Name == name }
}

func (h *hooks) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	if h.hold != nil && h.hold(op) {
		op.Dirs.Pause()
		if err := errors.Join(h.wait(op), op.Dirs.Resume(nil)); err != nil {
			return fsbridge.Ticket{}, err
		}
	}
	about := op.Dir
	if about == nil {
		about = op.Node
	}
	ticket := h.guard.Enter(about.ID.Ino)
	err := op.Validate(ticket.Epoch)
	if err == nil && h.log != nil && !h.log.Protected(ticket.Epoch, op) {
		ticket.Performed, err = h.log.Capture(ticket.Epoch, op)
	}
	if err != nil {
		h.guard.Exit(ticket)
		return fsbridge.Ticket{}, err
	}
	h.mu.Lock()
	h.seen = append(h.seen, op.Kind)
	h.mu.Unlock()
	return ticket, nil
}

func (h *hooks) wait(op *fsbridge.Op) error {
	h.arrived <- op.Kind
	cancel := op.Cancel
	for {
		select {
		case err := <-h.release:
			return err
		case <-cancel:
			cancel = nil
			if _, err := h.pid(op.PID); errors.Is(err, os.ErrProcessDone) {
				return fsbridge.ErrInterrupted
			}
		}
	}
}

func (h *hooks) End(ticket fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	if h.log != nil {
		h.log.Done(ticket.Epoch, op, created, err)
	}
	h.guard.Exit(ticket)
}

// step runs f as one step of the log.
func (h *hooks) step(t *testing.T, f func()) *undolog.Entry {
	t.Helper()
	epoch := func(f func() error) {
		t.Helper()
		h.guard.Drain(func() bool { must(t, f()); return true })
	}
	epoch(func() error {
		return h.log.Begin(h.log.NextID(undolog.TypeCommand), undolog.StepInfo{Type: undolog.TypeCommand, Command: "test"})
	})
	f()
	var entry *undolog.Entry
	epoch(func() (err error) {
		entry, err = h.log.Commit(context.Background(), undolog.StepResult{Status: "completed"})
		return err
	})
	return entry
}

// held makes a lab whose Interceptor holds.
func held(t *testing.T, hold func(op *fsbridge.Op) bool, configure func(*Options)) (*lab, *hooks) {
	h := newHooks(hold)
	l := newLab(t, func(o *Options) {
		o.Tree.Hooks = h
		if configure != nil {
			configure(o)
		}
	})
	h.pid = l.HostPID
	return l, h
}

// panicLog keeps errors, which are panics and lost folders.
type panicLog struct {
	mu  sync.Mutex
	out strings.Builder
}

func (l *panicLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (l *panicLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *panicLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}
