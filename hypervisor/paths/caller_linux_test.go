package paths

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/paths"
	"github.com/codeagent/sandbox/hypervisor"
)

// program plays what runs inside.
type program struct {
	in, out *os.File
	ended   chan struct{}
	kill    sync.Once
	killed  chan struct{}
}

func (p *program) PID() int                    { return 0 }
func (p *program) Terminal() *os.File          { return nil }
func (p *program) Signal(int) error            { return nil }
func (p *program) Resize(uint16, uint16) error { return nil }
func (p *program) Cancel(time.Duration) error {
	p.kill.Do(func() {
		close(p.killed)
		_ = p.in.SetReadDeadline(time.Unix(1, 0))
		_ = p.out.SetWriteDeadline(time.Unix(1, 0))
	})
	return nil
}

func (p *program) Wait(context.Context) (hypervisor.ExitStatus, error) {
	<-p.ended
	return hypervisor.ExitStatus{}, nil
}

// playing is a caller of such programs.
func playing(t *testing.T, serve func(p *program)) *Caller {
	return &Caller{Number: func() int64 { return 1 }, Exec: func(_ context.Context, c hypervisor.Command) (hypervisor.Process, error) {
		if !c.Own || len(c.Argv) != 2 || c.Argv[0] != control.GuestProgram || c.Argv[1] != control.StagePaths {
			t.Errorf("%+v", c)
		}
		p := &program{in: dup(t, c.Stdin), out: dup(t, c.Stdout), ended: make(chan struct{}), killed: make(chan struct{})}
		go func() {
			defer close(p.ended)
			serve(p)
			_, _ = p.in.Close(), p.out.Close()
		}()
		return p, nil
	}}
}

