package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// fake is one live session with one folder, in memory.
type fake struct {
	api.Service // panics where a test does not expect a call

	mu       sync.Mutex
	history  []undolog.Entry // newest first
	undone   int             // times
	pending  []api.Pending
	decided  string
	diff     func(io.Writer) error
	content  func(io.Writer) error
	output   []undolog.CommandOutput
	events   chan api.Event
	heard    int // subscriptions that live
	sessions []api.SessionInfo
	kept     []api.Directory // that have a history
	open     atomic.Int32    // services that [Sources.Open] has given away
	asked    func()          // who has a history

	integrate func(Integration) (Integrated, error)
	putText   func(TextChange) (json.RawMessage, error)
	build     func(context.Context, ImageBuild, func(string)) (json.RawMessage, error)
	network   func() (api.NetworkStatus, error)
}

func newFake() *fake {
	f := &fake{events: make(chan api.Event)}
	f.sessions = []api.SessionInfo{{Session: "s1", Directories: []string{"/work"}}}
	for i := 3; i > 0; i-- {
		f.history = append(f.history, undolog.Entry{Seq: uint64(i), StepID: undolog.StepID(i), Command: "make", AffectedPaths: []string{"a"}, AffectedCount: 1})
	}
	return f
}

func (f *fake) Sessions() ([]api.SessionInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions, nil
}

func (f *fake) Histories() ([]api.Directory, error) {
	if f.asked != nil {
		f.asked()
	}
	return f.kept, nil
}
func (f *fake) Dial(context.Context, api.SessionInfo) (Session, error) { return f, nil }

// Open gives a log to one at a time, as the real ones do.
func (f *fake) Open(_ context.Context, d api.Directory) (api.Service, error) {
	if !f.open.CompareAndSwap(0, 1) {
		return nil, &undolog.LockedError{Dir: d.Path}
	}
	return alone{f}, nil
}

type alone struct{ *fake }

func (a alone) Close(context.Context) error {
	a.open.Store(0)
	return nil
}

func (f *fake) Decisions(api.Directory, int) ([]json.RawMessage, error) { return nil, nil }
func (f *fake) Report(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}
func (f *fake) Integrate(_ context.Context, i Integration) (Integrated, error) {
	return f.integrate(i)
}
func (f *fake) Text(_ context.Context, level, folder string) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"level": level, "file": folder})
}
func (f *fake) PutText(_ context.Context, t TextChange) (json.RawMessage, error) { return f.putText(t) }
func (f *fake) BuildImage(ctx context.Context, b ImageBuild, said func(string)) (json.RawMessage, error) {
	return f.build(ctx, b, said)
}
func (f *fake) Network(context.Context) (api.NetworkStatus, error)                { return f.network() }
func (f *fake) Close(context.Context) error                                       { return nil }
func (f *fake) Inspect(context.Context) (api.Tree, error)                         { return api.Tree{Session: "s1"}, nil }
func (f *fake) GC(context.Context, api.GCRequest) (r undolog.GCResult, err error) { return r, nil }
func (f *fake) Mark(context.Context, api.MarkRequest) ([]undolog.Mark, error)     { return nil, nil }
func (f *fake) Restore(context.Context, api.RestoreRequest) (r api.UndoResult, err error) {
	return r, nil
}

func (f *fake) Status(context.Context) (api.Status, error) {
	return api.Status{Session: "s1", State: "active", Directories: []api.DirectoryStatus{{Path: "/work", Access: "read_write"}}}, nil
}

func (f *fake) History(context.Context, api.HistoryRequest) ([]undolog.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.history, nil
}

func (f *fake) Show(_ context.Context, r api.StepRequest) (undolog.StepDetail, error) {
	for _, e := range f.history {
		if e.StepID == r.Step {
			return undolog.StepDetail{Entry: e, Paths: []undolog.Affected{{Path: "a", Change: "modified", Type: "file"}}}, nil
		}
	}
	return undolog.StepDetail{}, undolog.ErrNoStep
}

func (f *fake) Output(context.Context, api.StepRequest) ([]undolog.CommandOutput, error) {
	return f.output, nil
}

func (f *fake) Diff(_ context.Context, _ api.StepRequest, w io.Writer) error { return f.diff(w) }

