package undolog

import (
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestClosedWhileForking: a log that was closed can be opened at once, although a process that is being started still has copies of
// all descriptors.
func TestClosedWhileForking(t *testing.T) {
	s := newSession(t, nil)
	copied, err := posix.Dup(s.log.lock) // as in a child before it executes its program
	if err != nil {
		t.Fatal(err)
	}
	defer hostfs.Close(copied)
	o := s.log.o
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
