package virtiofs

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// signals takes what an eventfd counted.
func signals(fd int) uint64 {
	var b [8]byte
	if _, err := unix.Read(fd, b[:]); err != nil {
		return 0
	}
	return binary.NativeEndian.Uint64(b[:])
}

// TestLazyAnswers: the guest is told of many FORGETs at once, and of everything else
// at once.
func TestLazyAnswers(t *testing.T) {
	for index, lazy := range []int{queueSize / 4, 0} {
		l := newLab(t, nil)
		f := l.dial()
		c := &conn{server: l.Server, eventIdx: true}
		check1(t, c.memory.add(regionSpec{guest: guestBase, size: memBytes, user: userBase}, f.memfd))
		defer c.memory.clear()
		d := newDriver(f, index)
		f.queues = append(f.queues, d) // to be closed
		own := func(fd int) *eventFD {
			fd, err := unix.Dup(fd)
			check1(t, err)
			e, err := newEventFD(fd)
			check1(t, err)
			return e
		}
		q := &queue{index: index, num: queueSize, enabled: true, kick: own(d.kick), call: own(d.call),
			addr: ringAddr{desc: userBase + d.desc, used: userBase + d.used, avail: userBase + d.avail}}
		check1(t, q.start(c))
		serve := func(opcode uint32) uint64 {
			t.Helper()
			d.submit(f.encode(opcode, root, words(1)), 0)
			r, err := q.take(c)
			check1(t, err)
			if _, err := r.finish(); err != nil {
				t.Fatal(err)
			}
			return signals(d.call)
		}
		if serve(3) != 1 {
			t.Error("a GETATTR was answered, and nobody told")
		}
		for round := range 2 {
			d.reap() // and be called for the next
			for i := range lazy {
				if serve(fuseproto.OpForget) != 0 {
					t.Errorf("queue %d: told of FORGET %d of round %d", index, i, round)
				}
			}
			if serve(fuseproto.OpForget) != 1 {
				t.Errorf("queue %d: not told of %d FORGETs", index, lazy+1)
			}
		}
		if lazy > 0 {
			d.reap()
			serve(fuseproto.OpForget)
			if there, call := q.await(c, true); there || call != nil || q.ring.availIdx()+uint16(lazy) != load16(q.ring.used, 4+8*queueSize) {
				t.Errorf("while requests come: %v, %v", there, call)
			}
			if there, call := q.await(c, false); there || call == nil || q.ring.availIdx() != load16(q.ring.used, 4+8*queueSize) {
				t.Errorf("when none comes: %v, %v", there, call)
			} else {
				call.release()
			}
			serve(fuseproto.OpForget)
		}
		q.stop()
		if got := signals(d.call); got != uint64(min(lazy, 1)) {
			t.Errorf("queue %d was stopped, and the guest told %d times", index, got)
		}
		q.call.close()
	}
}

// TestLazyRequests: FORGETs that nobody kicked for are taken along with the next
// request, and the guest is told when no more come.
func TestLazyRequests(t *testing.T) {
	l := newLab(t, nil)
	f := l.connect()
	d := f.queues[0]
	kick := d.kick
	var err error
	d.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	check1(t, err)
	defer unix.Close(kick)
	var forgets []*pending
	for range 3 {
		forgets = append(forgets, d.submit(f.encode(fuseproto.OpForget, root, words(1)), 0))
	}
	_, err = f.call(3, root, make([]byte, 16), 104)
	check1(t, err)
	fds := []unix.PollFd{{Fd: int32(d.call), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, int(patience/time.Millisecond)); n != 1 {
		t.Fatalf("not told of FORGETs: %v", err)
	}
	for _, p := range forgets {
		d.wait(p)
	}
	waitFor(t, "the last request", func() bool { return l.InFlight() == 0 })
}
