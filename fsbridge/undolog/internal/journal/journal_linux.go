package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/wire"
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

// Create makes the journal of the step directory behind dirfd and
// writes its first record.
func Create(dirfd int, first *Step, power bool) (*Writer, error) {
	buf, err := first.frame([]byte(Magic))
	if err != nil {
		return nil, err
	}
	fd, err := hostfs.OpenAt(dirfd, "journal", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
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

// TornError is what Scan returns for a tail that is cut off or
// damaged. offset is where it begins.
type TornError struct {
	offset int64
	reason string
}

func (e *TornError) Error() string {
	return fmt.Sprintf("undolog: journal damaged at byte %d: %s", e.offset, e.reason)
}

// Scan reads the records behind fd in order and calls f with each
// record's type, payload (valid only during the call) and the payload's
// offset. A damaged or torn record ends the scan with a *TornError; an error
// of f ends it with that error.
func Scan(fd int, f func(t Type, payload []byte, off int64) error) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if !st.IsRegular() {
		return fmt.Errorf("undolog: journal is not a regular file")
	}
	s := scanner{fd: fd, size: st.Size, buf: make([]byte, 256<<10)}
	head, err := s.next(len(Magic))
	if err != nil {
		return err
	}
	if !bytes.Equal(head, []byte(Magic)) {
		return &TornError{0, "not a journal"}
	}
	for s.off < s.size {
		start := s.off
		head, err := s.next(wire.HeaderSize)
		if err != nil {
			return torn(err, start)
		}
		n, sum := wire.Header(head)
		if n == 0 && sum == 0 {
			return s.zeros(start)
		}
		if n == 0 || n > MaxRecord {
			return &TornError{start, "impossible record length"}
		}
		body, err := s.next(int(n))
		if err != nil {
			return torn(err, start)
		}
		if wire.Sum(body) != sum {
			return &TornError{start, "wrong checksum"}
		}
		if err := f(Type(body[0]), body[1:], start+wire.HeaderSize+1); err != nil {
			return err
		}
	}
	return nil
}

func torn(err error, start int64) error {
	var t *TornError
	if errors.As(err, &t) {
		t.offset = start
	}
	return err
}

// scanner hands out consecutive pieces of a file through one buffer,
// which grows only as far as the file really goes.
type scanner struct {
	fd     int
	size   int64
	off    int64 // of the next byte handed out
	buf    []byte
	lo, hi int // unread bytes of buf
}

// zeros makes sure that there is nothing but zeros any more: room that was made
// for records (see Writer.store). They began at start.
func (s *scanner) zeros(start int64) error {
	for s.off < s.size {
		p, err := s.next(int(min(s.size-s.off, int64(len(s.buf)))))
		if err != nil {
			return torn(err, start)
		}
		for _, c := range p {
			if c != 0 {
				return &TornError{start, "impossible record length"}
			}
		}
	}
	return nil
}

func (s *scanner) next(n int) ([]byte, error) {
	if int64(n) > s.size-s.off {
		return nil, &TornError{s.off, "file ends inside a record"}
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
			return nil, &TornError{s.off, "file ends inside a record"}
		}
	}
	p := s.buf[s.lo : s.lo+n]
	s.lo += n
	s.off += int64(n)
	return p, nil
}

// Key is what a binding record is about.
type Key struct {
	Dir  ObjID
	Name string
}

// Set is a journal in memory: the first record of each key. Inline
// contents stay on the disk.
type Set struct {
	Step Step
	// Objects, by number; every parent is in it. It always holds RootObj if
	// it holds anything.
	Objects map[ObjID]*Object
	// Order lists the objects as they were recorded: ancestors first.
	Order    []ObjID
	Xattrs   map[ObjID][]hostfs.Xattr
	Bindings map[Key]ObjID
	// BindingOrder lists the keys of Bindings, oldest first.
	BindingOrder []Key
	Contents     map[ObjID][]Content
	Retained     map[ObjID]bool
	Freed        map[ObjID]bool
	Gone         map[ObjID]bool
	Unprotected  bool

	// Torn is not nil if the journal's tail is cut off or damaged. For the open
	// step that is expected after a crash; for a closed one it is damage.
	Torn error
	// Size is the number of good bytes.
	Size int64
}

func newSet() *Set {
	return &Set{
		Objects:  map[ObjID]*Object{},
		Xattrs:   map[ObjID][]hostfs.Xattr{},
		Bindings: map[Key]ObjID{},
		Contents: map[ObjID][]Content{},
		Retained: map[ObjID]bool{},
		Freed:    map[ObjID]bool{},
		Gone:     map[ObjID]bool{},
	}
}

// Read loads the journal of the step directory behind dirfd. A torn
// tail is reported in Torn and what precedes it is returned; a record that is
// well framed but malformed or inconsistent is damage and an error wrapping
// [base.ErrDamaged], as is a journal without its first record.
func Read(dirfd int) (*Set, error) {
	fd, err := hostfs.OpenAt(dirfd, "journal", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("%w: no journal: %w", base.ErrDamaged, err)
		}
		return nil, err
	}
	defer hostfs.Close(fd)
	return ReadFD(fd)
}

