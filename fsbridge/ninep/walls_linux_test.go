package ninep

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestW12Kinds: a guest that speaks to the server itself opens regular files and directories, and nothing else: no link of the folder is followed, by no message, and what is hidden
// cannot be reached by a name, by a fid that it had before it was moved, or by what is put in its place.
func TestW12Kinds(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o666))
	l := newLab(t, func(o *Options) {
		at := o.Tree.Root
		o.Tree.Hidden = []string{"hidden/key", "dir"}
		for _, name := range []string{"hidden", "dir", "d"} {
			must(t, os.Mkdir(filepath.Join(at.Path(), name), 0o777))
		}
		for _, name := range []string{"hidden/key", "dir/key", "f"} {
			must(t, os.WriteFile(filepath.Join(at.Path(), name), []byte("content"), 0o666))
		}
		must(t, errors.Join(os.Symlink(outside, filepath.Join(at.Path(), "away")), os.Symlink(outside+"/f", filepath.Join(at.Path(), "file")), unix.Mkfifo(filepath.Join(at.Path(), "pipe"), 0o666)))
		s, err := net.Listen("unix", filepath.Join(at.Path(), "socket"))
		must(t, err)
		t.Cleanup(func() { s.Close() })
	})
	before := treesnap.MustTake(t, outside)
	c := l.dial()
	fid := uint32(10)
	for _, name := range []string{"away", "file", "pipe", "socket"} {
		fid += 10
		must(t, c.walk(0, fid, name))
		for flags := range uint32(3) {
			must(t, c.walk(fid, fid+1+flags))
			if err := c.rpc(typTlopen, &tlopen{fid + 1 + flags, flags | syscall.O_TRUNC | syscall.O_CREAT}, new(ropen)); err == nil {
				t.Errorf("%s was opened with %d", name, flags)
			}
		}
		if err := c.walk(fid, fid+5, "f"); err == nil {
			t.Errorf("walked through %s", name)
		}
		if err := c.rpc(typTlcreate, &tlcreate{fid: fid, name: "made"}, new(empty)); err == nil {
			t.Errorf("made something in %s", name)
		}
		if name == "away" || name == "file" {
			_ = c.rpc(typTsetattr, &tsetattr{fid: fid, valid: setMode | setSize, mode: 0o600}, new(empty))
			_ = c.rpc(typTmkdir, &tmkdir{fid, "made", 0o755, 0}, new(empty))
			_ = c.rpc(typTunlinkat, &tunlinkat{fid, "f", 0}, new(empty))
			_ = c.rpc(typTxattrcreate, &txattrcreate{fid, "user.a", 1, 0}, new(empty))
		}
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, outside))
	for _, names := range [][]string{{"hidden", "key"}, {"dir"}, {"dir", "key"}} {
		if err := c.walk(0, 90, names...); err == nil {
			t.Errorf("%q was walked to", names)
		}
	}
	// Whatever it makes of the names, they stay hidden.
	_ = c.rpc(typTrenameat, &trenameat{0, "hidden", 0, "shown"}, new(empty))
	_ = c.rpc(typTrenameat, &trenameat{0, "dir", 0, "shown-dir"}, new(empty))
	for i, names := range [][]string{{"hidden", "key"}, {"shown", "key"}, {"dir", "key"}, {"shown-dir", "key"}} {
		if err := c.walk(0, 91+uint32(i), names...); err == nil {
			t.Errorf("%q was walked to", names)
		}
	}
}

// TestW12Swapped: while somebody exchanges directories and files with links that lead out of the folder, a guest walks to them, opens, changes, makes and removes what they are: nothing outside is changed or read.
func TestW12Swapped(t *testing.T) {
	outside := t.TempDir()
	for _, name := range []string{"f", "g"} {
		must(t, os.WriteFile(filepath.Join(outside, name), []byte("outside"), 0o666))
	}
	l := newLab(t, nil)
	must(t, errors.Join(os.Mkdir(l.path("d"), 0o777), os.WriteFile(l.path("d/f"), []byte("content"), 0o666), os.WriteFile(l.path("last"), []byte("content"), 0o666),
		os.Symlink(outside, l.path("away")), os.Symlink(outside+"/f", l.path("last-away"))))
	before := treesnap.MustTake(t, outside)
	var stop atomic.Bool
	defer stop.Store(true)
	swapped := make(chan int, 1)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, l.path("d"), unix.AT_FDCWD, l.path("away"), unix.RENAME_EXCHANGE)
			_ = unix.Renameat2(unix.AT_FDCWD, l.path("last"), unix.AT_FDCWD, l.path("last-away"), unix.RENAME_EXCHANGE)
		}
		swapped <- n
	}()
	c := l.dial()
	done, refused := 0, 0
	note := func(err error) bool {
		if err != nil {
			refused++
			return false
		}
		done++
		return true
	}
	tries := require.Tries(t, 500)
	for i := 0; i < tries || done < 100 || refused < 100; i++ {
		for _, names := range [][]string{{"d", "f"}, {"last"}} {
			if !note(c.walk(0, 1, names...)) {
				continue
			}
			if note(c.rpc(typTlopen, &tlopen{1, syscall.O_RDWR}, new(ropen))) {
				if text, err := c.readAt(1, 0, 7); err == nil && text == "outside" {
					t.Fatalf("%q: read what is outside", names)
				}
				note(c.write(1, 0, "changed"))
			}
			note(c.rpc(typTsetattr, &tsetattr{fid: 1, valid: setMode, mode: 0o600 | uint32(i%2)}, new(empty)))
			must(t, c.clunk(1))
		}
		if note(c.walk(0, 2, "d")) {
			note(c.rpc(typTmkdir, &tmkdir{2, "made", 0o755, 0}, new(rqid)))
			note(c.rpc(typTunlinkat, &tunlinkat{2, "made", unix.AT_REMOVEDIR}, new(empty)))
			note(c.rpc(typTrenameat, &trenameat{2, "g", 2, "h"}, new(empty)))
			note(c.rpc(typTunlinkat, &tunlinkat{2, "h", 0}, new(empty)))
			if note(c.rpc(typTlcreate, &tlcreate{fid: 2, name: "g", flags: syscall.O_RDWR, mode: 0o600}, new(ropen))) {
				note(c.write(2, 0, "made"))
			}
			must(t, c.clunk(2))
		}
	}
	stop.Store(true)
	t.Logf("%d tries beside %d exchanges: %d done, %d refused", tries, <-swapped, done, refused)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, outside))
}
