package format

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// RecordKey is what a binding record is about.
type RecordKey struct {
	Dir  ObjID
	Name string
}

// RecordSet is a journal in memory: the first record of each key. Inline
// contents stay on the disk.
type RecordSet struct {
	Step Step
	// Objects, by number; every parent is in it. It always holds RootObj if
	// it holds anything.
	Objects map[ObjID]*Object
	// Order lists the objects as they were recorded: ancestors first.
	Order    []ObjID
	Xattrs   map[ObjID][]hostfs.Xattr
	Bindings map[RecordKey]ObjID
	// BindingOrder lists the keys of Bindings, oldest first.
	BindingOrder []RecordKey
	Contents     map[ObjID][]Content
	Retained     map[ObjID]bool
	Freed        map[ObjID]bool
	Gone         map[ObjID]bool
	Lost         map[ObjID]bool
	Unprotected  bool

	// Torn is not nil if the journal's tail is cut off or damaged. For the open
	// step that is expected after a crash; for a closed one it is damage.
	Torn error
	// Size is the number of good bytes.
	Size int64
}

func newSet() *RecordSet {
	return &RecordSet{
		Objects:  map[ObjID]*Object{},
		Xattrs:   map[ObjID][]hostfs.Xattr{},
		Bindings: map[RecordKey]ObjID{},
		Contents: map[ObjID][]Content{},
		Retained: map[ObjID]bool{},
		Freed:    map[ObjID]bool{},
		Gone:     map[ObjID]bool{},
		Lost:     map[ObjID]bool{},
	}
}

// ReadJournal loads the journal of the step directory behind dirfd. A torn
// tail is reported in Torn and what precedes it is returned; a record that is
// well framed but malformed or inconsistent is damage and an error wrapping
// [ErrDamaged], as is a journal without its first record.
func ReadJournal(dirfd int) (*RecordSet, error) {
	fd, err := hostfs.OpenAt(dirfd, "journal", posix.O_RDONLY|posix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, posix.ENOENT) {
			return nil, fmt.Errorf("%w: no journal: %w", ErrDamaged, err)
		}
		return nil, err
	}
	defer hostfs.Close(fd)
	return ReadJournalFD(fd)
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
	err = ScanJournal(fd, func(t RecordType, p []byte, _ int64) error {
		if t != TypeStep {
			return fmt.Errorf("%w: no step record", ErrMalformed)
		}
		return errors.Join(json.Unmarshal(p, &rec), found)
	})
	if !errors.Is(err, found) || rec.ID == 0 {
		return nil, fmt.Errorf("undolog: no step record: %w", err)
	}
	return &rec, nil
}

// ReadRoot returns the inode that the journal of the step directory behind dirfd knows
// the working folder by, if it names it.
func ReadRoot(dirfd int) (id hostfs.ID, ok bool) {
	fd, err := hostfs.OpenRegular(dirfd, "journal")
	if err != nil {
		return id, false
	}
	defer hostfs.Close(fd)
	found := errors.New("found")
	err = ScanJournal(fd, func(t RecordType, p []byte, _ int64) error {
		if t != TypeObject {
			return nil
		}
		o, err := DecodeObject(p)
		if err == nil && o.Obj == RootObj {
			id, err = o.ID, found
		}
		return err
	})
	return id, errors.Is(err, found)
}

// ReadJournalFD is Read for an open journal.
func ReadJournalFD(fd int) (*RecordSet, error) {
	r := newSet()
	first := true
	err := ScanJournal(fd, func(t RecordType, p []byte, off int64) error {
		if first != (t == TypeStep) {
			return fmt.Errorf("%w: step record misplaced", ErrMalformed)
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
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case first:
		return nil, fmt.Errorf("%w: journal is empty", ErrDamaged)
	}
	return r, nil
}

// add takes one record in.
func (r *RecordSet) add(t RecordType, p []byte, off int64) error {
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
		delete(r.Bindings, RecordKey{dir, name})
		return err
	case TypeContent:
		c, err := decodeContent(p, off)
		if err != nil {
			return err
		}
		r.Contents[c.Obj] = append(r.Contents[c.Obj], c)
		return r.known(c.Obj)
	case TypeRetain, TypeFreed, TypeGone, TypeLost:
		o, err := DecodeObj(p)
		if err != nil {
			return err
		}
		r.mark(t)[o] = true
		return r.known(o)
	case TypeUnprotected:
		r.Unprotected = true
		return nil
	}
	return fmt.Errorf("%w: unknown type %d", ErrMalformed, t)
}

func (r *RecordSet) mark(t RecordType) map[ObjID]bool {
	switch t {
	case TypeRetain:
		return r.Retained
	case TypeFreed:
		return r.Freed
	case TypeLost:
		return r.Lost
	}
	return r.Gone
}

func (r *RecordSet) known(obj ObjID) error {
	if r.Objects[obj] == nil {
		return fmt.Errorf("%w: object %d is not recorded", ErrMalformed, obj)
	}
	return nil
}

func (r *RecordSet) isDir(obj ObjID) error {
	o := r.Objects[obj]
	if o == nil {
		return r.known(obj)
	}
	if !o.Created && o.Meta.Mode&posix.S_IFMT != posix.S_IFDIR {
		return fmt.Errorf("%w: object %d is not a directory", ErrMalformed, obj)
	}
	return nil
}

func (r *RecordSet) addObject(o *Object) error {
	if r.Objects[o.Obj] != nil {
		return nil
	}
	if (o.Obj == RootObj) != (len(r.Objects) == 0) {
		return fmt.Errorf("%w: the first object must be the root", ErrMalformed)
	}
	if o.Obj == RootObj && (o.Parent != NoObj || o.Created || o.Meta.Mode&posix.S_IFMT != posix.S_IFDIR) {
		return fmt.Errorf("%w: bad root object", ErrMalformed)
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

func (r *RecordSet) addBinding(b Binding) error {
	if err := r.isDir(b.Dir); err != nil {
		return err
	}
	if b.Old != NoObj {
		if err := r.known(b.Old); err != nil {
			return err
		}
		if r.Objects[b.Old].Created || b.Old == RootObj {
			return fmt.Errorf("%w: binding to object %d, which was not there", ErrMalformed, b.Old)
		}
	}
	key := RecordKey{b.Dir, b.Name}
	if _, dup := r.Bindings[key]; !dup {
		r.Bindings[key] = b.Old
		r.BindingOrder = append(r.BindingOrder, key)
	}
	return nil
}

// Keys returns the touched bindings in the order in which they were
// recorded, leaving out those that were forgotten.
func (r *RecordSet) Keys() []RecordKey {
	out := make([]RecordKey, 0, len(r.Bindings))
	seen := make(map[RecordKey]bool, len(r.Bindings))
	for _, k := range r.BindingOrder {
		if _, ok := r.Bindings[k]; ok && !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// Path is where obj was when the step began, as far as that is recorded.
func (r *RecordSet) Path(obj ObjID) string {
	var path string
	for range MaxObjects {
		o := r.Objects[obj]
		if o == nil || o.Obj == RootObj || o.Name == "" {
			break
		}
		if path != "" {
			path = "/" + path
		}
		path, obj = o.Name+path, o.Parent
	}
	return path
}

// Complete tells whether the records hold all of obj's content. A capture that
// failed in between and was done again has left some ranges twice.
func (r *RecordSet) Complete(obj ObjID) bool {
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
