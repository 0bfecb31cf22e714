package virtiofs

import (
	"encoding/binary"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// fuzzServer is a server of a folder with a few files, without a socket.
func fuzzServer(f *testing.F) *Server {
	f.Helper()
	dir := f.TempDir()
	check1(f, os.WriteFile(dir+"/a", []byte("content"), 0o644))
	check1(f, os.Mkdir(dir+"/d", 0o755))
	root, err := hostfs.OpenRoot(dir)
	check1(f, err)
	s, err := newServer(Options{Tree: vfs.Options{Root: root}})
	check1(f, err)
	f.Cleanup(func() { root.Close() })
	return s
}

// fuzzMemory is the guest's memory of FuzzVirtqueue: small, so that random
// addresses hit.
const fuzzMemory = 64 << 10

// FuzzVirtqueue puts random bytes where the rings and descriptors are. Whatever
// they are, nothing outside the memory is touched, and what is taken keeps to
// the limits.
func FuzzVirtqueue(f *testing.F) {
	s := fuzzServer(f)
	valid := make([]byte, 1024+12) // used is beyond, and all zero
	putDesc(valid, 600, 40, descNext, 1)
	putDesc(valid[16:], 700, 64, descWrite, 0)
	putDesc(valid[32:], 512, 32, descIndirect, 0)
	putDesc(valid[512:], 600, 40, descNext, 1)
	putDesc(valid[528:], 700, 16, descWrite, 0)
	binary.LittleEndian.PutUint16(valid[1024+2:], 2)
	binary.LittleEndian.PutUint16(valid[1024+6:], 2)
	f.Add(valid, uint8(4), uint16(0), true)
	f.Add(valid, uint8(0), uint16(65535), false)
	loop := slices.Clone(valid)
	putDesc(loop[16:], 700, 64, descNext, 0)
	f.Add(loop, uint8(5), uint16(1), true)
	fd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC)
	check1(f, err)
	defer unix.Close(fd)
	check1(f, unix.Ftruncate(fd, fuzzMemory))
	f.Fuzz(func(t *testing.T, content []byte, logSize uint8, base uint16, eventIdx bool) {
		c := &conn{server: s, eventIdx: eventIdx}
		check1(t, c.memory.add(regionSpec{guest: 0, size: fuzzMemory, user: userBase}, fd))
		defer c.memory.clear()
		mem := c.memory.regions[0].data
		clear(mem)
		copy(mem, content)
		kick, err := unix.Eventfd(0, unix.EFD_NONBLOCK)
		check1(t, err)
		q := &queue{num: 1 << (logSize % 7), enabled: true, base: base, addr: ringAddr{desc: userBase, avail: userBase + 1024, used: userBase + 2048}}
		q.kick, err = newEventFD(kick)
		check1(t, err)
		check1(t, q.start(c))
		defer q.stop()
		for i := range 3 * q.num {
			r, err := q.take(c)
			if r == nil || err != nil {
				return
			}
			if r.inLen > maxInBytes || r.outLen > maxOutBytes || len(r.chain.in)+len(r.out) > q.num {
				t.Fatalf("a chain of %d and %d bytes in %d and %d pieces", r.inLen, r.outLen, len(r.chain.in), len(r.out))
			}
			if ok, err := r.fetch(); !ok || err != nil || len(r.in) != r.inLen {
				t.Fatalf("what was checked cannot be read: %v, %v", ok, err)
			}
			list, ok := c.memory.pieces(r.out, min(fuseproto.ReplyBytes, r.outLen), max(0, r.outLen-fuseproto.ReplyBytes))
			for _, b := range list {
				clear(b) // all of it can be written to
			}
			if !ok {
				t.Fatalf("what was checked is not there: %v", r.out)
			}
			r.reply = make([]byte, r.outLen)
			if _, err := r.finish(); err != nil {
				t.Fatalf("what was checked cannot be written: %v", err)
			}
			q.await(c, i%2 == 0)
		}
	})
}

