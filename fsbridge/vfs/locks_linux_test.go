package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestD2FlockOfAClosedFile: who asks for a lock with LOCK_NB after its holder has closed
// the file gets it, though the kernel tells only later that the open file is gone. If
// the holder has other descriptors, the lock is refused.
func TestD2FlockOfAClosedFile(t *testing.T) {
	host := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.WriteFile(filepath.Join(host, "f"), nil, 0o644))
	tree := treeOf(t, host)
	e, err := tree.Lookup(RootID, "f")
	check(err)
	open := func() uint64 {
		o, err := tree.Open(Request{}, e.Node, unix.O_RDWR, false)
		check(err)
		return o.Handle
	}
	lock := func(fh uint64) error { return tree.Flock(Request{}, e.Node, fh, unix.LOCK_EX, false) }
	holder, other := open(), open()

	check(lock(holder))
	tree.leaving = time.Hour // without the holder's descriptor being closed nobody waits
	if err := lock(other); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("a lock that another open file has: %v", err)
	}
	tree.leaving = time.Millisecond
	tree.Flush(e.Node, holder, 1)
	if err := lock(other); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("a lock whose holder has another descriptor: %v", err)
	}
	tree.leaving = time.Hour // that is known now
	if err := lock(other); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("asked again: %v", err)
	}

	tree.Flush(e.Node, holder, 1)
	got := make(chan error)
	go func() { got <- lock(other) }()
	for tree.counts[OpSetlkw].Load() < 2 { // it waits
		time.Sleep(time.Millisecond)
	}
	tree.Release(holder)
	check(<-got)
	tree.Release(other)
	if !tree.locks.Empty() {
		t.Error("something is kept of locks that are gone")
	}
}
