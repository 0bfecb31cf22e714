package virtiofs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// maxQueueSize is the largest queue a front-end may ask for; QEMU's own limit.
const maxQueueSize = 1024

// Limits of one request. The guest's kernel keeps to them: it was told at
// FUSE_INIT (maxOutBytes is that many pages, of 64 KiB at most).
const (
	maxInBytes  = 1<<20 + 64<<10
	maxOutBytes = 16<<20 + 64<<10
)

// Flags of a descriptor.
const (
	descNext     = 1
	descWrite    = 2
	descIndirect = 4
	descBytes    = 16
)

// What is wrong with a queue that a guest broke.
var (
	errHead     = errors.New("descriptor number beyond the queue")
	errAvail    = errors.New("more requests available than the queue has room for")
	errLoop     = errors.New("descriptor chain longer than the queue (a loop?)")
	errIndirect = errors.New("bad indirect table")
	errOrder    = errors.New("readable descriptor after a writable one")
	errZero     = errors.New("descriptor of no bytes")
	errTooLarge = errors.New("request too large")
	errRing     = errors.New("ring outside of the guest's memory or misaligned")
)

// ring is a split virtqueue in the guest's memory: a table of descriptors, the
// ring of available chains (written by the guest), and that of used ones
// (written by us). avail.idx and used.idx count on and wrap at 65536.
//
//	avail: flags u16, idx u16, ring [num]u16, used_event u16
//	used:  flags u16, idx u16, ring [num]{id u32, len u32}, avail_event u16
type ring struct {
	num               int
	desc, avail, used []byte
}

// ringAddr is where a ring is, as the front-end numbers addresses.
type ringAddr struct{ desc, used, avail uint64 }

func openRing(m *memory, num int, a ringAddr) (ring, error) {
	r := ring{num: num, desc: m.user(a.desc, num*descBytes), avail: m.user(a.avail, 6+2*num), used: m.user(a.used, 6+8*num)}
	if r.desc == nil || r.avail == nil || r.used == nil {
		return ring{}, errRing
	}
	if uintptr(unsafe.Pointer(&r.avail[0]))%2 != 0 || uintptr(unsafe.Pointer(&r.used[0]))%4 != 0 {
		return ring{}, errRing
	}
	return r, nil
}

// word returns the aligned 32-bit word that holds the 16 bits at off, and how
// far they are shifted in it: there are no smaller atomics. A word does not
// leave the page, so that it is mapped if its half is.
func word(b []byte, off int) (*uint32, uint) {
	_ = b[off+1]
	p := unsafe.Pointer(&b[off])
	return (*uint32)(unsafe.Pointer(uintptr(p) &^ 3)), uint(uintptr(p)&2) * 8
}

func load16(b []byte, off int) uint16 {
	w, shift := word(b, off)
	return uint16(atomic.LoadUint32(w) >> shift)
}

// store16 leaves the other half of the word alone, which may be the guest's. A
// guest that keeps changing that gets no store: it wanted none.
func store16(b []byte, off int, v uint16) {
	w, shift := word(b, off)
	for range 1000 {
		old := atomic.LoadUint32(w)
		if atomic.CompareAndSwapUint32(w, old, old&^(0xffff<<shift)|uint32(v)<<shift) {
			return
		}
	}
}

// availIdx is loaded before what it announces is read (acquire).
func (r *ring) availIdx() uint16 { return load16(r.avail, 2) }

func (r *ring) availHead(i uint16) uint16 {
	return binary.LittleEndian.Uint16(r.avail[4+2*(int(i)%r.num):])
}

// usedEvent is the index at which the guest wants to be called.
func (r *ring) usedEvent() uint16 { return load16(r.avail, 4+2*r.num) }

func (r *ring) usedIdx() uint16 { return load16(r.used, 2) }

// setUsed puts an element into the used ring, before setUsedIdx announces it.
func (r *ring) setUsed(i uint16, head uint16, n uint32) {
	e := r.used[4+8*(int(i)%r.num):][:8]
	binary.LittleEndian.PutUint32(e, uint32(head))
	binary.LittleEndian.PutUint32(e[4:], n)
}

// setUsedIdx announces used elements (release). The flags beside the index are
// ours, and always 0.
func (r *ring) setUsedIdx(i uint16) {
	w, _ := word(r.used, 0)
	atomic.StoreUint32(w, uint32(i)<<16)
}

// setAvailEvent says at which index the guest shall kick.
func (r *ring) setAvailEvent(i uint16) { store16(r.used, 4+8*r.num, i) }

// needEvent tells whether an index that moved from old to now passed event.
func needEvent(event, now, old uint16) bool { return now-event-1 < now-old }

// descriptor is a copy of one, so that the guest cannot change it any more.
type descriptor struct {
	segment
	flags, next uint16
}

func decode(b []byte) descriptor {
	var c [descBytes]byte
	copy(c[:], b)
	return descriptor{
		segment: segment{addr: binary.LittleEndian.Uint64(c[0:]), length: binary.LittleEndian.Uint32(c[8:])},
		flags:   binary.LittleEndian.Uint16(c[12:]),
		next:    binary.LittleEndian.Uint16(c[14:]),
	}
}

// chain is what a chain of descriptors means: bytes for us to read, and room
// for us to write.
type chain struct {
	in, out       []segment
	inLen, outLen int
}

// walk follows the chain that starts at head, and adds it to c. table is room for
// an indirect table of num descriptors.
func (r *ring) walk(c *chain, m *memory, head uint16, table []byte) error {
	descs, i := r.desc, head
	indirect := false
	for count := 0; ; count++ {
		if count >= r.num {
			return errLoop
		}
		if int(i) >= len(descs)/descBytes {
			return errHead
		}
		d := decode(descs[int(i)*descBytes:])
		if d.flags&descIndirect != 0 {
			if indirect || d.flags&descNext != 0 || d.length == 0 || d.length%descBytes != 0 || int64(d.length) > int64(len(table)) {
				return fmt.Errorf("%w: %d bytes, flags %#x", errIndirect, d.length, d.flags)
			}
			descs, i, indirect = table[:d.length], 0, true
			if err := m.read(descs, []segment{d.segment}); err != nil {
				return err
			}
			count-- // the table is no part of the chain
			continue
		}
		if err := c.add(m, d); err != nil {
			return err
		}
		if d.flags&descNext == 0 {
			return nil
		}
		i = d.next
	}
}

func (c *chain) add(m *memory, d descriptor) error {
	if d.length == 0 {
		return errZero
	}
	if !m.covers(d.segment) {
		return fmt.Errorf("%w: [%#x, +%#x)", errAddress, d.addr, d.length)
	}
	if d.flags&descWrite != 0 {
		if int64(d.length) > int64(maxOutBytes-c.outLen) {
			return errTooLarge
		}
		c.out = appended(c.out, d.segment)
		c.outLen += int(d.length)
		return nil
	}
	if len(c.out) > 0 {
		return errOrder
	}
	if int64(d.length) > int64(maxInBytes-c.inLen) {
		return errTooLarge
	}
	c.in = appended(c.in, d.segment)
	c.inLen += int(d.length)
	return nil
}

// appended adds a segment; to the last one where it goes on, as pages often do.
func appended(list []segment, s segment) []segment {
	if n := len(list) - 1; n >= 0 && list[n].addr+uint64(list[n].length) == s.addr {
		list[n].length += s.length // no more than the limits above
		return list
	}
	return append(list, s)
}
