package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// fake is a session whose commands run as they are, and in which nothing is undone: for what this package does itself. Real ones are in tests/suite/e2b.
type fake struct {
	api.Live // panics where a test does not expect a call
	id, dir  string
	done     chan struct{}
	closed   atomic.Bool
	spent    atomic.Int64 // of processors

	mu       sync.Mutex
	commands []*fakeCommand
	attached []*fakeAttachment
	marks    []undolog.Mark
	busy     bool
}

type fakeCommand struct {
	st    api.CommandStatus
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   chan api.CommandEvent
}

var _ api.Live = (*fake)(nil)

func (f *fake) CPUTime(context.Context) (time.Duration, error) {
	return time.Duration(f.spent.Load()), nil
}

func (f *fake) ID() string            { return f.id }
func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) Close(context.Context) error {
	if f.closed.CompareAndSwap(false, true) {
		close(f.done)
	}
	return nil
}

func (f *fake) Status(context.Context) (api.Status, error) {
	return api.Status{Session: f.id, State: "active", Directories: []api.DirectoryStatus{{Path: f.dir, Access: "read_write", UndoDir: filepath.Join(filepath.Dir(f.dir), "log")}}}, nil
}

// fakeAttachment is the actor of a connection, called as it is told.
type fakeAttachment struct {
	mu       sync.Mutex
	state    api.Connection
	told     int
	detached atomic.Bool
}

func (a *fakeAttachment) Tell(m any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told++
	a.state.Receive(m)
}
func (a *fakeAttachment) Detach() { a.detached.Store(true) }

func (f *fake) Attach(_ context.Context, c api.Frontend) (api.Attachment, error) {
	a := &fakeAttachment{}
	a.state = c.New(a.Tell)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attached = append(f.attached, a)
	return a, nil
}

func (f *fake) Mark(_ context.Context, r api.MarkRequest) ([]undolog.Mark, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy {
		return nil, messages.ErrBusy
	}
	if r.Name != "" {
		f.marks = append(f.marks, undolog.Mark{Name: r.Name})
	}
	return f.marks, nil
}

func (f *fake) Undo(_ context.Context, r api.UndoRequest) (api.UndoResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.busy:
		return api.UndoResult{}, messages.ErrBusy
	case r.To == "barred":
		return api.UndoResult{}, &undolog.BarrierError{Barriers: []undolog.Barrier{{ID: 1, Paths: []string{"a"}}}}
	case r.Count > 10:
		return api.UndoResult{}, undolog.ErrNothing
	}
	return api.UndoResult{Directory: f.dir, PathCount: r.Count}, nil
}

func (f *fake) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

func (f *fake) StartCommand(_ context.Context, r api.CommandRequest) (api.CommandStatus, error) {
	if err := r.Validate(); err != nil {
		return api.CommandStatus{}, err
	}
	c := &fakeCommand{cmd: exec.Command(r.Argv[0], r.Argv[1:]...), out: make(chan api.CommandEvent, 1000)}
	c.cmd.Dir, c.cmd.Env = r.Dir, r.Env
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return api.CommandStatus{}, err
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return api.CommandStatus{}, err
	}
	if r.Stdin {
		if c.stdin, err = c.cmd.StdinPipe(); err != nil {
			return api.CommandStatus{}, err
		}
	}
	if err := c.cmd.Start(); err != nil {
		return api.CommandStatus{}, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	f.mu.Lock()
	c.st = api.CommandStatus{Number: int64(len(f.commands) + 1), Argv: r.Argv, Dir: r.Dir, Tag: r.Tag, State: api.CommandRunning, Stdin: r.Stdin, PID: c.cmd.Process.Pid}
	f.commands = append(f.commands, c)
	st := c.st
	f.mu.Unlock()
	var copying sync.WaitGroup
	for name, from := range map[string]io.Reader{api.StreamStdout: stdout, api.StreamStderr: stderr} {
		copying.Go(func() {
			for buf := make([]byte, 4096); ; {
				n, err := from.Read(buf)
				if n > 0 {
					c.out <- api.CommandEvent{Stream: name, Data: bytes.Clone(buf[:n])}
				}
				if err != nil {
					return
				}
			}
		})
	}
	go func() {
		copying.Wait()
		_ = c.cmd.Wait()
		end := api.CommandEnd{ExitCode: c.cmd.ProcessState.ExitCode(), Outcome: messages.OutcomeCompleted, Signal: signalOf(c.cmd.ProcessState)}
		f.mu.Lock()
		c.st.State, c.st.Ended = api.CommandEnded, &end
		f.mu.Unlock()
		c.out <- api.CommandEvent{Ended: &end}
	}()
	return st, nil
}

