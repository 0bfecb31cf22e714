package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// lab is a store in a directory.
type lab struct {
	*Outputs
	t   *testing.T
	dir string
}

func newLab(t *testing.T, dir string) *lab {
	t.Helper()
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	s, err := OpenOutputs(root.FD())
	if err != nil {
		t.Fatal(err)
	}
	return &lab{s, t, dir}
}

func all(format.StepID) bool  { return true }
func none(format.StepID) bool { return false }

func (l *lab) file(id format.StepID) string { return filepath.Join(l.dir, OutputsName, fmt.Sprint(id)) }

func text(command, data string) format.CommandOutput {
	return format.CommandOutput{Command: command, StartedAt: time.Unix(1, 0).UTC(), Bytes: int64(len(data)), Data: []byte(data)}
}

func (l *lab) keep(id format.StepID, o format.CommandOutput) {
	l.t.Helper()
	if err := l.Keep(id, o, all); err != nil {
		l.t.Fatal(err)
	}
}

// read returns the commands with their data, of which only the beginning is shown.
func (l *lab) read(id format.StepID) string {
	l.t.Helper()
	list, err := l.Read(id)
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range list {
		fmt.Fprintf(&b, "%.10s=%.10q ", o.Command, o.Data)
	}
	return strings.TrimSpace(b.String())
}

func (l *lab) is(id format.StepID, want string) {
	l.t.Helper()
	if got := l.read(id); got != want {
		l.t.Errorf("step %d has %s, want %s", id, got, want)
	}
}