// FuzzVirtioFUSE sends random requests after an INIT. They come to an end, and
// every reply says its own length.
func FuzzVirtioFUSE(f *testing.F) {
	s := fuzzServer(f)
	front := &frontend{t: f}
	for _, b := range [][]byte{
		front.encode(1, root, []byte("a\x00")), front.encode(3, root, make([]byte, 16)), front.encode(14, root, state(2, 0)),
		front.encode(15, root, readBody(1<<32, 0, 100)), front.encode(fuseproto.OpWrite, root, writeBody(1<<32, 0, []byte("x"))),
		front.encode(28, root, readBody(0, 0, 4000)), front.encode(44, root, readBody(0, 0, 4000)),
		front.encode(35, root, append(make([]byte, 16), "n\x00"...)), front.encode(12, root, append(words(root), "a\x00b\x00"...)),
		front.encode(21, root, append(words(4), "user.x\x00abcd"...)), front.encode(6, root, []byte("l\x00a\x00")),
		front.encode(22, root, append(words(100), "user.x\x00"...)), front.encode(fuseproto.OpBatchForget, 0, words(1, 5, 1)),
		front.encode(fuseproto.OpInterrupt, 0, words(1)), front.encode(fuseproto.OpInit, 0, append(state(7, 38), make([]byte, 56)...)),
		front.encode(fuseproto.OpDestroy, 0, nil), front.encode(fuseproto.OpSyncfs, 0, words(0)), front.encode(51, root, append(make([]byte, 16), "/\x00"...)),
	} {
		f.Add(b, uint16(8192))
	}
	c := &conn{server: s, workers: fuseproto.NewPool(fuseproto.PoolOptions{})}
	s.conn = c
	do := func(t testing.TB, in []byte, room int) {
		r := &request{conn: c, chain: chain{inLen: len(in), outLen: room}, in: in, session: s.sessions.Current()}
		if len(in) >= fuseproto.HeaderBytes {
			r.header = fuseproto.DecodeHeader(in)
		}
		reply := s.handle(r)
		if len(reply) > room || len(reply) > 0 && (len(reply) < fuseproto.ReplyBytes || int(binary.LittleEndian.Uint32(reply)) != len(reply)) {
			t.Fatalf("opcode %d: reply of %d bytes says %x, room for %d", r.header.Opcode, len(reply), reply[:min(4, len(reply))], room)
		}
		s.buffers.put(r.buf)
	}
	f.Fuzz(func(t *testing.T, in []byte, room uint16) {
		do(t, front.encode(fuseproto.OpInit, 0, append(state(7, 38), make([]byte, 56)...)), 80)
		do(t, front.encode(1, root, []byte("a\x00")), 144)
		if len(in) >= 4 { // most inputs shall get past the first check
			binary.LittleEndian.PutUint32(in, uint32(len(in)))
		}
		do(t, in, int(room))
	})
}

// FuzzVhostUser is a front-end that says anything: a script of messages, each
// with a kind, a length, and files or none.
func FuzzVhostUser(f *testing.F) {
	s := fuzzServer(f)
	say := func(b []byte, request, files byte, payload []byte) []byte {
		return append(append(slices.Clone(b), request, files, byte(len(payload))), payload...)
	}
	script := say(nil, reqSetProtocolFeatures, 0, words(protoReplyAck|protoMemSlots))
	script = say(script, reqSetFeatures, 0, words(features))
	script = say(script, reqAddMemReg, 1, words(0, 0, fuzzMemory, userBase, 0))
	script = say(script, reqSetVringNum, 0, state(1, 16))
	script = say(script, reqSetVringBase, 0, state(1, 0))
	script = say(script, reqSetVringAddr, 0, words(1, userBase, userBase+2048, userBase+1024, 0))
	script = say(script, reqSetVringKick, 2, words(1))
	script = say(script, reqSetVringCall, 2, words(1))
	script = say(script, reqSetVringEnable, 0, state(1, 1))
	f.Add(say(script, reqGetVringBase, 0, state(1, 0)))
	f.Add(say(script, reqRemMemReg, 0, words(0, 0, fuzzMemory, userBase, 0)))
	f.Add(say(script, reqSetMemTable, 1, words(1, 0, fuzzMemory, userBase, 0)))
	f.Add(say(say(script, reqResetDevice, 0, nil), reqGetConfig, 0, make([]byte, 20)))
	f.Add(say(script, reqSetVringKick, 3, words(1)))
	memfd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC)
	check1(f, err)
	defer unix.Close(memfd)
	check1(f, unix.Ftruncate(memfd, fuzzMemory))
	event, err := unix.Eventfd(1, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	check1(f, err)
	defer unix.Close(event)
	files := [][]int{nil, {memfd}, {event}, {memfd, event, event}}
	f.Fuzz(func(t *testing.T, script []byte) {
		front, back := socketPair(t)
		done := make(chan error, 1)
		go func() { done <- s.serve(back) }()
		go drainConn(front)
		for len(script) >= 3 {
			n := min(int(script[2]), len(script)-3)
			b := make([]byte, wireHeaderBytes)
			binary.LittleEndian.PutUint32(b, uint32(script[0]))
			binary.LittleEndian.PutUint32(b[4:], wireVersion|wireNeedReply)
			binary.LittleEndian.PutUint32(b[8:], uint32(n))
			var oob []byte
			if fds := files[script[1]%4]; fds != nil {
				oob = unix.UnixRights(fds...)
			}
			if _, _, err := front.WriteMsgUnix(append(b, script[3:3+n]...), oob, nil); err != nil {
				break // it hung up
			}
			script = script[3+n:]
		}
		check1(t, front.CloseWrite())
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("the connection does not end")
		}
		front.Close()
	})
}

func drainConn(c *net.UnixConn) {
	for b := make([]byte, 4096); ; {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

func socketPair(t testing.TB) (front, back *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check1(t, err)
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(file)
		file.Close()
		check1(t, err)
		conns[i] = c.(*net.UnixConn)
	}
	return conns[0], conns[1]
}
