package store

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

const (
	// AliveName is the file's name.
	AliveName = "alive"
	size      = 24
	// pulse is how often the sign is renewed while there are writers that do not ask.
	pulse = 20 * time.Millisecond

	// A change that was under way at the kill ends a little after it was noted, and who does not
	// ask dies a little after the supervisor, and was last seen a pulse before.
	slack        = 100 * time.Millisecond
	slackUnasked = 250 * time.Millisecond
	// slackApply is that of an undo, which does one short thing at a time, save for what it says.
	slackApply = 10 * time.Millisecond

	// skew is from which difference on the file system's clock is another than ours.
	skew = time.Second
)

// AliveSign is the sign of life of one step or one transaction. A nil Sign gives none. Methods are safe
// for concurrent use.
type AliveSign struct {
	offset  time.Duration // what the file system's clock is ahead
	unasked atomic.Bool
	stop    chan struct{}

	mu    sync.Mutex
	open  bool
	mem   []byte // the file; nil: it cannot be mapped
	fd    int    // where it cannot be
	last  int64
	beats bool // it is renewed by itself
}

// CreateAlive makes the file in the directory behind dirfd, or goes on with the one that is there.
// The caller closes the Sign.
func CreateAlive(dirfd int) (*AliveSign, error) {
	return create(dirfd, time.Now, func(fd int) ([]byte, error) {
		return posix.Mmap(fd, 0, size)
	})
}

func create(dirfd int, now func() time.Time, mapped func(fd int) ([]byte, error)) (_ *AliveSign, err error) {
	fd, err := hostfs.OpenOwn(dirfd, AliveName, posix.O_RDWR|posix.O_CREAT)
	if err != nil {
		return nil, err
	}
	s := &AliveSign{stop: make(chan struct{}), open: true, fd: -1}
	defer func() {
		if s.fd < 0 {
			_ = hostfs.Close(fd)
		}
	}()
	if s.offset, err = ahead(fd, now); err != nil {
		return nil, err
	}
	switch s.mem, err = mapped(fd); {
	case errors.Is(err, posix.EINVAL) || errors.Is(err, posix.ENODEV):
		s.fd = fd // 9P without a cache maps nothing that is shared: each sign is a write
	case err != nil:
		return nil, err
	}
	s.Mark()
	return s, nil
}

// ahead is what the clock of the file system is ahead of now's: 0 if it may be the same clock. It writes the file behind fd, whose space
// cannot run out later then.
//
// Between a look at a clock and the write this process may stand still for long, so the clock is looked at before and after: the
// difference lies between the two that they give. If they are far apart it is measured again, and in the end it is the lesser one: with
// a sign that is too early a change of the step is taken for somebody else's and stays; with one that is too late an undo would
// overwrite what somebody else has changed.
func ahead(fd int, now func() time.Time) (time.Duration, error) {
	const tries, near = 10, 10 * time.Millisecond
	least, width := time.Duration(0), time.Duration(math.MaxInt64)
	for range tries {
		before := now().UnixNano()
		if err := hostfs.PwriteFull(fd, make([]byte, size), 0); err != nil {
			return 0, err
		}
		after := now().UnixNano()
		st, err := hostfs.StatFD(fd)
		if err != nil {
			return 0, err
		}
		if st.Ctime >= before-int64(skew) && st.Ctime <= after+int64(skew) {
			return 0, nil
		}
		if d := time.Duration(after - before); d < width {
			least, width = time.Duration(st.Ctime-after), d
		}
		if width <= near {
			break
		}
	}
	return least, nil
}

// Mark notes that something is, or was, changed now.
func (s *AliveSign) Mark() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := posix.Now() + s.offset.Nanoseconds()
	if !s.open || now <= s.last {
		return
	}
	s.last = now
	s.put(0, now)
}

// Unasked says that from now on somebody may write without asking.
func (s *AliveSign) Unasked() {
	if s == nil || s.unasked.Load() || s.unasked.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	s.put(8, 1)
	if !s.beats {
		s.beats = true
		go s.beat()
	}
}

// Doing says that the inode of that number is being changed, which may take long; 0: none is any more.
// Until the sign is closed it is renewed by itself then.
func (s *AliveSign) Doing(ino uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	s.put(16, int64(ino))
	if !s.beats {
		s.beats = true
		go s.beat()
	}
}

func (s *AliveSign) beat() {
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
func (s *AliveSign) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	close(s.stop)
	s.open = false
	if s.mem != nil {
		_ = posix.Munmap(s.mem)
		return
	}
	_ = hostfs.Close(s.fd)
}

// put stores v at a place of the file. A page that cannot be had, or a write that fails (the disk failed), is not the end
// of the process. mu is held.
func (s *AliveSign) put(at int, v int64) {
	if s.mem == nil {
		_ = hostfs.PwriteFull(s.fd, binary.LittleEndian.AppendUint64(nil, uint64(v)), int64(at))
		return
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }()
	binary.LittleEndian.PutUint64(s.mem[at:], uint64(v))
}

// Death is what the sign of life in a directory tells of the end of whoever gave it.
type Death struct {
	at      time.Time // of the last change; zero: nothing tells
	unasked bool
	doing   uint64
}

// ReadAlive reads the sign in the directory behind dirfd, and when its journal was written to last.
func ReadAlive(dirfd int) (d Death, err error) {
	if st, err := hostfs.StatAt(dirfd, "journal"); err == nil {
		d.at = time.Unix(0, st.Mtime)
	}
	b, err := hostfs.ReadSmall(dirfd, AliveName, size)
	if errors.Is(err, posix.ENOENT) || err == nil && len(b) < size {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if at := time.Unix(0, int64(binary.LittleEndian.Uint64(b))); at.After(d.at) {
		d.at = at
	}
	if b[9] != 0 {
		d.at = time.Unix(0, int64(binary.LittleEndian.Uint64(b)))
	}
	d.unasked, d.doing = b[8] != 0, binary.LittleEndian.Uint64(b[16:])
	return d, nil
}

// SettleAlive has what Read tells now of the directory behind dirfd stay, whoever writes to the journal from now on.
func SettleAlive(dirfd int) error {
	d, err := ReadAlive(dirfd)
	if err != nil {
		return err
	}
	fd, err := hostfs.OpenOwn(dirfd, AliveName, posix.O_RDWR|posix.O_CREAT)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	b := make([]byte, size)
	binary.LittleEndian.PutUint64(b, uint64(max(d.at.UnixNano(), 0)))
	binary.LittleEndian.PutUint64(b[16:], d.doing)
	if b[9] = 1; d.unasked {
		b[8] = 1
	}
	return hostfs.PwriteFull(fd, b, 0)
}

// Step is the moment after which a change in the folder of a step that was killed is somebody else's.
func (d Death) Step() time.Time {
	switch {
	case d.at.IsZero():
		return d.at
	case d.unasked:
		return d.at.Add(slackUnasked)
	}
	return d.at.Add(slack)
}

// Foreign tells whether what is as st says was changed by somebody else after an apply was killed. In doubt it
// was.
func (d Death) Foreign(st *hostfs.Stat) bool {
	if d.at.IsZero() || d.at.UnixNano() <= 0 { // there is no sign
		return false
	}
	more := slackApply
	if d.doing != 0 && st.Ino == d.doing {
		more = slackUnasked
	}
	return st.Ctime > d.at.Add(more).UnixNano()
}
