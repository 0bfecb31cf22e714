package virtiofs

import (
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// TestBadChains: what breaks a virtqueue's rules breaks that queue, and nothing
// else; a reset mends it.
func TestBadChains(t *testing.T) {
	const in, out = guestBase + queueMem + ringMem, guestBase + queueMem + ringMem + slotBytes
	type desc struct {
		addr        uint64
		n           uint32
		flags, next uint16
	}
	for name, c := range map[string]struct {
		head  uint16
		descs []desc
		skip  uint16 // added to avail.idx
	}{
		"loop":                        {descs: []desc{{in, 40, descNext, 1}, {in, 40, descNext, 0}}},
		"loop to itself":              {descs: []desc{{in, 40, descNext, 0}}},
		"head beyond the queue":       {head: queueSize, descs: []desc{{in, 40, 0, 0}}},
		"next beyond the queue":       {descs: []desc{{in, 40, descNext, queueSize}}},
		"next far beyond the queue":   {descs: []desc{{in, 40, descNext, 0xffff}}},
		"no bytes":                    {descs: []desc{{in, 40, descNext, 1}, {out, 0, descWrite, 0}}},
		"address of nothing":          {descs: []desc{{1, 40, 0, 0}}},
		"before the memory":           {descs: []desc{{guestBase - 1, 40, 0, 0}}},
		"over the end of the memory":  {descs: []desc{{guestBase + memBytes - 39, 40, 0, 0}}},
		"address wraps around":        {descs: []desc{{^uint64(0) - 10, 40, 0, 0}}},
		"length wraps around":         {descs: []desc{{in, 0xffffffff, 0, 0}}},
		"readable after writable":     {descs: []desc{{out, 64, descWrite | descNext, 1}, {in, 40, 0, 0}}},
		"too large to read":           {descs: []desc{{in, 1 << 20, descNext, 1}, {in, 1 << 20, 0, 0}}},
		"too large to write":          {descs: []desc{{in, 40, descNext, 1}, {guestBase, 16 << 20, descWrite | descNext, 2}, {guestBase, 1 << 20, descWrite, 0}}},
		"indirect of no bytes":        {descs: []desc{{in, 0, descIndirect, 0}}},
		"indirect of odd length":      {descs: []desc{{in, 24, descIndirect, 0}}},
		"indirect too long":           {descs: []desc{{in, 16 * (queueSize + 1), descIndirect, 0}}},
		"indirect huge":               {descs: []desc{{in, 0xfffffff0, descIndirect, 0}}},
		"indirect elsewhere":          {descs: []desc{{64, 16, descIndirect, 0}}},
		"indirect and next":           {descs: []desc{{in, 16, descIndirect | descNext, 1}, {in, 40, 0, 0}}},
		"indirect in indirect":        {descs: []desc{{guestBase + queueMem, 32, descIndirect, 0}}},
		"more available than can be":  {descs: []desc{{in, 40, 0, 0}}, skip: queueSize},
		"available index goes back":   {descs: []desc{{in, 40, 0, 0}}, skip: 0xff00},
		"a request of no bytes known": {descs: []desc{{in, 40, descNext, 1}, {guestBase + memBytes, 1, descWrite, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			f := l.connect()
			d := f.queues[1]
			for i, e := range c.descs {
				putDesc(f.mem[d.desc+uint64(16*i):], e.addr, e.n, e.flags, e.next)
			}
			d.mu.Lock()
			d.next += c.skip
			d.offer(c.head)
			d.mu.Unlock()
			if !d.errSignalled() {
				t.Fatal("the queue was not reported as broken")
			}
			if used := load16(f.mem[d.used:], 2); used != d.seen {
				t.Errorf("answered: used.idx %d, was %d", used, d.seen)
			}
			other := f.queues[2].submit(f.encode(17, root, nil), fuseproto.ReplyBytes+80)
			if _, err := decodeReply(t, f.queues[2].wait(other)); err != nil {
				t.Errorf("the other queue: %v", err)
			}
			f.stopRing(d)
			d.forget()
			f.setupRing(d, 0)
			if _, err := f.call(17, root, nil, 80); err != nil {
				t.Errorf("after a reset: %v", err)
			}
			waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })
		})
	}
}

