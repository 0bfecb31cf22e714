package paths

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/paths"
	"github.com/codeagent/sandbox/hypervisor"
)

// What is asked for and answered: see guest/paths.
type (
	Request = paths.Request
	Reply   = paths.Reply
	Info    = paths.Info
	Event   = paths.Event
	Text    = paths.Text
)

// The operations.
const (
	OpStat   = paths.OpStat
	OpList   = paths.OpList
	OpRead   = paths.OpRead
	OpMkdir  = paths.OpMkdir
	OpMove   = paths.OpMove
	OpRemove = paths.OpRemove
	OpWrite  = paths.OpWrite
	OpWatch  = paths.OpWatch
)

// ErrGuest: what runs inside has not answered as it should have.
var ErrGuest = errors.New("the program inside that looks at files gave no answer that makes sense")

// ErrIrregular: what was to be read or written is neither a regular file nor a directory.
var ErrIrregular = errors.New("not a regular file")

// ErrSilent: the program inside has been stopped, or hangs. It was ended.
var ErrSilent = fmt.Errorf("%w: it has said nothing for a while, as if somebody inside had stopped it, and was ended", ErrGuest)

// DefaultSilence is how long the program may say nothing.
const DefaultSilence = 6 * paths.AliveEvery

// Caller asks for what there is to ask. It is safe for concurrent use.
type Caller struct {
	// Exec starts a command, as [hypervisor.Guest] does.
	Exec func(context.Context, hypervisor.Command) (hypervisor.Process, error)
	// Number gives each command its id.
	Number func() int64
	// Silence is how long the program may say nothing while it is waited for, and take nothing of what is sent; 0 means [DefaultSilence]. A watch may be silent.
	Silence time.Duration
}

// Handlers take what comes before the answer. They are called one at a time; their error ends the call and is returned.
type Handlers struct {
	// Ready is told what was found: before something is changed, or read, and when a watch has begun. Nothing is changed if it fails.
	Ready func(r Reply) error
	// Input is what a write writes. It is read after Ready.
	Input func() io.Reader
	// Data gets what is read, Entries a list in parts, Events what happens.
	Data    io.Writer
	Entries func([]Info) error
	Events  func([]Event) error
	// Device is that of the folder in which a file is read or written ([DeviceOf]), if the guest's processes are the host's, and 0 otherwise. If the file is on it, and not little, the file itself comes in place of its content: Lent takes
	// it over, to be read; it comes after Ready, whose Info has the size that it has. Fill fills it, in place of Input, and does not keep it.
	Device uint64
	Lent   func(f *os.File)
	Fill   func(f *os.File) error
}

// patience is how long the program may take back what it has begun, once it is not wanted any more.
const patience = time.Second

// Do asks for one thing. started, which may be nil, is given what ends it, before anything is done: that may be called more than once, from any goroutine. The error is one of [Handlers], ctx's, [ErrIrregular], a syscall.Errno (fs.ErrInvalid for
// EINVAL) that the request came to, [ErrGuest], or that of a guest in which nothing can be started. What ctx ends may have been done, or in part.
func (c *Caller) Do(ctx context.Context, r Request, h Handlers, started func(kill func())) (Reply, error) {
	run, err := c.start(ctx)
	if err != nil {
		return Reply{}, err
	}
	defer run.end()
	if started != nil {
		started(func() { _ = run.process.Cancel(0) })
	}
	reply, err := run.serve(r, h)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	return reply, err
}

// running is the program while it runs.
type running struct {
	ctx     context.Context
	process hypervisor.Process
	to      *os.File // its stdin
	from    incoming // its stdout
	over    chan struct{}
	stop    func() bool
	req     Request
	ready   bool // it has said so
	fed     bool // it has got what there is to write
	silence time.Duration
	silent  atomic.Bool // it was ended for that
}

// incoming is what comes of the program. take returns the descriptor that came last, if it may be used; see wire_linux.go.
type incoming interface {
	io.ReadCloser
	take(device uint64, write bool) (*os.File, error)
}