func (f *fake) Content(_ context.Context, r api.ContentRequest, w io.Writer) error {
	if f.content == nil {
		return fs.ErrNotExist
	}
	return f.content(w)
}

func (f *fake) undo(r api.UndoRequest) (api.UndoResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.history) < r.Count {
		return api.UndoResult{}, undolog.ErrNothing
	}
	res := api.UndoResult{Steps: f.history[:r.Count], DryRun: r.DryRun}
	if !r.DryRun {
		f.history = f.history[r.Count:]
		f.undone++
	}
	return res, nil
}

func (f *fake) Redo(context.Context, api.UndoRequest) (r api.UndoResult, err error) {
	return r, undolog.ErrNoRedo
}

func (f *fake) Pending(context.Context) ([]api.Pending, error) { return f.pending, nil }

func (f *fake) Decide(_ context.Context, r api.DecideRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decided != "" {
		return &messages.DecidedError{ID: r.ID, By: f.decided}
	}
	f.decided = r.By
	return nil
}

// endsHere is the message of an event that ends the session that it comes to.
const endsHere = "ends here"

func (f *fake) Subscribe(ctx context.Context, tell func(api.Event)) error {
	f.mu.Lock()
	f.heard++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.heard--
		f.mu.Unlock()
	}()
	for {
		select {
		case e := <-f.events:
			if e.Message == endsHere {
				return nil
			}
			tell(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// travels adapt fake to [Sources], whose Undo is not a service's.
type travels struct{ *fake }

func (t travels) Undo(_ context.Context, _ api.Service, _ api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return t.undo(r)
}

func (t travels) Redo(ctx context.Context, _ api.Service, _ api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return t.fake.Redo(ctx, r)
}

func (t travels) Mark(ctx context.Context, _ api.Service, _ api.Directory, r api.MarkRequest) ([]undolog.Mark, error) {
	return t.fake.Mark(ctx, r)
}

func (f *fake) Undo(_ context.Context, r api.UndoRequest) (api.UndoResult, error) { return f.undo(r) }

// lab is a server with a page that is signed in.
type lab struct {
	t    *testing.T
	f    *fake
	s    *Server
	base string
	page *http.Client
	end  func() // of the server: it returns when that has
}

// wait bounds what should happen soon.
const wait = 5 * time.Minute

func newLab(t *testing.T, f *fake) *lab { t.Helper(); return newLabOf(t, f, travels{f}) }

func newLabOf(t *testing.T, f *fake, from Sources) *lab {
	t.Helper()
	return newLabWith(t, f, Options{Sources: from, Version: "test"})
}

func newLabWith(t *testing.T, f *fake, o Options) *lab {
	t.Helper()
	s := New(o)
	l, err := Listen(0, "--port")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	address, err := url.Parse(s.Address(l))
	if err != nil {
		t.Fatal(err)
	}
	go func() { served <- s.Serve(ctx, l) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	with := signed{http.DefaultTransport.(*http.Transport).Clone(), strings.TrimPrefix(address.Fragment, "token=")}
	x := &lab{t: t, f: f, s: s, base: "http://" + address.Host, page: &http.Client{Transport: with, Timeout: wait}, end: end}
	t.Cleanup(with.CloseIdleConnections)
	return x
}

// signed shows a token with each request, as the page does.
type signed struct {
	*http.Transport
	token string
}

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s.Transport.RoundTrip(r)
}

type answer struct {
	status int
	body   string
	header http.Header
}

func (a answer) code() string {
	var e struct{ Error wireError }
	_ = json.Unmarshal([]byte(a.body), &e)
	return e.Error.Code
}

func (x *lab) do(c *http.Client, r *http.Request) answer {
	x.t.Helper()
	res, err := c.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return answer{res.StatusCode, string(b), res.Header}
}

func (x *lab) request(method, path string, body any) *http.Request {
	x.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		x.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(x.t.Context(), method, x.base+path, bytes.NewReader(b))
	if err != nil {
		x.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Sandbox-UI", "1")
	}
	return r
}

func (x *lab) get(path string) answer { x.t.Helper(); return x.do(x.page, x.request("GET", path, nil)) }

func (x *lab) post(path string, body any) answer {
	x.t.Helper()
	return x.do(x.page, x.request("POST", path, body))
}