// TestBadRequests: requests that are none get an error, if they leave room for
// one, and the queue goes on.
func TestBadRequests(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	with := func(b []byte, off int, v uint32) []byte {
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	for name, c := range map[string]struct {
		in  []byte
		out int
	}{
		"no header":              {make([]byte, 8), 64},
		"length too long":        {with(f.encode(17, root, nil), 0, 41), 96},
		"length too short":       {with(f.encode(17, root, nil), 0, 39), 96},
		"write of other length":  {f.encode(fuseproto.OpWrite, root, with(writeBody(1, 0, []byte("abc")), 16, 4)), 64},
		"write of no body":       {f.encode(fuseproto.OpWrite, root, nil), 64},
		"unknown opcode":         {f.encode(4711, root, nil), 64},
		"opcode of a notice":     {f.encode(100, root, nil), 64},
		"init of another major":  {f.encode(fuseproto.OpInit, 0, words(8|38<<32, 0)), 80},
		"init of no length":      {f.encode(fuseproto.OpInit, 0, nil), 80},
		"read without room":      {f.encode(15, root, readBody(1, 0, 1<<30)), 64},
		"listxattr without room": {f.encode(23, root, words(1<<31)), 64},
		"rename without names":   {f.encode(12, root, words(root)), 64},
		"rename with one name":   {f.encode(12, root, append(words(root), "a\x00"...)), 64},
		"setxattr without name":  {f.encode(21, root, words(4)), 64},
		"lookup without room":    {f.encode(1, root, []byte("a\x00")), fuseproto.ReplyBytes},
		"setupmapping":           {f.encode(48, root, make([]byte, 32)), 64},
	} {
		reply := f.queues[1].wait(f.queues[1].submit(c.in, c.out))
		if _, err := decodeReply(t, reply); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, in := range map[string][]byte{"no room at all": f.encode(17, root, nil), "forget on a request queue": f.encode(fuseproto.OpForget, 5, words(1<<60)), "forgets that are not there": f.encode(fuseproto.OpBatchForget, 0, words(1<<31))} {
		if reply := f.queues[1].wait(f.queues[1].submit(in, 0)); len(reply) != 0 {
			t.Errorf("%s: %x", name, reply)
		}
	}
	if _, err := f.call(17, root, nil, 80); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestTruncatedMemory: the file behind the guest's memory is cut while it is
// mapped; without care the next access kills the program.
func TestTruncatedMemory(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	q := f.queues[1]
	p := f.start(15, root, readBody(1, 0, 4096), 4096)
	f.end(p)
	// The request's buffers go, the rings stay.
	check1(t, unix.Ftruncate(f.memfd, int64(queueMem+ringMem)))
	q.mu.Lock()
	slot := q.free[0]
	putDesc(f.mem[q.desc+uint64(32*slot):], guestBase+q.inAt(slot), 40, descNext, uint16(2*slot+1))
	q.offer(uint16(2 * slot))
	q.mu.Unlock()
	if !q.errSignalled() {
		t.Fatal("the queue was not reported as broken")
	}
	waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })
	f.conn.Close()
	if _, err := l.connect().lookup(root, "none"); err == nil {
		t.Error("no error")
	}
}

// TestMessages: messages that make no sense are refused, and the connection
// goes on.
func TestMessages(t *testing.T) {
	l := newLab(t, nil)
	f := l.dial()
	f.negotiate(features, protoMQ|protoReplyAck|protoMemSlots)
	big := uint64(1) << 63
	pipe := make([]int, 2)
	check1(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	event, err := unix.Eventfd(0, 0)
	check1(t, err)
	defer unix.Close(event)
	for name, c := range map[string]struct {
		request uint32
		payload []byte
		fds     []int
	}{
		"unknown":                    {99, nil, nil},
		"postcopy":                   {28, nil, nil},
		"features not offered":       {reqSetFeatures, words(features | 1<<34), nil},
		"payload too short":          {reqSetFeatures, []byte{1}, nil},
		"payload too long":           {reqSetOwner, words(1), nil},
		"queue of 3":                 {reqSetVringNum, state(1, 3), nil},
		"queue of none":              {reqSetVringNum, state(1, 0), nil},
		"queue of 2048":              {reqSetVringNum, state(1, 2048), nil},
		"no such queue":              {reqSetVringNum, state(9, 32), nil},
		"no such queue at all":       {reqSetVringEnable, state(1<<31, 1), nil},
		"base too large":             {reqSetVringBase, state(1, 1<<16), nil},
		"kick without file":          {reqSetVringKick, words(1), nil},
		"kick that is polled":        {reqSetVringKick, words(1 | 1<<8), nil},
		"kick of no queue":           {reqSetVringKick, words(200), []int{event}},
		"call that is a pipe":        {reqSetVringCall, words(1), []int{pipe[1]}},
		"kick that is a pipe":        {reqSetVringKick, words(1), []int{pipe[0]}},
		"memory without file":        {reqAddMemReg, words(0, 0, 4096, 0, 0), nil},
		"memory that is a pipe":      {reqAddMemReg, words(0, 0, 4096, 0, 0), []int{pipe[0]}},
		"memory of no bytes":         {reqAddMemReg, words(0, 0, 0, 0, 0), []int{f.memfd}},
		"memory beyond the file":     {reqAddMemReg, words(0, 0, memBytes, 0, 1), []int{f.memfd}},
		"memory far beyond the file": {reqAddMemReg, words(0, 0, 4096, 0, big), []int{f.memfd}},
		"memory that wraps around":   {reqAddMemReg, words(0, ^uint64(0)-100, 4096, 0, 0), []int{f.memfd}},
		"memory of all there is":     {reqAddMemReg, words(0, 0, ^uint64(0), 0, 0), []int{f.memfd}},
		"memory that was not added":  {reqRemMemReg, words(0, 0, 4096, 0, 0), nil},
		"table of wrong length":      {reqSetMemTable, words(2, 0, 4096, 0, 0), []int{f.memfd}},
		"table without files":        {reqSetMemTable, words(1, 0, 4096, 0, 0), nil},
		"table of too many":          {reqSetMemTable, words(1 << 31), nil},
		"table with overlaps":        {reqSetMemTable, words(2, 0, 8192, 0, 0, 4096, 8192, 1<<20, 0), []int{f.memfd, f.memfd}},
	} {
		if f.try(c.request, c.payload, c.fds...) {
			t.Errorf("%s: accepted", name)
		}
	}
	// Without the request for an answer the connection ends.
	for name, raw := range map[string][]byte{
		"unknown": {99, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, "wrong version": {1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0},
		"giant": {2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80}, "half": {2, 0, 0},
	} {
		f.conn.Close()
		f = l.dial()
		_, err := f.conn.Write(raw)
		check1(t, err)
		if name == "half" {
			check1(t, f.conn.CloseWrite())
		}
		if _, err := f.reply(); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the connection goes on: %v", name, err)
		}
	}
	l.connect()
}

// TestRingOutside: a ring must be memory, and aligned.
func TestRingOutside(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	d := f.queues[1]
	f.stopRing(d)
	good := []uint64{userBase + d.desc, userBase + d.used, userBase + d.avail}
	for i := range good {
		for _, bad := range []uint64{0, userBase + memBytes - 8, ^uint64(0) - 15, good[i] + 1} {
			if i == 0 && bad == good[i]+1 {
				continue // descriptors are copied
			}
			a := append([]uint64(nil), good...)
			a[i] = bad
			f.tell(reqSetVringAddr, words(1, a[0], a[1], a[2], 0))
			f.tell(reqSetVringKick, words(1), d.kick)
			if f.try(reqSetVringEnable, state(1, 1)) {
				t.Errorf("ring with part %d at %#x started", i, bad)
			}
			f.stopRing(d)
		}
	}
	f.setupRing(d, uint32(d.seen))
	if _, err := f.call(17, root, nil, 80); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

// TestMemoryMoves: memory is added and removed while the rings run.
func TestMemoryMoves(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	const extra = guestBase + 2*memBytes
	for range 5 {
		f.tell(reqAddMemReg, words(0, extra, 1<<20, userBase+2*memBytes, 4096), f.memfd)
		_, err := f.call(17, root, nil, 80)
		check1(t, err)
		f.tell(reqRemMemReg, words(0, extra, 1<<20, userBase+2*memBytes, 0))
		f.tell(reqSetMemTable, words(1, guestBase, memBytes, userBase, 0), f.memfd)
		_, err = f.call(17, root, nil, 80)
		check1(t, err)
	}
	if f.try(reqRemMemReg, words(0, guestBase, memBytes, userBase, 0)) {
		t.Error("the memory of running rings went without an error")
	}
}

// TestStopUnderLoad: rings are stopped and go on all the time while requests
// are made; none is lost, none is answered twice.
func TestStopUnderLoad(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	done := make([]int, 3)
	for i := 1; i <= 2; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			d := f.queues[i]
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := d.submit(f.encode(17, root, nil), fuseproto.ReplyBytes+80)
				out, ok := d.poll(p, patience)
				if !ok || len(out) != fuseproto.ReplyBytes+80 {
					t.Errorf("queue %d: reply of %d bytes", i, len(out))
					return
				}
				done[i]++
			}
		}()
	}
	end := time.Now().Add(time.Second)
	for stops := 0; stops < 50 || time.Now().Before(end) && stops < 300; stops++ {
		d := f.queues[1+stops%2]
		f.setupRing(d, f.stopRing(d))
	}
	close(stop)
	wg.Wait()
	if done[1] == 0 || done[2] == 0 {
		t.Errorf("requests done: %v", done)
	}
	t.Logf("requests done: %v", done)
}
