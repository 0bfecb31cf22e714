package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	fileName = "marks" // in the undo directory
	maxMarks = 256
	maxName  = 64 // bytes
	maxFile  = 1 << 20
)

// Why a mark cannot be reached any more.
const (
	MarksEvicted = "steps after it were pushed out of the history"
	MarksUndone  = "it was set after steps that were undone, and something new was run since"
)

// Marks is the marks of one log.
type Marks struct {
	dir int // the undo directory's descriptor; not closed

	mu   sync.Mutex
	list []format.Mark // in the order in which they were set
}

// OpenMarks reads the marks in the undo directory behind dir. After an error the Store can be used all the
// same, and has none.
func OpenMarks(dir int) (*Marks, error) {
	s := &Marks{dir: dir}
	b, err := hostfs.ReadSmall(dir, fileName, maxFile)
	if errors.Is(err, posix.ENOENT) {
		return s, nil
	}
	if err == nil {
		s.list, err = marksDecode(b)
	}
	return s, err
}

// marksDecode trusts nothing in b.
func marksDecode(b []byte) ([]format.Mark, error) {
	var list []format.Mark
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(list) > maxMarks {
		return nil, fmt.Errorf("%d marks", len(list))
	}
	for i, m := range list {
		if err := check(m.Name); err != nil {
			return nil, err
		}
		if named(list[:i], m.Name) >= 0 {
			return nil, fmt.Errorf("mark %s is there twice", m.Name)
		}
	}
	return list, nil
}

func check(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || name[0] == '-' || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%w: %q is no name for one: 1 to %d bytes of printable characters, no space, no - at the front", format.ErrMark, name, maxName)
	}
	return nil
}

func named(list []format.Mark, name string) int {
	return slices.IndexFunc(list, func(m format.Mark) bool { return m.Name == name })
}

// Set makes a mark. place says after which step it stands; it is called with the lock held that [Marks.Lose] takes. An error that wraps [format.ErrMark] says that the name is taken or
// cannot be one, or that there are 256 marks, none of which is lost.
func (s *Marks) Set(name string, at time.Time, place func() (after format.StepID, seq uint64)) error {
	if err := check(name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list)
	if named(list, name) >= 0 {
		return fmt.Errorf("%w: there is one with the name %s; 'sandbox mark --delete %s' takes it away", format.ErrMark, name, name)
	}
	if len(list) >= maxMarks {
		i := slices.IndexFunc(list, func(m format.Mark) bool { return m.Lost != "" })
		if i < 0 {
			return fmt.Errorf("%w: there are %d; 'sandbox mark --delete NAME' takes one away", format.ErrMark, maxMarks)
		}
		list = slices.Delete(list, i, i+1)
	}
	m := format.Mark{Name: name, At: at}
	m.After, m.Seq = place()
	return s.write(append(list, m))
}

// Delete takes a mark away, or returns an error that wraps [format.ErrMark].
func (s *Marks) Delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := named(s.list, name)
	if i < 0 {
		return unknown(name)
	}
	return s.write(slices.Delete(slices.Clone(s.list), i, i+1))
}

// List returns the marks in the order in which they were set.
func (s *Marks) List() []format.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// Find returns a mark that can be reached, or an error that wraps [format.ErrMark].
func (s *Marks) Find(name string) (format.Mark, error) {
	list := s.List()
	i := named(list, name)
	switch {
	case i < 0:
		return format.Mark{}, unknown(name)
	case list[i].Lost != "":
		return format.Mark{}, fmt.Errorf("%w: %s cannot be reached any more: %s", format.ErrMark, name, list[i].Lost)
	}
	return list[i], nil
}

func unknown(name string) error {
	return fmt.Errorf("%w: none has the name %s; 'sandbox mark' lists them", format.ErrMark, name)
}

// Lose says of marks that they cannot be reached any more, and why. Call it before that is so.
func (s *Marks) Lose(why string, lost func(format.Mark) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, changed := slices.Clone(s.list), false
	for i := range list {
		if m := &list[i]; m.Lost == "" && lost(*m) {
			m.Lost, changed = why, true
		}
	}
	if !changed {
		return nil
	}
	return s.write(list)
}

// Clear takes all marks away.
func (s *Marks) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	return s.write(nil)
}

// write makes list the marks. The lock is held.
func (s *Marks) write(list []format.Mark) error {
	b, err := json.Marshal(list)
	if err == nil {
		err = WriteFile(s.dir, fileName, b)
	}
	if err == nil {
		s.list = list
	}
	return err
}