// What is kept is there again, also after a restart, until its step goes. A step that is not known gets nothing.
func TestKeep(t *testing.T) {
	l := newLab(t, t.TempDir())
	l.is(1, "")
	if err := l.Keep(7, text("none", "x"), none); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(l.dir, OutputsName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a step that nobody knows has made a directory: %v", err)
	}
	l.keep(1, text("one", "a\n\x00\xff"))
	l.keep(1, text("two", ""))
	l.keep(-2, text("three", "b"))
	for range 2 {
		l.is(1, `one="a\n\x00\xff" two=""`)
		l.is(-2, `three="b"`)
		l = newLab(t, l.dir)
	}
	for path, want := range map[string]os.FileMode{filepath.Join(l.dir, OutputsName): 0o700 | os.ModeDir, l.file(1): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	if err := l.Sweep(func() map[format.StepID]struct{} { return map[format.StepID]struct{}{-2: {}} }); err != nil {
		t.Fatal(err)
	}
	l.is(1, "")
	l.is(-2, `three="b"`)
	l.Close()
	if err := l.Keep(1, text("x", "x"), all); !errors.Is(err, format.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := l.Read(1); !errors.Is(err, format.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A command, a step and the directory have at most what they may have; the oldest steps go.
func TestBounds(t *testing.T) {
	l := newLab(t, t.TempDir())
	long := text(strings.Repeat("\xff", 2*format.OutputCommand), strings.Repeat("h", format.OutputHead)+"middle"+strings.Repeat("t", format.OutputTail))
	l.keep(1, long)
	list, err := l.Read(1)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d commands, %v", len(list), err)
	}
	o := list[0]
	if o.LeftOut != 6 || o.Cut != format.OutputHead || o.Bytes != long.Bytes || bytes.ContainsAny(o.Data, "midle") || len(o.Data) != format.OutputHead+format.OutputTail {
		t.Errorf("%d bytes, %d left out, cut at %d, %d kept", o.Bytes, o.LeftOut, o.Cut, len(o.Data))
	}
	for range 100 {
		l.keep(1, long)
	}
	list, err = l.Read(1)
	if err != nil || len(list) < 6 || len(list) > 20 {
		t.Fatalf("%d commands, %v", len(list), err)
	}
	if last := list[len(list)-1]; len(last.Data) != 0 || last.LeftOut != last.Bytes || last.Bytes != long.Bytes {
		t.Errorf("of the last one: %d bytes, %d left out, %d kept", last.Bytes, last.LeftOut, len(last.Data))
	}
	if st, err := os.Stat(l.file(1)); err != nil || st.Size() > maxStep {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
	one, err := os.Stat(l.file(1))
	if err != nil {
		t.Fatal(err)
	}
	l.most = 2 * one.Size()
	l.keep(3, text("three", "3"))
	l.is(3, `three="3"`)
	for range 6 {
		l.keep(2, long)
	}
	for range 6 {
		l.keep(4, long)
	}
	if l.total > l.most {
		t.Errorf("%d bytes", l.total)
	}
	l.is(1, "")
	l.is(3, `three="3"`)
	if again := newLab(t, l.dir); again.total != l.total {
		t.Errorf("%d bytes, after a restart %d", l.total, again.total)
	}
}

// What is left of a line whose writer was killed harms neither what was before nor what comes after.
func TestTorn(t *testing.T) {
	l := newLab(t, t.TempDir())
	l.keep(1, text("one", "1"))
	whole, err := os.ReadFile(l.file(1))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) - 1 {
		if err := os.WriteFile(l.file(1), append(bytes.Clone(whole), whole[:n]...), 0o600); err != nil {
			t.Fatal(err)
		}
		again := newLab(t, l.dir)
		again.is(1, `one="1"`)
		again.keep(1, text("two", "2"))
		again.is(1, `one="1" two="2"`)
	}
}

// What somebody else has put into the directory is neither read nor written, and goes.
func TestHostile(t *testing.T) {
	for name, place := range map[string]func(path, outside string) error{
		"symlink":  func(path, outside string) error { return os.Symlink(outside, path) },
		"link":     func(path, outside string) error { return os.Link(outside, path) },
		"fifo":     func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"folder":   func(path, _ string) error { return os.MkdirAll(filepath.Join(path, "sub"), 0o755) },
		"large":    func(path, _ string) error { return os.WriteFile(path, make([]byte, maxStep+1), 0o600) },
		"bad name": func(path, outside string) error { return os.Symlink(outside, filepath.Join(filepath.Dir(path), "01")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, t.TempDir())
			outside := filepath.Join(t.TempDir(), "outside")
			if err := errors.Join(os.WriteFile(outside, []byte(`{"command":"secret","data":""}`+"\n"), 0o600), os.Mkdir(filepath.Join(l.dir, OutputsName), 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := place(l.file(1), outside); err != nil {
				t.Fatal(err)
			}
			if name != "bad name" && name != "link" {
				if list, err := l.Read(1); err == nil || len(list) > 0 {
					t.Errorf("%v, %v", list, err)
				}
			}
			l.keep(1, text("one", "1")) // it is put there while the log is open
			l.is(1, `one="1"`)
			if err := os.Remove(l.file(1)); err != nil {
				t.Fatal(err)
			}
			if name != "bad name" {
				if err := place(l.file(1), outside); err != nil {
					t.Fatal(err)
				}
			}
			newLab(t, l.dir) // and before it is opened
			if left, err := os.ReadDir(filepath.Join(l.dir, OutputsName)); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
			if b, err := os.ReadFile(outside); err != nil || len(b) != 31 {
				t.Errorf("outside: %q, %v", b, err)
			}
		})
	}
}

// If the directory is none, nothing is kept, and nothing is written elsewhere.
func TestHostileDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, OutputsName)); err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := OpenOutputs(root.FD())
	if err == nil {
		t.Error("a symlink was opened")
	}
	if err := s.Keep(1, text("one", "1"), all); err == nil {
		t.Error("a symlink was followed")
	}
	if _, err := s.Read(1); !errors.Is(err, format.ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// On a full disk what was kept before stays, and nothing is left of what did not fit.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small disk cannot be mounted here (%v): run this test as root", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	l := newLab(t, dir)
	l.keep(1, text("one", strings.Repeat("1", 100<<10)))
	for range 2 {
		if err := l.Keep(1, text("two", strings.Repeat("2", 100<<10)), all); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("more: %v", err)
		}
		if err := l.Keep(2, text("two", strings.Repeat("2", 100<<10)), all); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("another: %v", err)
		}
		l.is(1, `one="1111111111"`)
		l.is(2, "")
	}
	l.keep(1, text("three", "3")) // there is room for this
	l.is(1, `one="1111111111" three="3"`)
	if again := newLab(t, dir); again.total != l.total {
		t.Errorf("%d bytes, after a restart %d", l.total, again.total)
	}
}

func FuzzDecode(f *testing.F) {
	line, err := encode("", text("one", "1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"command":"x","bytes":-1,"left_out":-2,"cut":9,"data":"AA=="}` + "\n"))
	f.Add([]byte("{}\n[]\nnull\n{\"bytes\":9223372036854775807,\"left_out\":9223372036854775807}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list := decode(b)
		if len(list) > maxCommands {
			t.Fatalf("%d commands", len(list))
		}
		for _, o := range list {
			if o.Bytes < 0 || o.Cut > len(o.Data) || o.LeftOut+int64(len(o.Data)) != o.Bytes || len(o.Data) > format.OutputHead+format.OutputTail {
				t.Fatalf("%+v", o)
			}
			again, err := encode("", o)
			if err != nil || o.Command != "" && len(decode(again)) != 1 {
				t.Fatalf("%q: %v", again, err)
			}
		}
	})
}
