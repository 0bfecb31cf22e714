package format

import (
	"errors"
	"fmt"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// Writer appends records to a journal. Methods are safe for concurrent
// use. After a failed write the file is cut back to its last whole record, so
// that the next append may succeed; if even that fails the error is sticky.
type Writer struct {
	fd    int
	power bool

	mu   sync.Mutex
	size int64
	room room
	err  error

	syncMu sync.Mutex
	synced int64 // bytes that are durable, under syncMu
}

// CreateJournal makes the journal of the step directory behind dirfd and
// writes its first record.
func CreateJournal(dirfd int, first *Step, power bool) (*Writer, error) {
	buf, err := first.frame([]byte(JournalMagic))
	if err != nil {
		return nil, err
	}
	fd, err := hostfs.OpenAt(dirfd, "journal", posix.O_RDWR|posix.O_CREAT|posix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{fd: fd, power: power, room: room{never: true}}
	if err := w.write(buf); err != nil {
		_ = hostfs.Close(fd)
		return nil, err
	}
	return w, nil
}

// AllowRoom lets the writer keep room for small records at the journal's end,
// unless every record is to be synced. Call it before the first append.
func (w *Writer) AllowRoom() { w.room.never = w.power }

// Durable tells whether the journal promises to survive a power failure.
func (w *Writer) Durable() bool { return w.power }

// Append adds the records of b, with one write(2) unless there is room. When it returns nil
// they survive the death of this process; call sync for more. b stays as it is.
func (w *Writer) Append(b *Batch) error { return w.write(b.buf) }

// write appends whole records.
func (w *Writer) write(frames []byte) error {
	if len(frames) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	err := fault.Point("journal.append")
	if err == nil {
		var stored bool
		if stored, err = w.store(frames); stored {
			return nil
		}
	}
	n := 0
	for err == nil && n < len(frames) {
		var m int
		m, err = posix.Pwrite(w.fd, frames[n:], w.size+int64(n))
		if errors.Is(err, posix.EINTR) {
			err = nil
			continue
		}
		n += max(m, 0)
	}
	if err == nil {
		w.size += int64(n)
		return nil
	}
	w.leave()
	if n > 0 || w.room.long {
		if terr := w.cut(); terr != nil {
			w.err = fmt.Errorf("undolog: journal unusable: %w", errors.Join(err, terr))
		}
	}
	return fmt.Errorf("undolog: append to journal: %w", err)
}

// Sync makes everything appended so far durable if the log promises to survive
// a power failure. Concurrent calls share one fdatasync.
func (w *Writer) Sync() error {
	if !w.power {
		return nil
	}
	w.mu.Lock()
	want := w.size
	w.mu.Unlock()
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	if w.synced >= want {
		return nil
	}
	w.mu.Lock()
	upTo := w.size
	w.mu.Unlock()
	if err := hostfs.SyncFD(w.fd); err != nil {
		return err
	}
	w.synced = upTo
	return nil
}

// HoldSync keeps every sync from its start until release is called, as a slow
// disk does. It is for tests.
func (w *Writer) HoldSync() (release func()) {
	w.syncMu.Lock()
	return w.syncMu.Unlock
}

// Size returns the journal's size.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// Close gives the room back and closes the file. Nothing may be appended after it.
func (w *Writer) Close() error {
	err := w.Trim()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room.never = true
	return errors.Join(err, hostfs.Close(w.fd))
}
