package posixmeta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// steps is what is noted for steps, in one transaction. undo and redo have one
// bucket per step, whose sequence says which came first; in it a path leads to the
// entry that was there, or to nothing.
type steps struct{ tx *bolt.Tx }

// markerKey leads, in the bucket of undo, to the step that was open last and of
// which the log has not said yet that it is closed.
var markerKey = []byte("open")

func (t steps) marker() int64 {
	b := t.tx.Bucket(undoBucket).Get(markerKey)
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (t steps) mark(id int64) error {
	if id == 0 {
		return t.tx.Bucket(undoBucket).Delete(markerKey)
	}
	return t.tx.Bucket(undoBucket).Put(markerKey, stepKey(id))
}

// note returns the bucket of the open step's notes.
func (t steps) note(id int64) (*bolt.Bucket, error) {
	undo := t.tx.Bucket(undoBucket)
	if b := undo.Bucket(stepKey(id)); b != nil {
		return b, nil
	}
	seq, err := undo.NextSequence()
	if err != nil {
		return nil, err
	}
	b, err := undo.CreateBucket(stepKey(id))
	if err == nil {
		err = b.SetSequence(seq)
	}
	return b, err
}

// list returns the steps of which something is noted, oldest first.
func (t steps) list(of []byte) (ids []int64, err error) {
	parent := t.tx.Bucket(of)
	err = parent.ForEachBucket(func(k []byte) error {
		if len(k) != 8 {
			return fmt.Errorf("%w: step %x", ErrEntry, k)
		}
		ids = append(ids, int64(binary.BigEndian.Uint64(k)))
		return nil
	})
	seq := func(id int64) uint64 { return parent.Bucket(stepKey(id)).Sequence() }
	slices.SortFunc(ids, func(a, b int64) int {
		if seq(a) < seq(b) {
			return -1
		}
		return 1
	})
	return ids, err
}

func (t steps) drop(of []byte, id int64) error {
	err := t.tx.Bucket(of).DeleteBucket(stepKey(id))
	if errors.Is(err, bolterrors.ErrBucketNotFound) {
		return nil
	}
	return err
}

// travel sets everything to what was noted for a step, and notes the inverse.
func (t steps) travel(id int64, from, to []byte) error {
	noted := t.tx.Bucket(from).Bucket(stepKey(id))
	if noted == nil {
		return fmt.Errorf("%w: %d", ErrNoStep, id)
	}
	inverse, err := t.tx.Bucket(to).CreateBucketIfNotExists(stepKey(id))
	if err == nil {
		err = inverse.SetSequence(noted.Sequence())
	}
	if err != nil {
		return err
	}
	entries := t.tx.Bucket(entriesBucket)
	err = noted.ForEach(func(path, was []byte) error {
		if err := inverse.Put(bytes.Clone(path), note(entries.Get(path))); err != nil {
			return err
		}
		if len(was) < 2 {
			return entries.Delete(path)
		}
		return entries.Put(bytes.Clone(path), bytes.Clone(was[1:]))
	})
	if err != nil {
		return err
	}
	return t.drop(from, id)
}

// Settle brings the entries to where the undo log is, however that got there: by
// an undo, a redo, a rollback, the recovery after a crash. done are the steps that
// are done and can be undone, undone those that can be done again, open the one that
// is open (0: none). The log decides; nothing changes if it agrees with the store.
//
// A step of which neither list knows was rolled back, if the log never told that it
// was closed; else it was evicted.
func (s *Store) Settle(open int64, done, undone []int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != open {
		s.step = 0
	}
	return s.db.Update(func(tx *bolt.Tx) error {
		t := steps{tx}
		rolled := t.marker()
		noted, err := t.list(undoBucket)
		if err != nil {
			return err
		}
		slices.Reverse(noted) // newest first
		for _, id := range noted {
			switch {
			case id == open && open != 0, slices.Contains(done, id):
			case slices.Contains(undone, id):
				err = t.travel(id, undoBucket, redoBucket)
			case id == rolled:
				if err = t.travel(id, undoBucket, redoBucket); err == nil {
					err = t.drop(redoBucket, id)
				}
			default:
				err = t.drop(undoBucket, id)
			}
			if err != nil {
				return err
			}
		}
		if rolled != open {
			if err := t.mark(0); err != nil {
				return err
			}
		}
		again, err := t.list(redoBucket)
		for _, id := range again {
			switch {
			case err != nil:
			case slices.Contains(undone, id):
			case slices.Contains(done, id):
				err = t.travel(id, redoBucket, undoBucket)
			default:
				err = t.drop(redoBucket, id)
			}
		}
		return err
	})
}

// Restore gives a path, and everything below it, the entries that it had before the
// last of the given steps, which are those up to now, newest first. What that changes is
// noted for the step as, unless that is 0.
func (s *Store) Restore(path string, newestFirst []int64, as int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db.Update(func(tx *bolt.Tx) (err error) {
		t, c := steps{tx}, &changes{tx: tx}
		if as != 0 {
			if c.noted, err = t.note(as); err != nil {
				return err
			}
		}
		want := map[string][]byte{}
		for _, id := range newestFirst {
			noted := tx.Bucket(undoBucket).Bucket(stepKey(id))
			if noted == nil || id == as {
				continue
			}
			err := noted.ForEach(func(p, was []byte) error {
				if path == "." || string(p) == path || bytes.HasPrefix(p, []byte(path+"/")) {
					want[string(p)] = bytes.Clone(was[1:])
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		for p, was := range want {
			if err := c.set([]byte(p), was); err != nil {
				return err
			}
		}
		return nil
	})
}

// Exchanged swaps the entries of two paths and of everything below them.
func (s *Store) Exchanged(a, b string) error {
	return s.update(func(c *changes) error {
		atA, atB := c.tree(a), c.tree(b)
		return errors.Join(c.removeTree(a), c.removeTree(b), c.putTree(atA, a, b), c.putTree(atB, b, a))
	})
}