func (f *fake) Commands(context.Context) (list []api.CommandStatus, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.commands {
		list = append(list, c.st)
	}
	return list, nil
}

func (f *fake) command(number int64) *fakeCommand {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commands[number-1]
}

func (f *fake) FollowCommand(ctx context.Context, r api.FollowRequest, emit func(api.CommandEvent) error) error {
	c := f.command(r.Number)
	for {
		select {
		case e := <-c.out:
			if err := emit(e); err != nil || e.Ended != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fake) InputCommand(_ context.Context, r api.CommandInput) error {
	c := f.command(r.Number)
	if c.stdin == nil {
		return fmt.Errorf("%w: it has no stdin", api.ErrCommand)
	}
	_, err := c.stdin.Write(r.Data)
	return err
}

func (f *fake) CloseInput(_ context.Context, r api.CommandNumber) error {
	return f.command(r.Number).stdin.Close()
}

func (f *fake) ResizeCommand(context.Context, api.CommandSize) error { return nil }

func (f *fake) SignalCommand(_ context.Context, r api.CommandSignal) error {
	return f.command(r.Number).cmd.Process.Kill()
}

func (f *fake) StopCommand(context.Context, api.CommandNumber) (api.CommandStatus, error) {
	return api.CommandStatus{}, errors.ErrUnsupported
}

func info(path string) (api.PathInfo, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return api.PathInfo{}, err
	}
	i := api.PathInfo{Path: path, Type: api.PathFile, Size: st.Size(), Mode: uint32(st.Mode().Perm()), Owner: "user", Group: "user", ModTime: st.ModTime()}
	switch {
	case st.IsDir():
		i.Type = api.PathDirectory
	case st.Mode()&fs.ModeSymlink != 0:
		i.Type = api.PathSymlink
		i.Target, _ = os.Readlink(path)
		if to, err := os.Stat(path); err == nil && !to.IsDir() {
			i.TargetType = api.PathFile
		}
	}
	return i, nil
}

func (f *fake) StatPath(_ context.Context, r api.PathRequest) (api.PathInfo, error) {
	return info(r.Path)
}

func (f *fake) ListPath(_ context.Context, r api.ListPathRequest) (l api.PathListing, err error) {
	entries, err := os.ReadDir(r.Path)
	for _, e := range entries {
		i, err := info(filepath.Join(r.Path, e.Name()))
		if err != nil {
			return l, err
		}
		l.Entries = append(l.Entries, i)
	}
	return l, err
}

func (f *fake) MakeDir(_ context.Context, r api.MakeDirRequest) (api.PathChange, error) {
	_, err := os.Stat(r.Path)
	c := api.PathChange{Existed: err == nil}
	if err := os.MkdirAll(r.Path, 0o755); err != nil {
		return c, err
	}
	c.PathInfo, err = info(r.Path)
	return c, err
}

func (f *fake) MovePath(_ context.Context, r api.MovePathRequest) (c api.PathChange, err error) {
	if err := os.Rename(r.From, r.To); err != nil {
		return c, err
	}
	c.PathInfo, err = info(r.To)
	return c, err
}

func (f *fake) RemovePath(_ context.Context, r api.RemovePathRequest) (c api.PathChange, err error) {
	if c.PathInfo, err = info(r.Path); err != nil {
		return c, err
	}
	return c, os.RemoveAll(r.Path)
}

func (f *fake) ReadPath(_ context.Context, r api.ReadPathRequest, out io.Writer) error {
	i, err := info(r.Path)
	if err != nil {
		return err
	}
	if i.Type == api.PathDirectory {
		return api.ErrNotRegular
	}
	if r.Open != nil {
		if err := r.Open(i); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(r.Path)
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}

func (f *fake) WritePath(_ context.Context, r api.WritePathRequest, in io.Reader) (c api.PathChange, err error) {
	b, err := io.ReadAll(in)
	if err != nil {
		return c, err
	}
	if err := os.MkdirAll(filepath.Dir(r.Path), 0o755); err != nil {
		return c, err
	}
	if err := os.WriteFile(r.Path, b, 0o644); err != nil {
		return c, err
	}
	c.PathInfo, err = info(r.Path)
	return c, err
}

// WatchPath tells of one file that is made, and ends with ctx.
func (f *fake) WatchPath(ctx context.Context, r api.WatchPathRequest, emit func(api.PathEvent) error) error {
	r.Ready()
	if err := emit(api.PathEvent{Type: api.PathCreated, Path: "made"}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// rig is a server whose sessions are fakes.
type rig struct {
	t     *testing.T
	s     *Server
	http  *httptest.Server
	clock *actortest.FakeClock
	root  string

	mu    sync.Mutex
	fakes []*fake
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: actortest.NewFakeClock(), root: t.TempDir()}
	o := Options{Root: r.root, Start: r.start, Environ: []string{"PATH=" + os.Getenv("PATH")}, Clock: r.clock}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.s = s
	r.http = httptest.NewUnstartedServer(s)
	r.http.Config.ConnContext, r.http.Config.ConnState = s.connected, s.connection
	r.http.Start()
	t.Cleanup(func() {
		s.drain(context.Background())
		r.http.Close()
		s.unlock()
	})
	return r
}

func (r *rig) start(_ context.Context, q StartRequest) (api.Live, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &fake{id: fmt.Sprintf("s%d", len(r.fakes)+1), dir: q.Folder, done: make(chan struct{})}
	r.fakes = append(r.fakes, f)
	return f, nil
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// call makes a request. Headers are "Name: value".
func (r *rig) call(method, path string, body any, headers ...string) reply {
	r.t.Helper()
	var in io.Reader
	kind := ""
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	case []byte:
		in = bytes.NewReader(b)
	default:
		j, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		in, kind = bytes.NewReader(j), jsonType
	}
	req, err := http.NewRequest(method, r.http.URL+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	res, err := r.http.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, b}
}

// made is a sandbox that a test has made.
type made struct {
	r         *rig
	ID, Token string
	home      string
	fake      *fake
}

func (r *rig) create(body map[string]any) made {
	r.t.Helper()
	a := r.call("POST", "/v2/sandboxes", body)
	if a.status != http.StatusCreated {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	var o wire.Sandbox
	a.into(r.t, &o)
	r.mu.Lock()
	defer r.mu.Unlock()
	return made{r, o.SandboxID, o.EnvdAccessToken, filepath.Join(r.root, sandboxesName, o.SandboxID, homeName), r.fakes[len(r.fakes)-1]}
}

// headers are those of a call within the sandbox.
func (m made) headers(more ...string) []string {
	return append([]string{"E2b-Sandbox-Id: " + m.ID, "E2b-Sandbox-Port: 49983", "X-Access-Token: " + m.Token}, more...)
}

func (m made) rpc(name string, body any) reply {
	return m.r.call("POST", "/"+name, body, m.headers()...)
}

// frame is a message of a stream.
func frame(flags byte, body string) []byte {
	n := len(body)
	return append([]byte{flags, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

// frames are the messages of an answer; the last one is its end.
func frames(t *testing.T, b []byte) (all []string, end string) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < frameHead {
			t.Fatalf("a cut head: %q", b)
		}
		n := int(b[1])<<24 | int(b[2])<<16 | int(b[3])<<8 | int(b[4])
		body := string(b[frameHead : frameHead+n])
		if b[0] == frameEnd {
			return all, body
		}
		all, b = append(all, body), b[frameHead+n:]
	}
	t.Fatal("the stream has no end")
	return nil, ""
}

func (m made) stream(name, message string, more ...string) (all []string, end string) {
	m.r.t.Helper()
	a := m.r.call("POST", "/"+name, frame(0, message), m.headers(append(more, "Content-Type: "+streamType)...)...)
	if a.status != http.StatusOK {
		m.r.t.Fatalf("%d %s", a.status, a.body)
	}
	return frames(m.r.t, a.body)
}

// errorOf is the status and the text of an error in E2B's form.
func errorOf(t *testing.T, a reply) (int, string) {
	t.Helper()
	var e struct {
		Code    int
		Message string
	}
	a.into(t, &e)
	if e.Code != a.status || e.Message == "" {
		t.Errorf("no error of E2B's form: %d %s", a.status, a.body)
	}
	return e.Code, e.Message
}

// rpcErrorOf is the code and the text of an error in Connect's form.
func rpcErrorOf(t *testing.T, body string) rpcErrorBody {
	t.Helper()
	var e struct {
		Error   rpcErrorBody
		Code    string
		Message string
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatal(err)
	}
	if e.Code != "" {
		return rpcErrorBody{e.Code, e.Message}
	}
	return e.Error
}

func contains(t *testing.T, what, part string) {
	t.Helper()
	if !strings.Contains(what, part) {
		t.Errorf("%q is not in %q", part, what)
	}
}
