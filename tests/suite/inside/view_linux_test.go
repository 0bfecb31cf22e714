package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// Outside of the folders, what is written is there for commands, and what commands write is there; the host has none of a jail's, and there is no step.
func TestElsewhere(t *testing.T) {
	everywhere(t, func(l *lab) {
		ctx := t.Context()
		file := l.other + "/new/file"
		if c := l.write(file, "one"); c.Step != 0 || c.Existed || c.Size != 3 || c.Mode != 0o644 || c.Type != api.PathFile {
			t.Errorf("%+v", c)
		}
		if c := l.write(file, "two"); !c.Existed {
			t.Errorf("%+v", c)
		}
		if got := l.works("cat " + file + "; echo by a command > " + l.other + "/theirs; chmod 600 " + l.other + "/theirs; id -un"); !strings.HasPrefix(got, "two") {
			t.Errorf("%q", got)
		}
		if got := l.read(l.other + "/theirs"); got != "by a command\n" {
			t.Errorf("%q", got)
		}
		st, err := l.StatPath(ctx, api.PathRequest{Path: l.other + "/theirs"})
		if user := strings.TrimSpace(l.works("id -un")); err != nil || st.Mode != 0o600 || st.Owner != user || st.Path != l.other+"/theirs" {
			t.Errorf("%+v, %v; %s", st, err, user)
		}
		if _, err := os.Lstat("/tmp/other"); err == nil {
			t.Error("it is on the host")
		}
		list, err := l.ListPath(ctx, api.ListPathRequest{Path: l.other, Depth: 2})
		if err != nil || len(list.Entries) != 3 || list.Entries[1].Path != file || list.Truncated {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := l.MovePath(ctx, api.MovePathRequest{From: file, To: l.other + "/moved/x"}); err != nil {
			t.Error(err)
		}
		if _, err := l.RemovePath(ctx, api.RemovePathRequest{Path: l.other, Recursive: true}); err != nil {
			t.Error(err)
		}
		l.gone(l.other)
		for what, err := range map[string]error{
			"a relative path": second(l.StatPath(ctx, api.PathRequest{Path: "tmp"})),
			"a NUL":           second(l.StatPath(ctx, api.PathRequest{Path: "/tmp/\x00"})),
		} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if l.isolation != "none" { // where root may do it
			_, err := l.WritePath(ctx, api.WritePathRequest{Path: "/usr/lib/x"}, strings.NewReader("x"))
			if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
				t.Errorf("/usr: %v", err)
			}
		}
		if n := l.steps(); n != 0 {
			t.Errorf("%d steps", n)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// In a folder each change is a step of its own, with its tool, that can be undone; all of them together give back what was there.
func TestInFolder(t *testing.T) {
	everywhere(t, func(l *lab) {
		ctx := t.Context()
		before := treesnap.MustTake(t, l.work)
		at := func(p string) string { return filepath.Join(l.work, p) }
		origin := api.Origin{Frontend: "test", Tool: "upload"}
		l.write(at("file"), "other")
		l.write(at("made/dirs/x"), "x")
		_, err := l.MakeDir(ctx, api.MakeDirRequest{Path: at("dir/new/er"), Origin: origin})
		must(t, err)
		_, err = l.MovePath(ctx, api.MovePathRequest{From: at("made"), To: at("moved"), Origin: origin})
		must(t, err)
		c, err := l.RemovePath(ctx, api.RemovePathRequest{Path: at("dir"), Recursive: true, Origin: origin})
		if err != nil || c.Step == 0 {
			t.Fatalf("%+v, %v", c, err)
		}
		if got := l.works("cat file moved/dirs/x; ls"); !strings.HasPrefix(got, "otherx") || strings.Contains(got, "dir\n") {
			t.Errorf("%q", got)
		}
		h, err := l.History(ctx, api.HistoryRequest{})
		if err != nil || len(h) != 5 || h[0].Type != undolog.TypeAPI || !strings.HasPrefix(h[0].Command, "upload ") {
			t.Errorf("%+v, %v", h, err)
		}
		if c, err := l.MakeDir(ctx, api.MakeDirRequest{Path: at("moved")}); err != nil || !c.Existed || c.Step != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		for what, err := range map[string]error{
			"the folder":   second(l.RemovePath(ctx, api.RemovePathRequest{Path: l.work, Recursive: true})),
			"above it":     second(l.RemovePath(ctx, api.RemovePathRequest{Path: l.base, Recursive: true})),
			"it, moved":    second(l.MovePath(ctx, api.MovePathRequest{From: l.work, To: l.other})),
			"over it":      second(l.MovePath(ctx, api.MovePathRequest{From: at("moved"), To: l.work})),
			"into itself":  second(l.MovePath(ctx, api.MovePathRequest{From: at("moved"), To: at("moved/dirs/y")})),
			"over a thing": second(l.MakeDir(ctx, api.MakeDirRequest{Path: at("file")})),
		} {
			if !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := l.steps(); n != 5 {
			t.Errorf("%d steps", n)
		}
		_, err = l.Undo(ctx, api.UndoRequest{Count: 5})
		must(t, err)
		treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work))
		if got := l.read(at("file")); got != "content" {
			t.Errorf("after the undo: %q", got)
		}
	})
}

// Symlinks lead where they lead inside: out of a folder there is no step, into it there is. A move across the border copies, as one step.
func TestBorders(t *testing.T) {
	everywhere(t, func(l *lab) {
		ctx := t.Context()
		_, err := l.MakeDir(ctx, api.MakeDirRequest{Path: l.other})
		must(t, err)
		must(t, errors.Join(os.Symlink(l.other, filepath.Join(l.work, "out")), os.Symlink("/etc/hostname", filepath.Join(l.work, "host"))))
		before := treesnap.MustTake(t, l.work)
		l.works("ln -s " + l.work + " " + l.other + "/in") // a command's step changes nothing in the folder
		if c := l.write(filepath.Join(l.work, "out/x"), "leads out"); c.Step != 0 || l.read(l.other+"/x") != "leads out" {
			t.Errorf("%+v", c)
		}
		out := filepath.Join(l.work, "out/x")
		for what, err := range map[string]error{
			"stat":  second(l.StatPath(ctx, api.PathRequest{Path: out, Within: l.work})),
			"list":  second(l.ListPath(ctx, api.ListPathRequest{Path: filepath.Dir(out), Within: l.work})),
			"read":  l.ReadPath(ctx, api.ReadPathRequest{Path: out, Within: l.work}, io.Discard),
			"write": second(l.WritePath(ctx, api.WritePathRequest{Path: out, Within: l.work}, strings.NewReader("other"))),
			"new":   second(l.WritePath(ctx, api.WritePathRequest{Path: out + "/../new/y", Within: l.work + "/dir"}, strings.NewReader("other"))),
		} {
			if !errors.Is(err, api.ErrOutside) || l.read(out) != "leads out" {
				t.Errorf("%s of what leads out of where it has to be: %v", what, err)
			}
		}
		if _, err := l.ListPath(ctx, api.ListPathRequest{Path: l.work + "/dir", Within: l.work}); err != nil {
			t.Errorf("of what does not: %v", err)
		}
		if l.isolation != "none" { // where a path of the host leads past the bridge
			if c := l.write(l.other+"/in/y", strings.Repeat("leads in", 1<<18)); c.Step == 0 || len(l.read(filepath.Join(l.work, "y"))) != 8<<18 {
				t.Errorf("%+v", c)
			}
		}
		c, err := l.MovePath(ctx, api.MovePathRequest{From: l.other + "/x", To: filepath.Join(l.work, "carried/x")})
		if err != nil || c.Step == 0 {
			t.Errorf("%+v, %v", c, err)
		}
		l.gone(l.other + "/x")
		c, err = l.MovePath(ctx, api.MovePathRequest{From: filepath.Join(l.work, "dir"), To: l.other + "/dir"})
		if err != nil || c.Step == 0 {
			t.Errorf("%+v, %v", c, err)
		}
		if st, err := l.StatPath(ctx, api.PathRequest{Path: l.other + "/dir/below"}); err != nil || st.Type != api.PathDirectory {
			t.Errorf("%+v, %v", st, err)
		}
		_, err = l.Undo(ctx, api.UndoRequest{Count: l.steps()})
		must(t, err)
		treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work))
	})
}

// A client that vanishes in the middle of an upload leaves nothing, and while it is slow nobody waits for it: a command runs, and is a step of its own.
func TestUploadsThatEnd(t *testing.T) {
	everywhere(t, func(l *lab) {
		for _, path := range []string{filepath.Join(l.work, "file"), l.other + "/file"} {
			in, out := io.Pipe()
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, err := l.WritePath(ctx, api.WritePathRequest{Path: path}, in)
				done <- err
			}()
			if _, err := out.Write([]byte(strings.Repeat("half", 1<<19))); err != nil { // more than is in memory
				t.Fatal(err)
			}
			if got := l.works("cat " + filepath.Join(l.work, "file")); got != "content" {
				t.Errorf("%q", got)
			}
			vanished := errors.New("vanished")
			if err := out.CloseWithError(vanished); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, vanished) {
				t.Errorf("%s: %v", path, err)
			}
			cancel()
		}
		l.gone(l.other + "/file")
		list, err := l.ListPath(t.Context(), api.ListPathRequest{Path: l.work, Depth: 3})
		if err != nil || len(list.Entries) != 3 {
			t.Errorf("%+v, %v", list, err)
		}
		if n := l.steps(); n != 0 {
			t.Errorf("%d steps", n)
		}
	})
}

