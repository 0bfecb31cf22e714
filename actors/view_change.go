package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/paths"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// MakeDir implements [api.Viewer].
func (s *Session) MakeDir(ctx context.Context, r api.MakeDirRequest) (api.PathChange, error) {
	return s.change(ctx, &changing{request: paths.Request{Op: paths.OpMkdir, Path: paths.Text(r.Path), Mode: r.Mode}, tool: "make_dir", from: r.Origin})
}

// MovePath implements [api.Viewer].
func (s *Session) MovePath(ctx context.Context, r api.MovePathRequest) (api.PathChange, error) {
	return s.change(ctx, &changing{request: paths.Request{Op: paths.OpMove, Path: paths.Text(r.From), To: paths.Text(r.To), New: r.NoReplace}, tool: "move", from: r.Origin})
}

// RemovePath implements [api.Viewer].
func (s *Session) RemovePath(ctx context.Context, r api.RemovePathRequest) (api.PathChange, error) {
	return s.change(ctx, &changing{request: paths.Request{Op: paths.OpRemove, Path: paths.Text(r.Path), Recursive: r.Recursive}, tool: "remove", from: r.Origin})
}

// WritePath implements [api.Viewer].
func (s *Session) WritePath(ctx context.Context, r api.WritePathRequest, in io.Reader) (api.PathChange, error) {
	return s.change(ctx, &changing{request: paths.Request{Op: paths.OpWrite, Path: paths.Text(r.Path), Mode: r.Mode, New: r.Create}, tool: "write_file", from: r.Origin, input: in, within: r.Within})
}

// changing is one change by the program inside, and its step if it is in a working folder.
type changing struct {
	request paths.Request
	tool    string
	from    api.Origin
	input   io.Reader // of a write
	within  string    // as in [api.PathRequest]

	s      *Session
	ctx    context.Context
	cancel context.CancelCauseFunc // by who resets the session, or ends all that runs in it
	asked  string
	spool  *spool
	call   *apiCall // once it has a step
	begun  bool     // it may have changed something in a folder

	mu   sync.Mutex
	kill func()
}

// change does it: the program inside finds where it leads to; if that is in a working folder, it is a step, or takes part in the one that is open.
func (s *Session) change(ctx context.Context, c *changing) (change api.PathChange, err error) {
	if s.cfg.Runtime == nil {
		return change, messages.ErrNoMachine
	}
	c.s, c.asked = s, string(c.request.Path)
	if c.request.Path, err = insidePath(c.request.Op, c.asked); err != nil {
		return change, err
	}
	shown := string(c.request.Path)
	if c.request.Op == paths.OpMove {
		if c.request.To, err = insidePath(c.request.Op, string(c.request.To)); err != nil {
			return change, err
		}
		shown = string(c.request.To)
	}
	leave, err := s.viewed.enter(&s.viewed.calls, api.ViewAtOnce)
	if err != nil {
		return change, err
	}
	defer leave()
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	if w := s.folderOf(string(c.request.Path)); w != nil && c.input != nil { // before anything runs: it may come slowly
		if err := c.keep(w); err != nil {
			return change, err
		}
	}
	defer func() { c.spool.close() }()
	h := paths.Handlers{Ready: c.ready}
	if c.input != nil {
		h.Input = func() io.Reader { return c.source() }
	}
	if c.spool.large() {
		h.Device, h.Fill = s.device(c.request.Path), func(f *os.File) error { return c.spool.copy(c.ctx, f) }
	}
	reply, err := s.caller().Do(c.ctx, c.request, h, c.started)
	if c.call != nil {
		did := files.WriteResult{}
		if c.begun {
			did.Touched = []string{shown}
		}
		err = c.call.end(did, err)
		change.Step = c.call.lease.Step
	}
	if err != nil {
		return api.PathChange{}, viewError(c.request.Op, c.asked, err)
	}
	change.PathInfo, change.Existed = pathInfo(shown, reply.Info), reply.Existed
	return change, nil
}

// started is told what ends the program.
func (c *changing) started(kill func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kill = kill
}

