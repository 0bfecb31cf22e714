package undolog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// recordWriter appends records to a journal. Methods are safe for concurrent
// use. After a failed write the file is cut back to its last whole record, so
// that the next append may succeed; if even that fails the error is sticky.
type recordWriter struct {
	fd    int
	power bool

	mu   sync.Mutex
	size int64
	room room
	err  error

	syncMu sync.Mutex
	synced int64 // bytes that are durable, under syncMu
}

// createJournal makes the journal of the step directory behind dirfd and
// writes its first record.
func createJournal(dirfd int, first *stepRecord, power bool) (*recordWriter, error) {
	buf, err := first.frame([]byte(journalMagic))
	if err != nil {
		return nil, err
	}
	fd, err := hostfs.OpenAt(dirfd, "journal", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &recordWriter{fd: fd, power: power, room: room{never: true}}
	if err := w.append(buf); err != nil {
		_ = hostfs.Close(fd)
		return nil, err
	}
	return w, nil
}

// append adds frames (whole records), with one write(2) unless there is room. When it returns nil
// they survive the death of this process; call sync for more.
func (w *recordWriter) append(frames []byte) error {
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
		m, err = unix.Pwrite(w.fd, frames[n:], w.size+int64(n))
		if errors.Is(err, unix.EINTR) {
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

// sync makes everything appended so far durable if the log promises to survive
// a power failure. Concurrent calls share one fdatasync.
func (w *recordWriter) sync() error {
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

// bytes returns the journal's size.
func (w *recordWriter) bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

func (w *recordWriter) close() error {
	err := w.trim()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room.never = true
	return errors.Join(err, hostfs.Close(w.fd))
}

// tornError is what scanJournal returns for a tail that is cut off or
// damaged. offset is where it begins.
type tornError struct {
	offset int64
	reason string
}

func (e *tornError) Error() string {
	return fmt.Sprintf("undolog: journal damaged at byte %d: %s", e.offset, e.reason)
}

// scanJournal reads the records behind fd in order and calls f with each
// record's type, payload (valid only during the call) and the payload's
// offset. A damaged or torn record ends the scan with a *tornError; an error
// of f ends it with that error.
func scanJournal(fd int, f func(t recordType, payload []byte, off int64) error) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if !st.IsRegular() {
		return fmt.Errorf("undolog: journal is not a regular file")
	}
	s := journalScanner{fd: fd, size: st.Size, buf: make([]byte, 256<<10)}
	head, err := s.next(len(journalMagic))
	if err != nil {
		return err
	}
	if !bytes.Equal(head, []byte(journalMagic)) {
		return &tornError{0, "not a journal"}
	}
	for s.off < s.size {
		start := s.off
		head, err := s.next(frameHeader)
		if err != nil {
			return torn(err, start)
		}
		n, sum := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
		if n == 0 && sum == 0 {
			return s.zeros(start)
		}
		if n == 0 || n > maxRecord {
			return &tornError{start, "impossible record length"}
		}
		body, err := s.next(int(n))
		if err != nil {
			return torn(err, start)
		}
		if crc32.Checksum(body, castagnoli) != sum {
			return &tornError{start, "wrong checksum"}
		}
		if err := f(recordType(body[0]), body[1:], start+frameHeader+1); err != nil {
			return err
		}
	}
	return nil
}

func torn(err error, start int64) error {
	var t *tornError
	if errors.As(err, &t) {
		t.offset = start
	}
	return err
}

// journalScanner hands out consecutive pieces of a file through one buffer,
// which grows only as far as the file really goes.
type journalScanner struct {
	fd     int
	size   int64
	off    int64 // of the next byte handed out
	buf    []byte
	lo, hi int // unread bytes of buf
}

// zeros makes sure that there is nothing but zeros any more: room that was made
// for records (see recordWriter.store). They began at start.
func (s *journalScanner) zeros(start int64) error {
	for s.off < s.size {
		p, err := s.next(int(min(s.size-s.off, int64(len(s.buf)))))
		if err != nil {
			return torn(err, start)
		}
		for _, c := range p {
			if c != 0 {
				return &tornError{start, "impossible record length"}
			}
		}
	}
	return nil
}

func (s *journalScanner) next(n int) ([]byte, error) {
	if int64(n) > s.size-s.off {
		return nil, &tornError{s.off, "file ends inside a record"}
	}
	if s.hi-s.lo < n {
		if n > len(s.buf) {
			grown := make([]byte, n+n/2)
			s.hi = copy(grown, s.buf[s.lo:s.hi])
			s.buf = grown
		} else {
			s.hi = copy(s.buf, s.buf[s.lo:s.hi])
		}
		s.lo = 0
		m, err := hostfs.PreadFull(s.fd, s.buf[s.hi:], s.off+int64(s.hi))
		if err != nil {
			return nil, err
		}
		s.hi += m
		if s.hi < n {
			return nil, &tornError{s.off, "file ends inside a record"}
		}
	}
	p := s.buf[s.lo : s.lo+n]
	s.lo += n
	s.off += int64(n)
	return p, nil
}

// bindingKey is what a binding record is about.
type bindingKey struct {
	Dir  objID
	Name string
}

// stepRecords is a journal in memory: the first record of each key. Inline
// contents stay on the disk.
type stepRecords struct {
	Step stepRecord
	// Objects, by number; every parent is in it. It always holds rootObj if
	// it holds anything.
	Objects map[objID]*objectRecord
	// Order lists the objects as they were recorded: ancestors first.
	Order    []objID
	Xattrs   map[objID][]hostfs.Xattr
	Bindings map[bindingKey]objID
	// BindingOrder lists the keys of Bindings, oldest first.
	BindingOrder []bindingKey
	Contents     map[objID][]contentRecord
	Retained     map[objID]bool
	Freed        map[objID]bool
	Gone         map[objID]bool
	Unprotected  bool

	// Torn is not nil if the journal's tail is cut off or damaged. For the open
	// step that is expected after a crash; for a closed one it is damage.
	Torn error
	// Size is the number of good bytes.
	Size int64
}

func newStepRecords() *stepRecords {
	return &stepRecords{
		Objects:  map[objID]*objectRecord{},
		Xattrs:   map[objID][]hostfs.Xattr{},
		Bindings: map[bindingKey]objID{},
		Contents: map[objID][]contentRecord{},
		Retained: map[objID]bool{},
		Freed:    map[objID]bool{},
		Gone:     map[objID]bool{},
	}
}

// readRecords loads the journal of the step directory behind dirfd. A torn
// tail is reported in Torn and what precedes it is returned; a record that is
// well framed but malformed or inconsistent is damage and an error wrapping
// [ErrDamaged], as is a journal without its first record.
func readRecords(dirfd int) (*stepRecords, error) {
	fd, err := hostfs.OpenAt(dirfd, "journal", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("%w: no journal: %w", ErrDamaged, err)
		}
		return nil, err
	}
	defer hostfs.Close(fd)
	return readJournal(fd)
}

// readJournal is readRecords for an open journal.
func readJournal(fd int) (*stepRecords, error) {
	r := newStepRecords()
	first := true
	err := scanJournal(fd, func(t recordType, p []byte, off int64) error {
		if first != (t == recStep) {
			return fmt.Errorf("%w: step record misplaced", errRecord)
		}
		first = false
		if err := r.add(t, p, off); err != nil {
			return err
		}
		r.Size = off + int64(len(p))
		return nil
	})
	var torn *tornError
	switch {
	case errors.As(err, &torn) && !first:
		r.Torn = err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case first:
		return nil, fmt.Errorf("%w: journal is empty", ErrDamaged)
	}
	return r, nil
}

// add takes one record in.
func (r *stepRecords) add(t recordType, p []byte, off int64) error {
	switch t {
	case recStep:
		return json.Unmarshal(p, &r.Step)
	case recObject:
		o, err := decodeObject(p)
		if err != nil {
			return err
		}
		return r.addObject(&o)
	case recXattrs:
		x, err := decodeXattrs(p)
		if err != nil {
			return err
		}
		if _, dup := r.Xattrs[x.Obj]; !dup {
			r.Xattrs[x.Obj] = x.Xattrs
		}
		return r.known(x.Obj)
	case recBinding:
		b, err := decodeBinding(p)
		if err != nil {
			return err
		}
		return r.addBinding(b)
	case recUnbind:
		dir, name, err := decodeUnbind(p)
		delete(r.Bindings, bindingKey{dir, name})
		return err
	case recContent:
		c, err := decodeContent(p, off)
		if err != nil {
			return err
		}
		r.Contents[c.Obj] = append(r.Contents[c.Obj], c)
		return r.known(c.Obj)
	case recRetain, recFreed, recGone:
		o, err := decodeObj(p)
		if err != nil {
			return err
		}
		r.mark(t)[o] = true
		return r.known(o)
	case recUnprotected:
		r.Unprotected = true
		return nil
	}
	return fmt.Errorf("%w: unknown type %d", errRecord, t)
}

func (r *stepRecords) mark(t recordType) map[objID]bool {
	switch t {
	case recRetain:
		return r.Retained
	case recFreed:
		return r.Freed
	}
	return r.Gone
}

func (r *stepRecords) known(obj objID) error {
	if r.Objects[obj] == nil {
		return fmt.Errorf("%w: object %d is not recorded", errRecord, obj)
	}
	return nil
}

func (r *stepRecords) isDir(obj objID) error {
	o := r.Objects[obj]
	if o == nil {
		return r.known(obj)
	}
	if !o.Created && o.Meta.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%w: object %d is not a directory", errRecord, obj)
	}
	return nil
}

func (r *stepRecords) addObject(o *objectRecord) error {
	if r.Objects[o.Obj] != nil {
		return nil
	}
	if (o.Obj == rootObj) != (len(r.Objects) == 0) {
		return fmt.Errorf("%w: the first object must be the root", errRecord)
	}
	if o.Obj == rootObj && (o.Parent != noObj || o.Created || o.Meta.Mode&unix.S_IFMT != unix.S_IFDIR) {
		return fmt.Errorf("%w: bad root object", errRecord)
	}
	if o.Parent != noObj { // recorded before, so there are no cycles
		if err := r.isDir(o.Parent); err != nil {
			return err
		}
	}
	r.Objects[o.Obj] = o
	r.Order = append(r.Order, o.Obj)
	return nil
}

func (r *stepRecords) addBinding(b bindingRecord) error {
	if err := r.isDir(b.Dir); err != nil {
		return err
	}
	if b.Old != noObj {
		if err := r.known(b.Old); err != nil {
			return err
		}
		if r.Objects[b.Old].Created || b.Old == rootObj {
			return fmt.Errorf("%w: binding to object %d, which was not there", errRecord, b.Old)
		}
	}
	key := bindingKey{b.Dir, b.Name}
	if _, dup := r.Bindings[key]; !dup {
		r.Bindings[key] = b.Old
		r.BindingOrder = append(r.BindingOrder, key)
	}
	return nil
}

// bindingKeys returns the touched bindings in the order in which they were
// recorded, leaving out those that were forgotten.
func (r *stepRecords) bindingKeys() []bindingKey {
	out := make([]bindingKey, 0, len(r.Bindings))
	seen := make(map[bindingKey]bool, len(r.Bindings))
	for _, k := range r.BindingOrder {
		if _, ok := r.Bindings[k]; ok && !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// captured tells whether the records hold all of obj's content. A capture that
// failed in between and was done again has left some ranges twice.
func (r *stepRecords) captured(obj objID) bool {
	if r.Objects[obj] == nil {
		return false
	}
	list := r.Contents[obj]
	inOrder := func(a, b contentRecord) int { return cmp.Compare(a.Off, b.Off) }
	if !slices.IsSortedFunc(list, inOrder) {
		list = slices.Clone(list)
		slices.SortFunc(list, inOrder)
	}
	var end int64
	for _, c := range list {
		if c.Off > end {
			break
		}
		end = max(end, c.Off+c.Len)
	}
	return end >= r.Objects[obj].Meta.Size
}
