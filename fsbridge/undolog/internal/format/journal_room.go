package format

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

const (
	// roomBytes is how much of the journal is mapped at once, at most three times.
	roomBytes = 512 << 10
	// smallAppend is the longest append that goes by the mapping: a granule with
	// what is around it. A write(2) of more costs no more than the pages do.
	smallAppend = 8 << 10
)

// roomAfter is how many small appends in a row make room for more: a step of a
// few needs none. With faults the room comes early, so that short tests come to it.
func roomAfter() int {
	if fault.WorkAhead {
		return 64
	}
	return 2
}

// room is where the next small records are stored. One that is stored there
// survives the death of this process as one that is written, but takes a tenth of
// the time: write(2) brings the inode's times up to date again and again, which is a
// change of metadata each, and looks for a page. Writer.mu protects it.
type room struct {
	here roomPiece
	next chan roomPiece // what is being made; nil: nothing is
	last roomPiece      // was here, and is to be unmapped
	long bool           // the file may be longer than its records

	small int  // small appends in a row, while there is none
	never bool // not here
}

// roomPiece is a piece of the journal that is allocated beyond its end, mapped,
// and has its pages.
type roomPiece struct {
	mem []byte // nil: none, for err
	off int64  // of mem in the file
	err error
}

func (p roomPiece) holds(off int64, n int) bool {
	return p.mem != nil && off >= p.off && off+int64(n) <= p.off+int64(len(p.mem))
}

func (p roomPiece) unmap() {
	if p.mem != nil {
		_ = posix.Munmap(p.mem)
	}
}

// store puts frames at the journal's end if there is room. Otherwise they must be
// written. w.mu is held.
func (w *Writer) store(frames []byte) (stored bool, err error) {
	r := &w.room
	switch {
	case r.never || len(frames) > smallAppend:
		r.small = 0
		return false, nil
	case !r.here.holds(w.size, len(frames)):
		if r.small++; r.here.mem == nil && r.small < roomAfter() || !w.enter(len(frames)) {
			return false, nil
		}
	}
	if err := copyMapped(r.here.mem[w.size-r.here.off:], frames); err != nil {
		return false, err
	}
	w.size += int64(len(frames))
	if end := r.here.off + int64(len(r.here.mem)); r.next == nil && end-w.size < roomBytes/2 {
		w.prepare(end - smallAppend)
	}
	return true, nil
}

// enter goes on to the next room, if it is ready and holds n bytes at the
// journal's end. If not, there will be one later.
func (w *Writer) enter(n int) bool {
	r := &w.room
	if r.next == nil {
		w.prepare(w.size)
	}
	select {
	case next := <-r.next:
		r.last, r.here, r.next = r.here, next, nil
	default:
		return false
	}
	if r.here.err != nil {
		_ = w.cut()
		r.small = 0
		r.never = !errors.Is(r.here.err, posix.ENOSPC) && !errors.Is(r.here.err, posix.EDQUOT)
	}
	return r.here.holds(w.size, n)
}

// prepare begins to make room at off or a little before.
func (w *Writer) prepare(off int64) {
	next, last := make(chan roomPiece, 1), w.room.last
	w.room.next, w.room.last, w.room.long = next, roomPiece{}, true
	work := func() {
		last.unmap() // takes as long as many appends
		next <- makeRoom(w.fd, off&^int64(posix.Getpagesize()-1))
	}
	if fault.WorkAhead {
		go work()
	} else {
		work()
	}
}

// makeRoom allocates and maps the file behind fd from off on, which is the start of
// a page. What is allocated cannot run out of space later, when nobody could be told.
func makeRoom(fd int, off int64) roomPiece {
	p := roomPiece{off: off}
	if p.err = posix.Fallocate(fd, 0, off, roomBytes); p.err != nil {
		return p
	}
	if p.err = fault.Point("journal.room"); p.err != nil {
		return p
	}
	if p.mem, p.err = posix.Mmap(fd, off, roomBytes); p.err == nil {
		_ = posix.Populate(p.mem) // else each page when it is written to
	}
	return p
}

// leave gives up all room, without cutting the file.
func (w *Writer) leave() {
	r := &w.room
	r.here.unmap()
	r.last.unmap()
	if r.next != nil {
		(<-r.next).unmap()
	}
	r.here, r.next, r.last, r.small = roomPiece{}, nil, roomPiece{}, 0
}

// cut takes off what is beyond the last record. There is no room then.
func (w *Writer) cut() error {
	err := hostfs.TruncateFD(w.fd, w.size)
	w.room.long = err != nil
	return err
}

// Trim gives the room back: the file ends with its last record.
func (w *Writer) Trim() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave()
	if !w.room.long {
		return nil
	}
	return w.cut()
}

// copyMapped copies src to mapped memory. A page that cannot be had (the disk
// failed, somebody cut the file) is EIO and not the end of the process.
func copyMapped(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("undolog: mapped journal: %v: %w", p, posix.EIO)
		}
	}()
	copy(dst, src)
	return nil
}