// ready is told where the paths lead. It returns when the program may begin.
func (c *changing) ready(r paths.Reply) error {
	if err := within(c.request.Op, c.asked, c.within, r.Real); err != nil {
		return err
	}
	from, to := string(r.Real), string(r.RealTo)
	moves := c.request.Op == paths.OpMove || c.request.Op == paths.OpRemove
	for _, w := range c.s.dirs {
		if dir := hypervisor.GuestPath(w.Config.Path); moves && lexical.Within(dir, from) || to != "" && lexical.Within(dir, to) {
			return &fs.PathError{Op: c.request.Op, Path: c.asked, Err: fmt.Errorf("%w: it is a working folder, or holds one", fs.ErrInvalid)}
		}
	}
	if to != "" && from != to && lexical.Within(to, from) {
		return &fs.PathError{Op: c.request.Op, Path: c.asked, Err: fmt.Errorf("%w: it cannot be moved into itself", fs.ErrInvalid)}
	}
	var in *directory.Directory
	for _, p := range []string{from, to} {
		if w := c.s.folderOf(p); w != nil && p != "" {
			if err := w.Usable(); err != nil {
				return err
			}
			in = w
		}
	}
	if in == nil {
		return nil
	}
	if c.input != nil && c.spool == nil { // a symlink leads there
		if err := c.keep(in); err != nil {
			return err
		}
	}
	return c.admit(in, r)
}

// admit waits until the change may be made, in an open step.
func (c *changing) admit(w *directory.Directory, r paths.Reply) error {
	tool := c.tool
	if c.from.Tool != "" {
		tool = c.from.Tool
	}
	words := []string{c.named(string(r.Real))}
	if r.RealTo != "" {
		words = append(words, c.named(string(r.RealTo)))
	}
	call := &apiCall{cancel: c.cancel, s: c.s, w: w, from: c.from, info: undolog.StepInfo{Type: undolog.TypeAPI, Command: tool + " " + api.ShellQuote(words...), Dir: w.Config.Path}}
	if err := call.admit(c.ctx); err != nil {
		return err
	}
	c.call, c.begun = call, true
	if !call.lease.Joined { // else the command's step fails, and what writes in it fails
		c.mu.Lock()
		defer c.mu.Unlock()
		c.s.steps.Tell(&step.Attach{Lease: call.lease, Cancel: c.kill})
	}
	return nil
}

// named is a path as the history shows it: relative to its folder.
func (c *changing) named(real string) string {
	w := c.s.folderOf(real)
	if w == nil {
		return real
	}
	rel, _ := lexical.Rel(hypervisor.GuestPath(w.Config.Path), real)
	return rel
}

// source is what a write writes.
func (c *changing) source() io.Reader {
	if c.spool != nil {
		return c.spool.reader()
	}
	return c.input
}

// keep takes all of the input, so that no step is open while it comes.
func (c *changing) keep(w *directory.Directory) error {
	if err := w.Usable(); err != nil {
		return err
	}
	sp, err := newSpool(c.ctx, c.input, w.Config.UndoDir)
	c.spool = sp
	return err
}

// spool is a content that has come.
type spool struct {
	small bytes.Buffer
	file  *os.File // nil: small is all of it; else all of it is here
}

// spoolMemory is how much of it is in memory, in bytes.
const spoolMemory = 1 << 20

// spoolBuffer is how much is read at a time of what is more, in bytes.
const spoolBuffer = 256 << 10

// newSpool reads all of in; what is not little it writes to a file without a name in dir.
func newSpool(ctx context.Context, in io.Reader, dir string) (*spool, error) {
	s := &spool{}
	in = &until{ctx, in}
	switch _, err := io.CopyN(&s.small, in, spoolMemory); {
	case errors.Is(err, io.EOF):
		return s, nil
	case err != nil:
		return s, err
	}
	var err error
	if s.file, err = posix.Unnamed(dir); err != nil {
		return s, fmt.Errorf("keep what is to be written: %w", err)
	}
	if _, err = s.small.WriteTo(s.file); err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{s.file}, in, make([]byte, spoolBuffer)) // the file would take less at a time
	}
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	return s, err
}

// until reads until ctx ends.
type until struct {
	ctx context.Context
	in  io.Reader
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.in.Read(b)
}

func (s *spool) reader() io.Reader {
	if s.file == nil {
		return &s.small
	}
	return s.file
}

// large tells whether it is in a file.
func (s *spool) large() bool { return s != nil && s.file != nil }

// copy fills a file with it: within the kernel, and without copying, where the file systems can do that.
func (s *spool) copy(ctx context.Context, to *os.File) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := io.CopyN(to, s.file, lentPiece); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (s *spool) close() {
	if s.large() {
		_ = s.file.Close()
	}
}