// While a command runs, a change takes part in its step.
func TestBesideACommand(t *testing.T) {
	everywhere(t, func(l *lab) {
		before := treesnap.MustTake(t, l.work)
		st, err := l.StartCommand(t.Context(), api.CommandRequest{Argv: []string{"sh", "-c", "echo x > theirs; read line"}, Stdin: true})
		must(t, err)
		if c := l.write(filepath.Join(l.work, "ours"), "x"); c.Step != st.Step {
			t.Errorf("%+v, the command's is %d", c, st.Step)
		}
		if _, err := l.Undo(t.Context(), api.UndoRequest{Count: 1}); !errors.Is(err, undolog.ErrBusy) && !errors.Is(err, messages.ErrBusy) {
			t.Errorf("%v", err)
		}
		must(t, l.CloseInput(t.Context(), api.CommandNumber{Number: st.Number}))
		must(t, l.FollowCommand(t.Context(), api.FollowRequest{Number: st.Number}, func(api.CommandEvent) error { return nil }))
		_, err = l.Undo(t.Context(), api.UndoRequest{Count: 1})
		must(t, err)
		treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work))
	})
}

// What happens in a directory is told, whoever does it: a command, a client, and outside of folders as well.
func TestWatch(t *testing.T) {
	everywhere(t, func(l *lab) {
		_, err := l.MakeDir(t.Context(), api.MakeDirRequest{Path: l.other})
		must(t, err)
		for _, dir := range []string{l.work, l.other} {
			ctx, cancel := context.WithCancel(t.Context())
			ready, seen, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				done <- l.WatchPath(ctx, api.WatchPathRequest{Path: dir, Recursive: true, Ready: func() { close(ready) }}, func(e api.PathEvent) error {
					if e.Path == "watched/last" && e.Type == api.PathCreated {
						close(seen)
					}
					return nil
				})
			}()
			select {
			case <-ready:
			case err := <-done:
				t.Fatalf("%s: %v", dir, err)
			}
			in := "cd " + dir + "; "
			if dir == l.work {
				in = "" // without isolation its path of the host leads past the bridge
			}
			l.works(in + "mkdir watched")
			if _, err := l.WritePath(ctx, api.WritePathRequest{Path: dir + "/watched/last"}, strings.NewReader("x")); err != nil {
				t.Error(err)
			}
			select {
			case <-seen:
			case <-time.After(patience):
				t.Fatalf("%s: nothing is told", dir)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
	})
}

// What is large is streamed: it is the same behind it, and its undo is exact.
func TestLarge(t *testing.T) {
	everywhere(t, func(l *lab) {
		const size = 24 << 20
		for _, path := range []string{filepath.Join(l.work, "large"), l.other + "/large"} {
			if _, err := l.WritePath(t.Context(), api.WritePathRequest{Path: path}, io.LimitReader(&counting{}, size)); err != nil {
				t.Fatal(err)
			}
			opened := api.PathInfo{}
			to := &counting{t: t}
			err := l.ReadPath(t.Context(), api.ReadPathRequest{Path: path, Open: func(i api.PathInfo) error { opened = i; return nil }}, to)
			if err != nil || to.n != size || opened.Size != size {
				t.Errorf("%d bytes, %+v, %v", to.n, opened, err)
			}
		}
	})
}

// A large file that is replaced is put back by an undo as it was; a part of it is what it should be.
func TestLargeReplaced(t *testing.T) {
	everywhere(t, func(l *lab) {
		path := filepath.Join(l.work, "large")
		must(t, os.WriteFile(path, bytes.Repeat([]byte("before"), 1<<19), 0o640))
		before := treesnap.MustTake(t, l.work)
		for _, size := range []int64{5<<20 + 7, 2 << 20} {
			c, err := l.WritePath(t.Context(), api.WritePathRequest{Path: path}, io.LimitReader(&counting{}, size))
			if err != nil || !c.Existed || c.Size != size || c.Mode != 0o640 || c.Step == 0 {
				t.Fatalf("%+v, %v", c, err)
			}
		}
		to := &counting{t: t, n: 1 << 20}
		if err := l.ReadPath(t.Context(), api.ReadPathRequest{Path: path, Offset: 1 << 20, Limit: 4 << 10}, to); err != nil || to.n != 1<<20+4<<10 {
			t.Errorf("up to %d, %v", to.n, err)
		}
		if err := l.ReadPath(t.Context(), api.ReadPathRequest{Path: path, Offset: 3 << 20}, to); err != nil || to.n != 1<<20+4<<10 {
			t.Errorf("behind the end: up to %d, %v", to.n, err)
		}
		_, err := l.Undo(t.Context(), api.UndoRequest{Count: 2})
		must(t, err)
		treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.work))
	})
}

