package undolog

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	// roomBytes is how much of the journal is mapped at once.
	roomBytes = 256 << 10
	// smallAppend is the longest append that goes by the mapping: for more,
	// write(2) costs no more than the pages do.
	smallAppend = 2 << 10
)

// room is a piece of the journal that is allocated beyond its end and mapped.
// A record that is stored there survives the death of this process as one that
// is written, but takes a tenth of the time: write(2) brings the inode's times
// up to date again and again, which is a change of metadata each.
type room struct {
	mem []byte // nil: none
	off int64  // of mem in the file

	small int  // small appends in a row, while there is none
	never bool // not here
}

// store puts frames at the journal's end if there is room, or can be made. w.mu
// is held. Otherwise they must be written.
func (w *recordWriter) store(frames []byte) (stored bool, err error) {
	r := &w.room
	if len(frames) > smallAppend {
		r.small = 0
		return false, nil
	}
	if r.mem == nil || w.size+int64(len(frames)) > r.off+int64(len(r.mem)) {
		if r.small++; r.never || r.mem == nil && r.small < roomAfter || !w.makeRoom() {
			return false, nil
		}
	}
	if err := copyMapped(r.mem[w.size-r.off:], frames); err != nil {
		return false, err
	}
	w.size += int64(len(frames))
	return true, nil
}

// makeRoom allocates and maps what follows. What is allocated cannot run out of
// space later, when nobody could be told.
func (w *recordWriter) makeRoom() bool {
	r := &w.room
	w.unmap()
	off := w.size &^ int64(unix.Getpagesize()-1)
	err := unix.Fallocate(w.fd, 0, off, roomBytes)
	if err == nil {
		if err = faultPoint("journal.room"); err == nil {
			r.mem, err = unix.Mmap(w.fd, off, roomBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
	}
	if err != nil {
		r.mem, r.small = nil, 0
		r.never = !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT)
		_ = hostfs.TruncateFD(w.fd, w.size)
		return false
	}
	r.off = off
	return true
}

func (w *recordWriter) unmap() {
	if w.room.mem != nil {
		_ = unix.Munmap(w.room.mem)
		w.room.mem = nil
	}
}

// trim gives the room back: the file ends with its last record.
func (w *recordWriter) trim() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room.mem == nil {
		return nil
	}
	w.unmap()
	w.room.small = 0
	return hostfs.TruncateFD(w.fd, w.size)
}

// copyMapped copies src to mapped memory. A page that cannot be had (the disk
// failed, somebody cut the file) is EIO and not the end of the process.
func copyMapped(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("undolog: mapped journal: %v: %w", p, unix.EIO)
		}
	}()
	copy(dst, src)
	return nil
}
