package alive

import (
	"encoding/binary"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

const (
	// Name is the file's name.
	Name = "alive"
	size = 16
	// pulse is how often the sign is renewed while there are writers that do not ask.
	pulse = 20 * time.Millisecond

	// A change that was under way at the kill ends a little after it was noted, and who does not
	// ask dies a little after the supervisor, and was last seen a pulse before.
	slack        = 100 * time.Millisecond
	slackUnasked = 250 * time.Millisecond

	// skew is from which difference on the file system's clock is another than ours.
	skew = time.Second
)

// Sign is the sign of life of one step or one transaction. A nil Sign gives none. Methods are safe
// for concurrent use.
type Sign struct {
	offset  time.Duration // what the file system's clock is ahead
	unasked atomic.Bool
	stop    chan struct{}

	mu   sync.Mutex
	mem  []byte // nil: closed
	last int64
}

// Create makes the file in the directory behind dirfd, or goes on with the one that is there.
// The caller closes the Sign.
func Create(dirfd int) (*Sign, error) {
	fd, err := hostfs.OpenAt(dirfd, Name, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	// What is written cannot run out of space later.
	if err := hostfs.PwriteFull(fd, make([]byte, size), 0); err != nil {
		return nil, err
	}
	s := &Sign{stop: make(chan struct{})}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return nil, err
	}
	if d := time.Duration(st.Ctime - time.Now().UnixNano()); d > skew || d < -skew {
		s.offset = d
	}
	if s.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	s.Mark()
	return s, nil
}

// Mark notes that something is, or was, changed now.
func (s *Sign) Mark() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Add(s.offset).UnixNano()
	if s.mem == nil || now <= s.last {
		return
	}
	s.last = now
	put(s.mem[:8], now)
}

// Unasked says that from now on somebody may write without asking.
func (s *Sign) Unasked() {
	if s == nil || s.unasked.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return
	}
	put(s.mem[8:], 1)
	go s.beat()
}

func (s *Sign) beat() {
	t := time.NewTicker(pulse)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.Mark()
		}
	}
}

// Close ends the sign. The file stays.
func (s *Sign) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return
	}
	close(s.stop)
	_ = unix.Munmap(s.mem)
	s.mem = nil
}

// put stores v. A page that cannot be had (the disk failed) is not the end of the process.
func put(b []byte, v int64) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }()
	binary.LittleEndian.PutUint64(b, uint64(v))
}

// Last is the moment after which a change is somebody else's, by the sign in the directory behind
// dirfd and the last write to its journal. Zero: nothing tells.
func Last(dirfd int) (time.Time, error) {
	var last time.Time
	if st, err := hostfs.StatAt(dirfd, "journal"); err == nil {
		last = time.Unix(0, st.Mtime).Add(slack)
	}
	b, err := hostfs.ReadSmall(dirfd, Name, size)
	if errors.Is(err, unix.ENOENT) || err == nil && len(b) < size {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	more := slack
	if b[8] != 0 {
		more = slackUnasked
	}
	if at := time.Unix(0, int64(binary.LittleEndian.Uint64(b))).Add(more); at.After(last) {
		last = at
	}
	return last, nil
}
