package posixmeta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Options of [Open].
type Options struct {
	// Sync makes each change durable before the call returns.
	Sync bool
	// LockTimeout is how long Open waits for another process to give up the file
	// (a second if 0).
	LockTimeout time.Duration
}

// ErrLocked: another process has the store.
var ErrLocked = errors.New("posixmeta: another process uses this store")

// ErrNoStep: nothing was noted for such a step.
var ErrNoStep = errors.New("posixmeta: no such step")

// Store holds the entries of one folder. Methods are safe for concurrent use.
// Paths are relative to the folder, clean and "/"-separated.
type Store struct {
	db *bolt.DB

	mu   sync.Mutex // held during every change
	step int64      // 0: changes are not noted
}

// The buckets: see [steps] for the latter two.
var (
	entriesBucket = []byte("entries")
	undoBucket    = []byte("undo")
	redoBucket    = []byte("redo")
)

// Open opens the store file, making it if it is missing. It must not lie in the
// folder.
func Open(path string, o Options) (*Store, error) {
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: o.LockTimeout, NoSync: !o.Sync})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, fmt.Errorf("posixmeta: open %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{entriesBucket, undoBucket, redoBucket} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("posixmeta: %s: %w", path, err)
	}
	return &Store{db: db}, nil
}

// Close writes everything to the disk.
func (s *Store) Close() error { return errors.Join(s.db.Sync(), s.db.Close()) }

// Get returns the entry of a path; the zero Entry if it has none.
func (s *Store) Get(path string) (e Entry, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		e, err = get(tx, path)
		return err
	})
	return e, err
}

func get(tx *bolt.Tx, path string) (Entry, error) {
	b := tx.Bucket(entriesBucket).Get([]byte(path))
	if b == nil {
		return Entry{}, nil
	}
	e, err := decodeEntry(b)
	if err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// Change replaces the entry of a path by what change makes of it.
func (s *Store) Change(path string, change func(*Entry)) error {
	return s.update(func(c *changes) error {
		e, err := get(c.tx, path)
		if err != nil {
			return err
		}
		change(&e)
		if e == (Entry{}) {
			return c.set([]byte(path), nil)
		}
		return c.set([]byte(path), e.encode())
	})
}

// Removed forgets a path and everything below.
func (s *Store) Removed(path string) error {
	return s.update(func(c *changes) error { return c.removeTree(path) })
}

// Renamed moves the entries of a path and of everything below; those of what it
// replaces are forgotten.
func (s *Store) Renamed(from, to string) error {
	if from == to {
		return nil
	}
	return s.update(func(c *changes) error {
		moved := c.tree(from)
		return errors.Join(c.removeTree(to), c.removeTree(from), c.putTree(moved, from, to))
	})
}

// Linked gives a further name the entry of a path: the file system counts them
// as one file, but later changes by one name are not seen by the other.
func (s *Store) Linked(path, link string) error {
	return s.update(func(c *changes) error {
		return c.set([]byte(link), bytes.Clone(c.tx.Bucket(entriesBucket).Get([]byte(path))))
	})
}

// Begin opens a step: what changes from now on is noted under its number, which
// is not 0, until the next is opened. What could be redone is not any more.
func (s *Store) Begin(step int64) error {
	if step == 0 {
		return fmt.Errorf("%w: 0", ErrNoStep)
	}
	return s.enter(step)
}

// enter is Begin, unless that step is open; 0: nothing is noted from now on.
func (s *Store) enter(step int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step == s.step {
		return nil
	}
	if step == 0 {
		s.step = 0
		return nil
	}
	err := s.db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket(redoBucket); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(redoBucket); err != nil {
			return err
		}
		return steps{tx}.mark(step)
	})
	if err == nil {
		s.step = step
	}
	return err
}

func stepKey(step int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(step)) }

// changes is one transaction that notes what it changes.
type changes struct {
	tx    *bolt.Tx
	noted *bolt.Bucket // nil without an open step
}

func (s *Store) update(f func(*changes) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db.Update(func(tx *bolt.Tx) (err error) {
		c := &changes{tx: tx}
		if s.step != 0 {
			if c.noted, err = (steps{tx}).note(s.step); err != nil {
				return err
			}
		}
		return f(c)
	})
}

// set stores an entry, or removes it (nil), and notes what was there at its
// first touch.
func (c *changes) set(path, value []byte) error {
	entries := c.tx.Bucket(entriesBucket)
	if c.noted != nil && c.noted.Get(path) == nil {
		if err := c.noted.Put(path, note(entries.Get(path))); err != nil {
			return err
		}
	}
	if len(value) == 0 {
		return entries.Delete(path)
	}
	return entries.Put(path, value)
}

// note is how a noted entry is stored: a zero byte, then the entry, or nothing
// where there was none.
func note(value []byte) []byte { return append([]byte{0}, value...) }

type item struct{ path, value []byte }

// tree returns the entries of a path and of everything below.
func (c *changes) tree(path string) (found []item) {
	cur := c.tx.Bucket(entriesBucket).Cursor()
	if k, v := cur.Seek([]byte(path)); k != nil && string(k) == path {
		found = append(found, item{bytes.Clone(k), bytes.Clone(v)})
	}
	below := []byte(path + "/")
	for k, v := cur.Seek(below); k != nil && bytes.HasPrefix(k, below); k, v = cur.Next() {
		found = append(found, item{bytes.Clone(k), bytes.Clone(v)})
	}
	return found
}

// putTree stores at the path to, and below it, what was found at from.
func (c *changes) putTree(found []item, from, to string) (err error) {
	for _, m := range found {
		err = errors.Join(err, c.set(append([]byte(to), m.path[len(from):]...), m.value))
	}
	return err
}

func (c *changes) removeTree(path string) (err error) {
	for _, f := range c.tree(path) {
		err = errors.Join(err, c.set(f.path, nil))
	}
	return err
}