func dup(t *testing.T, f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// honest is the program that there is.
func honest(p *program) { _ = paths.Serve(p.in, p.out, paths.Options{Umask: 0o022}) }

// saying reads the request, and says what it is given.
func saying(frames ...[]byte) func(p *program) {
	return func(p *program) {
		_, _, _ = paths.NewReader(p.in).Next()
		for _, f := range frames {
			if _, err := p.out.Write(f); err != nil {
				return
			}
		}
	}
}

func frame(kind byte, text string) []byte {
	var b bytes.Buffer
	_ = paths.Write(&b, kind, []byte(text))
	return b.Bytes()
}

func TestCalls(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := playing(t, honest)
	name := Text(filepath.Join(dir, "sub/file"))
	content := strings.Repeat("0123456789", 1<<20)
	ready := false
	r, err := c.Do(t.Context(), Request{Op: OpWrite, Path: name}, Handlers{
		Ready: func(r Reply) error { ready = r.Real == name && !r.Existed; return nil },
		Input: func() io.Reader { return strings.NewReader(content) },
	}, nil)
	if err != nil || !ready || r.Info == nil || r.Info.Size != int64(len(content)) {
		t.Fatalf("%+v, %v", r, err)
	}
	var out bytes.Buffer
	if _, err := c.Do(t.Context(), Request{Op: OpRead, Path: name}, Handlers{Ready: func(Reply) error { return nil }, Data: &out}, nil); err != nil || out.String() != content {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	var names []string
	_, err = c.Do(t.Context(), Request{Op: OpList, Path: Text(dir), Depth: 2, Limit: 10}, Handlers{Entries: func(list []Info) error {
		for _, i := range list {
			names = append(names, string(i.Path))
		}
		return nil
	}}, nil)
	if err != nil || strings.Join(names, " ") != "sub sub/file" {
		t.Errorf("%q, %v", names, err)
	}
	for op, want := range map[string]error{OpStat: fs.ErrNotExist, OpRead: fs.ErrNotExist, OpRemove: syscall.ENOENT} {
		if _, err := c.Do(t.Context(), Request{Op: op, Path: Text(filepath.Join(dir, "none"))}, Handlers{Ready: func(Reply) error { return nil }}, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if _, err := c.Do(t.Context(), Request{Op: OpRead, Path: "/dev/null"}, Handlers{Ready: func(Reply) error { return nil }}, nil); !errors.Is(err, ErrIrregular) {
		t.Errorf("%v", err)
	}
	refused := errors.New("refused")
	if _, err := c.Do(t.Context(), Request{Op: OpRemove, Path: name}, Handlers{Ready: func(Reply) error { return refused }}, nil); err != refused {
		t.Errorf("%v", err)
	}
	vanished := errors.New("vanished")
	_, err = c.Do(t.Context(), Request{Op: OpWrite, Path: name}, Handlers{
		Ready: func(Reply) error { return nil },
		Input: func() io.Reader {
			return io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { return 0, vanished }))
		},
	}, nil)
	if err != vanished {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(string(name)); err != nil || string(b) != content {
		t.Errorf("%d bytes are left, %v", len(b), err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Whatever a hostile guest says in place of an answer is an error, and nobody waits for it.
func TestHostileAnswers(t *testing.T) {
	long := frame(paths.FrameDone, "")
	long[1] = 0xff
	info := `{"type":"file","size":1,"mode":420,"uid":0,"gid":0,"mtime_ns":0`
	for what, frames := range map[string][][]byte{
		"nothing":              nil,
		"a part of a frame":    {{paths.FrameDone, 0, 0, 0, 9, '{'}},
		"a frame of 4 GiB":     {long},
		"no JSON":              {frame(paths.FrameDone, "{")},
		"a type of another":    {frame(paths.FrameDone, `{"info":{"type":7}}`)},
		"an unknown type":      {frame(paths.FrameDone, `{"info":{"type":"hostile"}}`)},
		"a size below 0":       {frame(paths.FrameDone, `{"info":{"type":"file","size":-1}}`)},
		"a relative path":      {frame(paths.FrameReady, `{"real":"etc"}`)},
		"a path that is none":  {frame(paths.FrameReady, `{"real":"/work/../etc"}`)},
		"ready twice":          {frame(paths.FrameReady, `{}`), frame(paths.FrameReady, `{}`)},
		"data before its time": {frame(paths.FrameData, "x")},
		"an unknown kind":      {frame('?', "")},
		"what is ours to say":  {frame(paths.FrameGo, "")},
		"a list to the top":    {frame(paths.FrameList, `[`+info+`,"path":"/etc/passwd"}]`)},
		"a list from above":    {frame(paths.FrameList, `[`+info+`,"path":"../x"}]`)},
		"a list of nothing":    {frame(paths.FrameList, `[`+info+`}]`)},
		"a name with a NUL":    {frame(paths.FrameList, `[`+info+`,"path":"a\u0000b"}]`)},
		"an unknown event":     {frame(paths.FrameReady, `{}`), frame(paths.FrameEvents, `[{"type":"hostile","path":"x"}]`)},
		"an event elsewhere":   {frame(paths.FrameReady, `{}`), frame(paths.FrameEvents, `[{"type":"create","path":"../x"}]`)},
	} {
		for _, op := range []string{OpRead, OpRemove} {
			_, err := playing(t, saying(frames...)).Do(t.Context(), Request{Op: op, Path: "/work"}, Handlers{
				Ready: func(Reply) error { return nil }, Data: io.Discard, Entries: func([]Info) error { return nil }, Events: func([]Event) error { return nil },
			}, nil)
			if !errors.Is(err, ErrGuest) {
				t.Errorf("%s to %s: %v", what, op, err)
			}
		}
	}
	for text, want := range map[string]error{`{"errno":"EHOSTILE","error":"\u001b[2J"}`: syscall.EIO, `{"errno":"EINVAL"}`: fs.ErrInvalid, `{"errno":"EACCES"}`: fs.ErrPermission} {
		_, err := playing(t, saying(frame(paths.FrameDone, text))).Do(t.Context(), Request{Op: OpStat, Path: "/x"}, Handlers{}, nil)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A program that does not end is killed when nobody wants it any more, and when it says too much.
func TestProgramThatStays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	silent := func(p *program) {
		_, _, _ = paths.NewReader(p.in).Next()
		close(began)
		<-p.killed // it ignores the end of what comes
	}
	go func() { <-began; cancel() }()
	if _, err := playing(t, silent).Do(ctx, Request{Op: OpStat, Path: "/x"}, Handlers{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	endless := func(p *program) {
		_, _, _ = paths.NewReader(p.in).Next()
		for {
			if _, err := p.out.Write(frame(paths.FrameList, "[]")); err != nil {
				return
			}
		}
	}
	enough := errors.New("enough")
	n := 0
	_, err := playing(t, endless).Do(t.Context(), Request{Op: OpList, Path: "/x"}, Handlers{Entries: func([]Info) error {
		if n++; n > 10 {
			return enough
		}
		return nil
	}}, nil)
	if err != enough {
		t.Errorf("%v", err)
	}
}

// What ends the program may be asked for at any time.
func TestKill(t *testing.T) {
	kill := make(chan func(), 1)
	stays := func(p *program) {
		r := paths.NewReader(p.in)
		for {
			if _, _, err := r.Next(); err != nil {
				return
			}
		}
	}
	go func() { (<-kill)() }()
	if _, err := playing(t, stays).Do(t.Context(), Request{Op: OpStat, Path: "/x"}, Handlers{}, func(f func()) { kill <- f }); !errors.Is(err, ErrGuest) {
		t.Errorf("%v", err)
	}
}

// FuzzAnswers: whatever comes, there is an end of it, and what is passed on is what it should be.
func FuzzAnswers(f *testing.F) {
	f.Add(frame(paths.FrameDone, `{"info":{"type":"file"}}`))
	f.Add(append(frame(paths.FrameReady, `{"real":"/x"}`), frame(paths.FrameData, "abc")...))
	f.Add(append(frame(paths.FrameList, `[{"path":"a/b","type":"directory"}]`), frame(paths.FrameDone, `{"errno":"ENOENT"}`)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &running{ctx: t.Context(), req: Request{Op: OpRead}}
		in := paths.NewReader(bytes.NewReader(b))
		h := Handlers{
			Ready: func(Reply) error { return nil }, Data: io.Discard,
			Entries: func(list []Info) error {
				for _, i := range list {
					if !filepath.IsLocal(string(i.Path)) || i.Size < 0 || i.Mode > 0o7777 {
						t.Errorf("%+v", i)
					}
				}
				return nil
			},
			Events: func(list []Event) error {
				for _, e := range list {
					if e.Type != "overflow" && !filepath.IsLocal(string(e.Path)) {
						t.Errorf("%+v", e)
					}
				}
				return nil
			},
		}
		for {
			kind, payload, err := in.Next()
			if err != nil {
				return
			}
			if kind == paths.FrameDone {
				_, _ = r.done(payload)
				return
			}
			if r.take(kind, payload, h) != nil {
				return
			}
		}
	})
}