func (c *Caller) start(ctx context.Context) (*running, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := channel()
	if err != nil {
		return nil, errors.Join(err, in.Close(), to.Close())
	}
	p, err := c.Exec(ctx, hypervisor.Command{
		ID: c.Number(), Argv: []string{control.GuestProgram, control.StagePaths}, Dir: "/", Stdin: in, Stdout: out, Own: true,
	})
	if err != nil {
		return nil, errors.Join(err, in.Close(), to.Close(), from.Close(), out.Close())
	}
	r := &running{ctx: ctx, process: p, to: to, from: from, over: make(chan struct{}), silence: cmp.Or(c.Silence, DefaultSilence)}
	go func() {
		defer close(r.over)
		_, _ = p.Wait(context.WithoutCancel(ctx)) // it ends, or its guest does
		_, _ = in.Close(), out.Close()            // not before: a machine's streams are copied
	}()
	r.stop = context.AfterFunc(ctx, r.giveUp)
	return r, nil
}

// giveUp lets the program take back what it has begun, and kills it if that takes long.
func (r *running) giveUp() {
	_ = r.to.Close()
	soon := time.AfterFunc(patience, func() { _ = r.process.Cancel(0) })
	go func() {
		<-r.over
		soon.Stop()
	}()
}

// end returns when the program has ended.
func (r *running) end() {
	if r.stop() {
		r.giveUp()
	}
	_ = r.from.Close() // who still writes fails
	<-r.over
}

// serve asks, and takes what comes.
func (r *running) serve(req Request, h Handlers) (Reply, error) {
	if h.Lent != nil || h.Fill != nil {
		req.Lend = h.Device
	}
	r.req = req
	if err := paths.WriteJSON(r.to, paths.FrameRequest, req); err != nil {
		return Reply{}, r.broken(err)
	}
	in := paths.NewReader(r.from)
	for {
		hears := r.impatient()
		kind, payload, err := in.Next()
		hears()
		switch {
		case err != nil:
			return Reply{}, r.broken(err)
		case kind == paths.FrameDone:
			return r.done(payload)
		case kind == paths.FrameAlive:
			continue
		}
		if err := r.take(kind, payload, h); err != nil {
			return Reply{}, err
		}
	}
}

// broken is the error about a program that has gone.
func (r *running) broken(err error) error {
	if r.silent.Load() {
		return ErrSilent
	}
	return fmt.Errorf("%w: %w", ErrGuest, err)
}

// impatient ends the program unless what it returns is called soon. A program that was stopped would hold up its step, and all that waits for that.
func (r *running) impatient() (hears func()) {
	if r.req.Op == OpWatch {
		return func() {}
	}
	t := time.AfterFunc(r.silence, func() {
		r.silent.Store(true)
		_ = r.process.Cancel(0) // it may have ended
	})
	return func() { t.Stop() }
}

// done is the answer.
func (r *running) done(payload []byte) (Reply, error) {
	reply, err := paths.Parse[Reply](payload)
	if err == nil {
		err = r.check(&reply)
	}
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrGuest, err)
	}
	return reply, problem(&reply)
}

// take handles what comes before the answer.
func (r *running) take(kind byte, payload []byte, h Handlers) error {
	switch {
	case kind == paths.FrameReady && !r.ready && h.Ready != nil:
		r.ready = true
		reply, err := paths.Parse[Reply](payload)
		if err == nil {
			err = r.check(&reply)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrGuest, err)
		}
		return r.begin(reply, h)
	case kind == paths.FrameTake && r.ready && !r.fed && r.req.Op == OpWrite && r.req.Lend != 0:
		r.fed = true
		reply, err := paths.Parse[Reply](payload)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrGuest, err)
		}
		return r.fill(reply, h)
	case kind == paths.FrameData && r.ready && h.Data != nil:
		_, err := h.Data.Write(payload)
		return err
	case kind == paths.FrameList && h.Entries != nil:
		return part(payload, r.checkInfo, h.Entries)
	case kind == paths.FrameEvents && r.ready && h.Events != nil:
		return part(payload, checkEvent, h.Events)
	}
	return fmt.Errorf("%w: an unexpected frame %q", ErrGuest, kind)
}

// part gives a list to who takes it, once all of it was looked at.
func part[T any](payload []byte, check func(*T) error, give func([]T) error) error {
	list, err := paths.Parse[[]T](payload)
	for i := range list {
		if err == nil {
			err = check(&list[i])
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGuest, err)
	}
	return give(list)
}