// ReadStep returns the first record of a journal.
func ReadStep(dirfd int) (*Step, error) {
	fd, err := hostfs.OpenRegular(dirfd, "journal")
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	var rec Step
	found := errors.New("found")
	err = Scan(fd, func(t Type, p []byte, _ int64) error {
		if t != TypeStep {
			return fmt.Errorf("%w: no step record", wire.ErrMalformed)
		}
		return errors.Join(json.Unmarshal(p, &rec), found)
	})
	if !errors.Is(err, found) || rec.ID == 0 {
		return nil, fmt.Errorf("undolog: no step record: %w", err)
	}
	return &rec, nil
}

// ReadFD is Read for an open journal.
func ReadFD(fd int) (*Set, error) {
	r := newSet()
	first := true
	err := Scan(fd, func(t Type, p []byte, off int64) error {
		if first != (t == TypeStep) {
			return fmt.Errorf("%w: step record misplaced", wire.ErrMalformed)
		}
		first = false
		if err := r.add(t, p, off); err != nil {
			return err
		}
		r.Size = off + int64(len(p))
		return nil
	})
	var torn *TornError
	switch {
	case errors.As(err, &torn) && !first:
		r.Torn = err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", base.ErrDamaged, err)
	case first:
		return nil, fmt.Errorf("%w: journal is empty", base.ErrDamaged)
	}
	return r, nil
}

// add takes one record in.
func (r *Set) add(t Type, p []byte, off int64) error {
	switch t {
	case TypeStep:
		return json.Unmarshal(p, &r.Step)
	case TypeObject:
		o, err := DecodeObject(p)
		if err != nil {
			return err
		}
		return r.addObject(&o)
	case TypeXattrs:
		x, err := decodeXattrs(p)
		if err != nil {
			return err
		}
		if _, dup := r.Xattrs[x.Obj]; !dup {
			r.Xattrs[x.Obj] = x.Xattrs
		}
		return r.known(x.Obj)
	case TypeBinding:
		b, err := DecodeBinding(p)
		if err != nil {
			return err
		}
		return r.addBinding(b)
	case TypeUnbind:
		dir, name, err := decodeUnbind(p)
		delete(r.Bindings, Key{dir, name})
		return err
	case TypeContent:
		c, err := decodeContent(p, off)
		if err != nil {
			return err
		}
		r.Contents[c.Obj] = append(r.Contents[c.Obj], c)
		return r.known(c.Obj)
	case TypeRetain, TypeFreed, TypeGone:
		o, err := decodeObj(p)
		if err != nil {
			return err
		}
		r.mark(t)[o] = true
		return r.known(o)
	case TypeUnprotected:
		r.Unprotected = true
		return nil
	}
	return fmt.Errorf("%w: unknown type %d", wire.ErrMalformed, t)
}

func (r *Set) mark(t Type) map[ObjID]bool {
	switch t {
	case TypeRetain:
		return r.Retained
	case TypeFreed:
		return r.Freed
	}
	return r.Gone
}

func (r *Set) known(obj ObjID) error {
	if r.Objects[obj] == nil {
		return fmt.Errorf("%w: object %d is not recorded", wire.ErrMalformed, obj)
	}
	return nil
}

func (r *Set) isDir(obj ObjID) error {
	o := r.Objects[obj]
	if o == nil {
		return r.known(obj)
	}
	if !o.Created && o.Meta.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%w: object %d is not a directory", wire.ErrMalformed, obj)
	}
	return nil
}

func (r *Set) addObject(o *Object) error {
	if r.Objects[o.Obj] != nil {
		return nil
	}
	if (o.Obj == RootObj) != (len(r.Objects) == 0) {
		return fmt.Errorf("%w: the first object must be the root", wire.ErrMalformed)
	}
	if o.Obj == RootObj && (o.Parent != NoObj || o.Created || o.Meta.Mode&unix.S_IFMT != unix.S_IFDIR) {
		return fmt.Errorf("%w: bad root object", wire.ErrMalformed)
	}
	if o.Parent != NoObj { // recorded before, so there are no cycles
		if err := r.isDir(o.Parent); err != nil {
			return err
		}
	}
	r.Objects[o.Obj] = o
	r.Order = append(r.Order, o.Obj)
	return nil
}

func (r *Set) addBinding(b Binding) error {
	if err := r.isDir(b.Dir); err != nil {
		return err
	}
	if b.Old != NoObj {
		if err := r.known(b.Old); err != nil {
			return err
		}
		if r.Objects[b.Old].Created || b.Old == RootObj {
			return fmt.Errorf("%w: binding to object %d, which was not there", wire.ErrMalformed, b.Old)
		}
	}
	key := Key{b.Dir, b.Name}
	if _, dup := r.Bindings[key]; !dup {
		r.Bindings[key] = b.Old
		r.BindingOrder = append(r.BindingOrder, key)
	}
	return nil
}

// Keys returns the touched bindings in the order in which they were
// recorded, leaving out those that were forgotten.
func (r *Set) Keys() []Key {
	out := make([]Key, 0, len(r.Bindings))
	seen := make(map[Key]bool, len(r.Bindings))
	for _, k := range r.BindingOrder {
		if _, ok := r.Bindings[k]; ok && !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// Complete tells whether the records hold all of obj's content. A capture that
// failed in between and was done again has left some ranges twice.
func (r *Set) Complete(obj ObjID) bool {
	if r.Objects[obj] == nil {
		return false
	}
	list := r.Contents[obj]
	inOrder := func(a, b Content) int { return cmp.Compare(a.Off, b.Off) }
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
