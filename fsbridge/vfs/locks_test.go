package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TestD2LockOfAClosedFile: who asks for a lock without waiting (LOCK_NB, F_SETLK, F_GETLK)
// after its holder has closed the file gets it, though the kernel tells only later that
// the open file is gone. If the holder has other descriptors, the lock is refused.
func TestD2LockOfAClosedFile(t *testing.T) {
	const holder, other = 1, 2 // the client's numbers of open files as owners
	record := FileLock{Type: posix.F_WRLCK, End: 4}
	flock := func(tree *Tree, node, fh, _ uint64) error {
		return tree.Flock(Request{}, node, fh, posix.LOCK_EX, false)
	}
	set := func(tree *Tree, node, fh, owner uint64) error {
		return tree.SetLock(Request{}, node, fh, owner, record, false)
	}
	test := func(tree *Tree, node, fh, owner uint64) error {
		found, err := tree.TestLock(Request{}, node, fh, owner, record)
		if err == nil && found.Type != posix.F_UNLCK {
			err = posix.EAGAIN
		}
		return err
	}
	for name, c := range map[string]struct {
		hold, ask func(tree *Tree, node, fh, owner uint64) error
		waits     Operation
		counted   uint64 // how often, when it waits
	}{
		"flock": {flock, flock, OpSetlkw, 1}, "record": {set, set, OpSetlkw, 1}, "who": {set, test, OpGetlk, 2},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			host := t.TempDir()
			check(os.WriteFile(filepath.Join(host, "f"), nil, 0o644))
			tree := treeOf(t, host)
			e, err := tree.Lookup(RootID, "f")
			check(err)
			open := func() uint64 {
				o, err := tree.Open(Request{}, e.Node, posix.O_RDWR, false)
				check(err)
				return o.Handle
			}
			held, asked := open(), open()
			ask := func() error { return c.ask(tree, e.Node, asked, other) }

			check(c.hold(tree, e.Node, held, holder))
			tree.leaving = time.Hour // without the holder's descriptor being closed nobody waits
			if err := ask(); !errors.Is(err, posix.EAGAIN) {
				t.Fatalf("a lock that another open file has: %v", err)
			}
			tree.leaving = time.Millisecond
			tree.Flush(e.Node, held, 3)
			if err := ask(); !errors.Is(err, posix.EAGAIN) {
				t.Fatalf("a lock whose holder has another descriptor: %v", err)
			}
			tree.leaving = time.Hour // that is known now
			if err := ask(); !errors.Is(err, posix.EAGAIN) {
				t.Fatalf("asked again: %v", err)
			}

			tree.Flush(e.Node, held, 3)
			before := tree.counts[c.waits].Load()
			got := make(chan error)
			go func() { got <- ask() }()
			for tree.counts[c.waits].Load() < before+c.counted { // it waits
				time.Sleep(time.Millisecond)
			}
			tree.Release(held)
			check(<-got)
			tree.Release(asked)
			if !tree.locks.Empty() {
				t.Error("something is kept of locks that are gone")
			}
		})
	}
}

// TestD2LockFreedWhileItIsAskedFor: the open file that has a lock goes just after somebody was
// refused for it. Who asked gets it all the same: the descriptor was closed before.
func TestD2LockFreedWhileItIsAskedFor(t *testing.T) {
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tree := treeOf(t, host)
	tree.leaving = time.Hour
	e, err := tree.Lookup(RootID, "f")
	if err != nil {
		t.Fatal(err)
	}
	open := func() uint64 {
		o, err := tree.Open(Request{}, e.Node, posix.O_RDWR, false)
		if err != nil {
			t.Fatal(err)
		}
		return o.Handle
	}
	held, asked := open(), open()
	if err := tree.Flock(Request{}, e.Node, held, posix.LOCK_EX, false); err != nil {
		t.Fatal(err)
	}
	tree.Flush(e.Node, held, 3)
	err = tree.lockSoon(Request{}, OpSetlk, e.Node, asked, false, func(h *handle) error {
		err := posix.Flock(h.FD, posix.LOCK_EX|posix.LOCK_NB)
		tree.Release(held) // at the first try; again it does nothing
		return err
	})
	if err != nil {
		t.Fatalf("the lock that was given up while it was asked for: %v", err)
	}
}