// begin has the program do what it is ready for. One that takes no more has an answer that says why.
func (r *running) begin(reply Reply, h Handlers) error {
	var f *os.File
	if reply.Lent {
		var err error
		if f, err = r.borrow(&reply); err != nil {
			return fmt.Errorf("%w: %w", ErrGuest, err)
		}
	}
	err := h.Ready(reply)
	switch {
	case err == nil && f != nil:
		h.Lent(f)
	case f != nil:
		_ = f.Close() // it was for reading
	}
	if err != nil {
		return err
	}
	if r.req.Op == OpRead || r.req.Op == OpWatch {
		return nil
	}
	if r.send(paths.FrameGo) && h.Input != nil && r.req.Lend == 0 {
		return r.feed(h)
	}
	return nil
}

// borrow takes the file that is to be read, and corrects how long it is.
func (r *running) borrow(reply *Reply) (*os.File, error) {
	if r.req.Op != OpRead || r.req.Lend == 0 || reply.Info == nil {
		return nil, errors.New("a file that was not asked for")
	}
	f, err := r.from.take(r.req.Lend, false)
	if err != nil {
		return nil, err
	}
	if reply.Info.Size, err = f.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// send sends a frame without a payload, and reports whether it was taken.
func (r *running) send(kind byte) bool { return paths.Write(&patient{r}, kind, nil) == nil }

// feed sends what there is to write.
func (r *running) feed(h Handlers) error {
	in := &input{in: h.Input()}
	_, err := paths.Copy(&patient{r}, in, func() error { return r.ctx.Err() })
	switch {
	case in.err != nil:
		return in.err // and so it is not the end of what was to be written
	case err == nil:
		r.send(paths.FrameEnd)
	}
	return nil
}

// fill writes into the file that the program has lent, or else sends what there is to write.
func (r *running) fill(reply Reply, h Handlers) error {
	if !reply.Lent {
		return r.feed(h)
	}
	f, err := r.from.take(r.req.Lend, true)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGuest, err)
	}
	err = h.Fill(f)
	if cerr := f.Close(); err == nil { // before the program goes on: as long as it is open, somebody writes to the file
		err = cerr
	}
	if err == nil {
		r.send(paths.FrameEnd)
	}
	return err
}

// patient writes to the program as long as that takes something.
type patient struct{ *running }

// Write implements [io.Writer].
func (p *patient) Write(b []byte) (int, error) {
	defer p.impatient()()
	return p.to.Write(b)
}

// input tells an error of what is read from one of where it goes.
type input struct {
	in  io.Reader
	err error
}

func (i *input) Read(b []byte) (int, error) {
	n, err := i.in.Read(b)
	if err != nil && err != io.EOF {
		i.err = err
	}
	return n, err
}

// check looks at an answer.
func (r *running) check(reply *Reply) error {
	for _, p := range []Text{reply.Real, reply.RealTo} {
		if p != "" && (!path.IsAbs(string(p)) || path.Clean(string(p)) != string(p) || strings.IndexByte(string(p), 0) >= 0) {
			return fmt.Errorf("%.100q is no path", string(p))
		}
	}
	if reply.Info == nil {
		return nil
	}
	reply.Info.Path = "."
	return r.checkInfo(reply.Info)
}

// checkInfo looks at the description of a file.
func (r *running) checkInfo(i *Info) error {
	if err := local(i.Path); err != nil {
		return err
	}
	if !known(i.Type) || i.TargetType != "" && !known(i.TargetType) {
		return fmt.Errorf("%.100q is no type", i.Type)
	}
	if i.Size < 0 {
		return fmt.Errorf("a size of %d", i.Size)
	}
	i.Mode &= 0o7777
	return nil
}

func known(kind string) bool {
	return kind == "file" || kind == "directory" || kind == "symlink" || kind == "other"
}

// checkEvent looks at an event.
func checkEvent(e *Event) error {
	switch e.Type {
	case "create", "write", "remove", "rename", "chmod":
		return local(e.Path)
	case "overflow":
		e.Path = ""
		return nil
	}
	return fmt.Errorf("%.100q is no event", e.Type)
}

// local returns an error unless the path is clean and below what was asked for.
func local(p Text) error {
	s := string(p)
	if s == "" || path.IsAbs(s) || path.Clean(s) != s || s == ".." || strings.HasPrefix(s, "../") || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%.100q is no path below", s)
	}
	return nil
}
