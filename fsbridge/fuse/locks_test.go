//go:build linux

package fuse

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// open2 opens the same file inside and outside.
func open2(t *testing.T, m *mounted, name string) (inside, outside *os.File) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.host, name), []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	return open(m.mnt), open(m.host)
}

// record sets a lock of this process, or of an open file, on two bytes.
func record(f *os.File, command int, kind int16, start int64) error {
	l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: start, Len: 2}
	return unix.FcntlFlock(f.Fd(), command, &l)
}

// TestD2RecordLocks: a lock inside is in the way of one outside, by bytes and kind, and the other way round.
func TestD2RecordLocks(t *testing.T) {
	m := mount(t, nil)
	inside, outside := open2(t, m, "f")
	for _, c := range []struct {
		name          string
		first, second int16
		at            int64
		conflict      bool
	}{
		{"two writers", unix.F_WRLCK, unix.F_WRLCK, 0, true},
		{"a writer, a reader", unix.F_WRLCK, unix.F_RDLCK, 1, true},
		{"a reader, a writer", unix.F_RDLCK, unix.F_WRLCK, 0, true},
		{"two readers", unix.F_RDLCK, unix.F_RDLCK, 0, false},
		{"other bytes", unix.F_WRLCK, unix.F_WRLCK, 2, false},
	} {
		// Outside by open file: one process's own locks are in nobody's way.
		for _, from := range []string{"inside", "outside"} {
			set := func(in bool, kind int16, at int64) error {
				if in {
					return record(inside, unix.F_SETLK, kind, at)
				}
				return record(outside, unix.F_OFD_SETLK, kind, at)
			}
			if err := set(from == "inside", c.first, 0); err != nil {
				t.Fatalf("%s, %s first: %v", c.name, from, err)
			}
			err := set(from != "inside", c.second, c.at)
			if errors.Is(err, unix.EAGAIN) != c.conflict || err != nil && !c.conflict {
				t.Errorf("%s, %s first: %v, conflict expected: %v", c.name, from, err, c.conflict)
			}
			for _, in := range []bool{true, false} {
				for _, at := range []int64{0, 2, 1} {
					if err := set(in, unix.F_UNLCK, at); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if n := m.Counts()["SETLK"]; n == 0 {
		t.Error("no lock reached the bridge")
	}
}

// TestD2Flock: the same for flock(2), whose locks go with the open file.
func TestD2Flock(t *testing.T) {
	m := mount(t, nil)
	inside, outside := open2(t, m, "f")
	try := func(f *os.File, how int) error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) }
	if err := try(inside, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := try(outside, unix.LOCK_SH); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("outside beside one inside: %v", err)
	}
	other, err := os.Open(filepath.Join(m.mnt, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := try(other, unix.LOCK_SH); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("inside beside one inside: %v", err)
	}
	inside.Close()
	waitLock(t, func() error { return try(outside, unix.LOCK_EX) })
	if err := try(other, unix.LOCK_SH); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("inside beside one outside: %v", err)
	}
}

// waitLock tries until it works: the kernel releases files a moment after they were closed.
func waitLock(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for err := try(); err != nil; err = try() {
		if time.Now().After(deadline) {
			t.Fatalf("still locked: %v", err)
		}
		runtime.Gosched()
	}
}

// TestD2LockGone: what a process has locked is free when it closes any descriptor of the
// file, and when it dies.
func TestD2LockGone(t *testing.T) {
	m := mount(t, nil)
	inside, outside := open2(t, m, "f")
	if err := record(inside, unix.F_SETLK, unix.F_WRLCK, 0); err != nil {
		t.Fatal(err)
	}
	second, err := os.OpenFile(filepath.Join(m.mnt, "f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := record(outside, unix.F_OFD_SETLK, unix.F_WRLCK, 0); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("outside beside one inside: %v", err)
	}
	second.Close()
	waitLock(t, func() error { return record(outside, unix.F_OFD_SETLK, unix.F_WRLCK, 0) })
	if err := record(outside, unix.F_OFD_SETLK, unix.F_UNLCK, 0); err != nil {
		t.Fatal(err)
	}

	for _, mode := range []string{"r+", "r"} {
		cmd := exec.Command(require.Program(t, "python3", "python3"), "-c", `
import fcntl, os, sys, time
f = open(sys.argv[1], sys.argv[2])
fcntl.lockf(f, fcntl.LOCK_EX if sys.argv[2] == "r+" else fcntl.LOCK_SH)
print("locked", flush=True); time.sleep(600)`, filepath.Join(m.mnt, "f"), mode)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		if err := record(outside, unix.F_OFD_SETLK, unix.F_WRLCK, 0); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("%s: outside beside another process inside: %v", mode, err)
		}
		if mode == "r+" {
			l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Len: 2}
			if err := unix.FcntlFlock(inside.Fd(), unix.F_GETLK, &l); err != nil || l.Type != unix.F_WRLCK || int(l.Pid) != cmd.Process.Pid {
				t.Errorf("F_GETLK inside: %+v, %v; want the lock of process %d", l, err, cmd.Process.Pid)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		waitLock(t, func() error { return record(outside, unix.F_OFD_SETLK, unix.F_WRLCK, 0) })
		if err := record(outside, unix.F_OFD_SETLK, unix.F_UNLCK, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestD2LockWaits: a lock that waits is given when somebody outside lets it go, and shows
// what was written meanwhile; a killed process waits no longer.
func TestD2LockWaits(t *testing.T) {
	m := mount(t, nil)
	inside, outside := open2(t, m, "f")
	content := make([]byte, 4)
	if _, err := inside.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	for _, flock := range []bool{false, true} {
		set := func(f *os.File, wait bool, kind int16) error {
			if flock {
				how := map[int16]int{unix.F_WRLCK: unix.LOCK_EX, unix.F_UNLCK: unix.LOCK_UN}[kind]
				if !wait {
					how |= unix.LOCK_NB
				}
				return unix.Flock(int(f.Fd()), how)
			}
			command := unix.F_OFD_SETLK
			if wait {
				command = unix.F_OFD_SETLKW
			}
			return record(f, command, kind, 0)
		}
		if err := set(outside, false, unix.F_WRLCK); err != nil {
			t.Fatal(err)
		}
		before := m.Counts()["SETLKW"]
		got := make(chan error)
		go func() {
			for {
				err := set(inside, true, unix.F_WRLCK)
				if !errors.Is(err, unix.EINTR) {
					got <- err
					return
				}
			}
		}()
		for m.Counts()["SETLKW"] == before {
			runtime.Gosched()
		}
		if _, err := outside.WriteAt([]byte("newer"), 0); err != nil {
			t.Fatal(err)
		}
		if err := set(outside, false, unix.F_UNLCK); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if _, err := inside.ReadAt(content, 0); err != nil || string(content) != "newe" {
			t.Errorf("flock %v: %q under the lock, %v", flock, content, err)
		}
		if err := set(inside, false, unix.F_UNLCK); err != nil {
			t.Fatal(err)
		}
		if _, err := outside.WriteAt([]byte("01234"), 0); err != nil {
			t.Fatal(err)
		}
	}

	if err := unix.Flock(int(outside.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(require.Program(t, "flock", "util-linux"), filepath.Join(m.mnt, "f"), "true")
	before := m.Counts()["SETLKW"]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for m.Counts()["SETLKW"] == before {
		runtime.Gosched()
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a killed process that waits for a lock: %v", err)
	}
}

// TestD2SQLite: a program outside and one inside write to one database at the same time,
// with both kinds of journals. No row is lost and nothing is damaged.
func TestD2SQLite(t *testing.T) {
	const writer = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=300, isolation_level=None)
for i in range(100):
    c.execute("insert into t values (?, ?)", (sys.argv[2], i))`
	const result = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
print(c.execute("select w, count(*) from t group by w order by w").fetchall(), c.execute("pragma integrity_check").fetchall())`
	for _, journal := range []string{"delete", "wal"} {
		t.Run(journal, func(t *testing.T) {
			m := mount(t, nil)
			python := func(script string, args ...string) *exec.Cmd {
				return exec.Command("python3", append([]string{"-c", script}, args...)...)
			}
			outside, inside := filepath.Join(m.host, "db"), filepath.Join(m.mnt, "db")
			if out, err := python(`
import sqlite3, sys
c = sqlite3.connect(sys.argv[1]); c.execute("pragma journal_mode=" + sys.argv[2]); c.execute("create table t (w, i)"); c.commit()`,
				outside, journal).CombinedOutput(); err != nil {
				t.Fatalf("python3 with sqlite3 is needed: %v: %s", err, out)
			}
			results := make(chan error)
			for _, c := range []*exec.Cmd{python(writer, outside, "outside"), python(writer, inside, "inside"), python(writer, inside, "inside too")} {
				go func() {
					out, err := c.CombinedOutput()
					if err != nil {
						err = errors.New(err.Error() + ": " + string(out))
					}
					results <- err
				}()
			}
			for range 3 {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
			for _, db := range []string{inside, outside} {
				out, err := python(result, db).CombinedOutput()
				if want := "[('inside', 100), ('inside too', 100), ('outside', 100)] [('ok',)]\n"; err != nil || string(out) != want {
					t.Errorf("%s: %v: %s", db, err, out)
				}
			}
		})
	}
}
