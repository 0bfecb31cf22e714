package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// overtaken is a tree with a file that is open, whose RELEASE another worker has taken, who performs it when somebody has looked for it twice.
type overtaken struct {
	*Tree
	host string
	node uint64
	held uint64 // the handle
	seen bool   // the file was at its name when it was closed
}

func newOvertaken(t *testing.T) *overtaken {
	t.Helper()
	host := t.TempDir()
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(host, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := &overtaken{Tree: treeOf(t, host), host: host}
	e, err := o.Lookup(RootID, "f")
	if err != nil {
		t.Fatal(err)
	}
	o.node = e.Node
	o.held = o.open(t)
	looks := 0
	o.InOrder(func() func() bool {
		return func() bool {
			if looks++; looks == 2 {
				b, err := os.ReadFile(filepath.Join(host, "f"))
				o.seen = err == nil && string(b) == "f"
				o.Release(o.held)
			}
			return looks >= 2
		}
	})
	return o
}

func (o *overtaken) open(t *testing.T) uint64 {
	t.Helper()
	opened, err := o.Open(Request{}, o.node, posix.O_RDWR, false)
	if err != nil {
		t.Fatal(err)
	}
	return opened.Handle
}

// TestRemovedWhenClosed: a file loses its name after it was closed, if it was closed before: a RELEASE that another worker is at is not overtaken.
func TestRemovedWhenClosed(t *testing.T) {
	for name, remove := range map[string]func(o *overtaken) error{
		"unlink": func(o *overtaken) error { return o.Unlink(Request{}, RootID, "f") },
		"rename": func(o *overtaken) error { return o.Rename(Request{}, RootID, "g", RootID, "f", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOvertaken(t)
			if err := remove(o); err != nil {
				t.Fatal(err)
			}
			if !o.seen {
				t.Error("the file was not closed before its name was gone")
			}
		})
	}
}

// TestD2LockOvertakesNoClose: who does not wait for a lock gets that of an open file which was closed before, however long its RELEASE
// takes; nobody has to have said that a descriptor was closed. A lock that somebody keeps is refused at once.
func TestD2LockOvertakesNoClose(t *testing.T) {
	o := newOvertaken(t)
	if err := o.Flock(Request{}, o.node, o.held, posix.LOCK_EX, false); err != nil {
		t.Fatal(err)
	}
	asked := o.open(t)
	if err := o.Flock(Request{}, o.node, asked, posix.LOCK_EX, false); err != nil {
		t.Fatalf("the lock of a file that was closed: %v", err)
	}
	if err := o.Flock(Request{}, o.node, o.open(t), posix.LOCK_EX, false); !errors.Is(err, posix.EAGAIN) {
		t.Fatalf("a lock that somebody has: %v", err)
	}
}

// TestLockUntilClosed: a lock is not taken for given up while another request has the file that has it, after its RELEASE.
func TestLockUntilClosed(t *testing.T) {
	o := newOvertaken(t)
	if err := o.Flock(Request{}, o.node, o.held, posix.LOCK_EX, false); err != nil {
		t.Fatal(err)
	}
	h := o.handle(o.held, o.node) // another request, of the same file
	o.Flush(o.node, o.held, 3)
	o.Release(o.held)
	if !o.locks.Leaving(o.node) {
		t.Fatal("nobody would wait for it")
	}
	h.Release()
	if !o.locks.Empty() || o.locks.Leaving(o.node) {
		t.Error("the lock is there after its file was closed")
	}
}