// A limit of how large files may become inside holds for what is written there by a client, too.
func TestLargeAndLimited(t *testing.T) {
	l := newLab(t, "mediated", func(c *api.Config) { c.Resources.FileBytes = 2 << 20 })
	path := filepath.Join(l.work, "file")
	_, err := l.WritePath(t.Context(), api.WritePathRequest{Path: path}, io.LimitReader(&counting{}, 5<<20))
	if !errors.Is(err, syscall.EFBIG) || l.read(path) != "content" || l.steps() != 0 {
		t.Errorf("%v, %q, %d steps", err, l.read(path), l.steps())
	}
}

// A file that becomes shorter while it is read is an error, and of one that becomes longer comes what there was.
func TestWhileItChanges(t *testing.T) {
	everywhere(t, func(l *lab) {
		for size, want := range map[int64]error{1 << 20: io.ErrUnexpectedEOF, 40 << 20: nil} {
			name := fmt.Sprint(size)
			l.works("head -c 33554432 /dev/zero >" + name) // inside: what is made outside may be told while it is half there
			path := filepath.Join(l.work, name)
			to := &changing{change: func() error { return os.Truncate(path, size) }}
			if err := l.ReadPath(t.Context(), api.ReadPathRequest{Path: path}, to); !errors.Is(err, want) || want == nil && to.n != 32<<20 {
				t.Errorf("%d bytes meanwhile: %d, %v", size, to.n, err)
			}
		}
		if l.isolation != "none" { // it has the host's
			var b bytes.Buffer
			opened := int64(-1)
			err := l.ReadPath(t.Context(), api.ReadPathRequest{Path: "/proc/self/status", Open: func(i api.PathInfo) error { opened = i.Size; return nil }}, &b)
			if err != nil || opened != 0 || !strings.Contains(b.String(), "Pid:") {
				t.Errorf("%d, %q, %v", opened, b.String(), err)
			}
		}
	})
}

// changing changes something when it gets the first bytes.
type changing struct {
	change func() error
	n      int
}

func (c *changing) Write(b []byte) (int, error) {
	if c.n == 0 {
		if err := c.change(); err != nil {
			return 0, err
		}
	}
	c.n += len(b)
	return len(b), nil
}

// counting is a stream in which each byte says where it is, about.
type counting struct {
	t *testing.T
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte((c.n + i) % 251)
	}
	c.n += len(b)
	return len(b), nil
}

func (c *counting) Write(b []byte) (int, error) {
	for i := range b {
		if b[i] != byte((c.n+i)%251) {
			c.t.Fatalf("another byte at %d", c.n+i)
		}
	}
	c.n += len(b)
	return len(b), nil
}
